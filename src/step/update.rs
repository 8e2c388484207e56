//! The optimizer update at the end of a step.

use indexmap::IndexMap;

use super::{
    Role, StepError,
    builder::{ResultValues, StepArgs, StepBuilder},
    scopes::OPTIMIZER,
};
use crate::{
    base::DType,
    hlo::{Attrs, Builder, ComparisonDirection, Opcode, Value},
    model::TrainableId,
    optim::{Trained, Update, clip_factor, global_norm},
};

impl StepBuilder<'_> {
    /// The new values and optimizer state, and the gradient norm. Without labelled tokens, or if the gradients are not finite,
    /// nothing changes.
    pub(super) fn update<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        gradients: &IndexMap<TrainableId, Value<'b>>,
        num_label_tokens: Value<'b>,
    ) -> Result<(ResultValues<'b>, Value<'b>), StepError> {
        b.root_scope(OPTIMIZER, || self.update_in_scope(b, args, gradients, num_label_tokens))
    }

    fn update_in_scope<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        gradients: &IndexMap<TrainableId, Value<'b>>,
        num_label_tokens: Value<'b>,
    ) -> Result<(ResultValues<'b>, Value<'b>), StepError> {
        let values: Vec<Value<'b>> = gradients.values().copied().collect();
        let norm = b.named_scope("grad_norm", || global_norm(&values));
        let finite = b.push(Opcode::IsFinite, &[norm], Attrs::Plain, None);
        let apply = num_label_tokens.compare(ComparisonDirection::Gt, b.scalar(DType::S32, 0.0)).and(finite);
        let updates = args[&Role::Updates];
        let next = updates + 1.0;
        let update = Update {
            learning_rate: args[&Role::LearningRate],
            clip: b.named_scope("clip", || clip_factor(norm, self.spec.max_grad_norm)),
            updates: next,
            apply,
        };
        let tensors: Vec<(Trained<'b>, Value<'b>)> = gradients
            .iter()
            .map(|(&id, &gradient)| {
                let value = |role: Role| args[&role];
                let trained = Trained {
                    value: value(Role::Trainable(id)),
                    moment1: value(Role::Moment1(id)),
                    moment2: value(Role::Moment2(id)),
                };
                (trained, gradient)
            })
            .collect();
        let updated = self.spec.optimizer.update(self.scope.templates, update, &tensors)?;
        let mut results = vec![(Role::Updates, apply.select(next, updates))];
        for (&id, Trained { value, moment1, moment2 }) in gradients.keys().zip(updated) {
            results.extend([
                (Role::Trainable(id), value),
                (Role::Moment1(id), moment1),
                (Role::Moment2(id), moment2),
            ]);
        }
        Ok((results, norm))
    }
}
