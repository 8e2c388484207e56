use crate::{
    base::{ArrayShape, DType},
    hlo::Value,
    templates::{Instantiator, TemplateArg, TemplateError, template_args},
};

/// Hyperparameters of AdamW (Loshchilov and Hutter, arXiv:1711.05101). The learning rate is an argument of every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the square root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay: an update subtracts `learning_rate * weight_decay` of the parameter.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 }
    }
}

/// A trained tensor with its two moments, all of one shape. They may be of other element types than float32, in which
/// the update is computed.
#[derive(Clone, Copy)]
pub struct Trained<'b> {
    /// The parameter.
    pub value: Value<'b>,
    /// Moving average of the gradients.
    pub moment1: Value<'b>,
    /// Moving average of the squared gradients.
    pub moment2: Value<'b>,
}

/// Inputs of an update that all tensors share.
#[derive(Clone, Copy)]
pub struct Update<'b> {
    /// `f32[]`, the learning rate.
    pub learning_rate: Value<'b>,
    /// `f32[]`, the clipping factor of the gradients.
    pub clip: Value<'b>,
    /// `s32[]`, updates so far, this one included.
    pub updates: Value<'b>,
    /// `pred[]`; if false, nothing changes.
    pub apply: Value<'b>,
}

impl AdamW {
    /// Updates each tensor with its gradient.
    ///
    /// # Errors
    /// If a template is invalid.
    pub fn update<'b>(
        &self,
        templates: &Instantiator<'_>,
        update: Update<'b>,
        tensors: &[(Trained<'b>, Value<'b>)],
    ) -> Result<Vec<Trained<'b>>, TemplateError> {
        let b = update.updates.builder();
        let logs = template_args! { log_beta1: self.beta1.ln(), log_beta2: self.beta2.ln() };
        let corrections = templates.call(b, "bias_correction", logs, &[update.updates])?;
        let get = |index| b.named_scope("bias_correction", || corrections.get(index));
        let (correction1, correction2) = (get(0), get(1));
        let Update { learning_rate, clip, updates: _, apply } = update;
        let one = |&(tensor, gradient): &(Trained<'b>, Value<'b>)| {
            let Trained { value, moment1, moment2 } = tensor;
            let stored = [value, moment1, moment2].map(|value| value.array().dtype);
            let [value, moment1, moment2] =
                b.named_scope("adamw", || [value, moment1, moment2].map(|value| value.convert(DType::F32)));
            let arguments =
                [value, moment1, moment2, gradient, learning_rate, clip, correction1, correction2, apply];
            let updated = templates.call(b, "adamw", &self.args(value.array()), &arguments)?;
            let new = |index: usize| updated.get(index).convert(stored[index]);
            let [value, moment1, moment2] = b.named_scope("adamw", || [0, 1, 2].map(new));
            Ok(Trained { value, moment1, moment2 })
        };
        tensors.iter().map(one).collect()
    }

    fn args(&self, shape: ArrayShape) -> [(&'static str, TemplateArg); 7] {
        let &Self { beta1, beta2, eps, weight_decay } = self;
        [
            ("dims", shape.dims.into()),
            ("beta1", beta1.into()),
            ("one_minus_beta1", (1.0 - beta1).into()),
            ("beta2", beta2.into()),
            ("one_minus_beta2", (1.0 - beta2).into()),
            ("eps", eps.into()),
            ("decay", weight_decay.into()),
        ]
    }
}
