//! Micro-batches: equal parts of a batch, computed one after the other; their losses and gradients are summed.

use indexmap::IndexMap;

use super::{
    StepError,
    builder::{StepArgs, StepBuilder, index},
    scopes::MICRO_BATCHES,
};
use crate::{
    base::{DType, Diagnostic, Diagnostics, Location},
    hlo::{Builder, Iteration, Value, ValueTree, value_tree},
    mesh::WithLogicalSharding,
    model::{
        TrainableId,
        nn::{ModelScope, NextToken, per_token},
    },
};

/// The mean loss and the gradients, summed over micro-batches.
struct LossAndGradients<'b> {
    loss: Value<'b>,
    gradients: IndexMap<TrainableId, Value<'b>>,
}

value_tree! { LossAndGradients { loss, gradients } }

impl StepBuilder<'_> {
    /// The mean loss and the gradient of each trainable tensor, over the batch.
    pub(super) fn batch_loss_and_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        targets: NextToken<'b>,
    ) -> Result<(Value<'b>, IndexMap<TrainableId, Value<'b>>), StepError> {
        let zeros = || LossAndGradients {
            loss: b.scalar(DType::F32, 0.0),
            gradients: self.zero_gradients(b, self.catalog.ids()),
        };
        let LossAndGradients { loss, gradients } =
            self.sum_over_micro_batches(b, args, targets, zeros, |step, b, args, targets| {
                let (loss, gradients) = step.loss_and_gradients(b, args, targets)?;
                Ok(LossAndGradients { loss, gradients })
            })?;
        Ok((loss, gradients))
    }

    /// The sum of the loss over the batch.
    pub(super) fn batch_loss<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        targets: NextToken<'b>,
    ) -> Result<Value<'b>, StepError> {
        let zero = || b.scalar(DType::F32, 0.0);
        self.sum_over_micro_batches(b, args, targets, zero, |step, b, args, targets| {
            let x = step.forward(b, args)?;
            step.head_loss(b, args, x, targets.target)
        })
    }

    /// The sum of the results of `body` over the micro-batches, added to `zeros`. `body` receives the rows of its micro-batch,
    /// and all other arguments unchanged.
    fn sum_over_micro_batches<'b, T: ValueTree<'b>>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        targets: NextToken<'b>,
        zeros: impl FnOnce() -> T,
        body: impl for<'t> FnOnce(
            &StepBuilder<'_>,
            &'t Builder<'t>,
            &StepArgs<'t>,
            NextToken<'t>,
        ) -> Result<T::In<'t>, StepError>,
    ) -> Result<T::In<'b>, StepError> {
        let count = self.spec.options.micro_batches.get();
        if count == 1 {
            return body(self, b, args, targets);
        }
        let batch = self.scope.batch;
        if !batch.is_multiple_of(count) {
            let message = format!("expected a batch that {count} micro-batches divide, found {batch}");
            return Err(Diagnostics(vec![Diagnostic::error(Location::file("micro_batches"), message)]).into());
        }
        let rows = batch / count;
        let step = StepBuilder { scope: ModelScope { batch: rows, ..self.scope }, ..*self };
        b.root_scope(MICRO_BATCHES, || {
            b.fori_loop("micro_batches", count, zeros(), (args.clone(), targets), |iteration| {
                let Iteration { b, index: number, carry: sums, captures: (mut args, mut targets) } =
                    iteration;
                for (role, value) in &args {
                    value.named(&role.to_string());
                }
                let first = number * index(b, rows);
                for role in self.catalog.rows() {
                    args.entry(role).and_modify(|value| *value = rows_from(*value, first, rows));
                }
                targets.target = rows_from(targets.target, first, rows);
                let found = body(&step, b, &args, targets)?;
                let added = sums.flatten().into_iter().zip(found.flatten()).map(|(sum, value)| sum + value);
                Ok(sums.unflatten(&mut added.collect::<Vec<_>>().into_iter()))
            })
        })
    }
}

/// `rows` rows of `all [batch, seq]`.
fn rows_from<'b>(all: Value<'b>, first: Value<'b>, rows: usize) -> Value<'b> {
    all.dynamic_slice_in_dim(0, first, rows).with_logical_sharding(per_token(&[]))
}
