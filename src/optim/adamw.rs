use crate::{
    base::ArrayShape,
    hlo::Value,
    templates::{Instantiator, TemplateArg, TemplateError, template_args},
};

/// AdamW with decoupled decay (Loshchilov and Hutter, arXiv:1711.05101). The learning rate is no part of it: it comes
/// into every step as an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Keeps the quotient finite.
    pub eps: f64,
    /// How much of a parameter a step takes away, in learning rates.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 }
    }
}

/// A trained tensor with its two moments, all of one shape, float32.
#[derive(Clone, Copy)]
pub struct Trained<'b> {
    /// The parameter.
    pub value: Value<'b>,
    /// The mean of gradients.
    pub moment1: Value<'b>,
    /// The mean of squared gradients.
    pub moment2: Value<'b>,
}

/// What one update has in common for all tensors.
#[derive(Clone, Copy)]
pub struct Update<'b> {
    /// `f32[]`, the learning rate.
    pub learning_rate: Value<'b>,
    /// `f32[]`, what gradients are multiplied with.
    pub clip: Value<'b>,
    /// `s32[]`, updates so far, this one included.
    pub updates: Value<'b>,
    /// `pred[]`; where false, nothing changes.
    pub apply: Value<'b>,
}

impl AdamW {
    /// Each tensor after the update with its gradient.
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
        let (correction1, correction2) = (corrections.get(0), corrections.get(1));
        let Update { learning_rate, clip, updates: _, apply } = update;
        let one = |&(tensor, gradient): &(Trained<'b>, Value<'b>)| {
            let Trained { value, moment1, moment2 } = tensor;
            let arguments =
                [value, moment1, moment2, gradient, learning_rate, clip, correction1, correction2, apply];
            let updated = templates.call(b, "adamw", &self.args(value.array()), &arguments)?;
            Ok(Trained { value: updated.get(0), moment1: updated.get(1), moment2: updated.get(2) })
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
