//! A batch in parts: losses and gradients of one after the other, summed.

use super::{
    StepError,
    build::{Arguments, StepBuilder},
};
use crate::{
    base::{DType, Diagnostic, Diagnostics, Location},
    hlo::{Builder, Iteration, Value},
    model::{
        AdapterId,
        nn::{NextToken, Scope, per_token},
    },
};

impl StepBuilder<'_> {
    /// The mean loss and the gradient of every adapter factor, over all of the batch.
    pub fn batch_loss_and_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        targets: NextToken<'b>,
    ) -> Result<(Value<'b>, Vec<(AdapterId, Value<'b>)>), StepError> {
        let zeros = || [b.scalar(DType::F32, 0.0)].into_iter().chain(self.empty_gradients(b)).collect();
        let sums = self.sum_over_parts(b, arguments, targets, zeros, |part, b, arguments, targets| {
            let NextToken { target, num_label_tokens } = targets;
            let (loss, gradients) = part.loss_and_gradients(b, arguments, target, num_label_tokens)?;
            Ok([loss].into_iter().chain(gradients.into_iter().map(|(_, gradient)| gradient)).collect())
        })?;
        Ok((sums[0], self.catalog.ids().zip(sums.into_iter().skip(1)).collect()))
    }

    /// The sum of the loss over all of the batch.
    pub fn batch_loss<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        targets: NextToken<'b>,
    ) -> Result<Value<'b>, StepError> {
        let zero = || vec![b.scalar(DType::F32, 0.0)];
        let sums = self.sum_over_parts(b, arguments, targets, zero, |part, b, arguments, targets| {
            let x = part.forward(b, arguments)?;
            Ok(vec![part.head_loss(b, arguments, x, targets.target)?])
        })?;
        Ok(sums[0])
    }

    /// What `body` gives for each part, summed on top of `zeros`. It sees the rows of its part, and everything else whole.
    fn sum_over_parts<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        targets: NextToken<'b>,
        zeros: impl FnOnce() -> Vec<Value<'b>>,
        body: impl for<'t> FnOnce(
            &StepBuilder<'_>,
            &'t Builder<'t>,
            &Arguments<'t>,
            NextToken<'t>,
        ) -> Result<Vec<Value<'t>>, StepError>,
    ) -> Result<Vec<Value<'b>>, StepError> {
        let parts = self.spec.options.micro_batches.get();
        if parts == 1 {
            return body(self, b, arguments, targets);
        }
        if !self.scope.batch.is_multiple_of(parts) {
            let message =
                format!("expected a batch of equally many rows in {parts} parts, found {}", self.scope.batch);
            return Err(Diagnostics(vec![Diagnostic::new(Location::file("micro_batches"), message)]).into());
        }
        let rows = self.scope.batch / parts;
        let part = StepBuilder { scope: Scope { batch: rows, ..self.scope }, ..*self };
        let fixed: Vec<Value<'b>> =
            arguments.values().copied().chain([targets.target, targets.num_label_tokens]).collect();
        b.fori_loop("micro_batches", parts, &zeros(), &fixed, |turn| {
            let Iteration { b, number, carried, mut fixed } = turn;
            let first = number * b.scalar(DType::S32, rows as f64);
            let others = fixed.split_off(arguments.len());
            let mut arguments: Arguments<'_> = arguments.keys().copied().zip(fixed).collect();
            for role in self.catalog.rows() {
                arguments.entry(role).and_modify(|value| *value = rows_from(*value, first, rows));
            }
            let targets =
                NextToken { target: rows_from(others[0], first, rows), num_label_tokens: others[1] };
            let found = body(&part, b, &arguments, targets)?;
            Ok(carried.into_iter().zip(found).map(|(sum, value)| sum + value).collect())
        })
    }
}

/// Some rows of `whole [batch, seq]`.
fn rows_from<'b>(whole: Value<'b>, first: Value<'b>, rows: usize) -> Value<'b> {
    whole.dynamic_slice_in_dim(0, first, rows).with_logical_sharding(per_token(&[]))
}
