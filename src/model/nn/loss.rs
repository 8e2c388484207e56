use super::Scope;
use crate::{
    hlo::Value,
    templates::{TemplateError, holes},
};

/// The target where nothing is to be predicted, as the templates have it.
pub const IGNORED: i32 = -100;

/// What every position has to predict.
#[derive(Clone, Copy)]
pub struct NextToken<'b> {
    /// `s32[batch, seq]`; -100 where nothing counts.
    pub target: Value<'b>,
    /// `s32[]`, the number of positions that count.
    pub counted: Value<'b>,
}

/// The targets for `labels s32[batch, seq]`, which stand at the positions of their own tokens.
///
/// # Errors
/// If the template is not right.
pub fn next_token<'b>(scope: &Scope<'_>, labels: Value<'b>) -> Result<NextToken<'b>, TemplateError> {
    let &Scope { loom, batch, seq, .. } = scope;
    let both = loom.call(labels.builder(), "next_token", holes! { batch, seq }, &[labels])?;
    Ok(NextToken { target: both.get(0), counted: both.get(1) })
}

/// The sum, `f32[]`, of the cross-entropy of `logits [batch, seq, vocab]` over the positions that count.
///
/// # Errors
/// If a template is not right.
pub fn loss<'b>(scope: &Scope<'_>, logits: Value<'b>, target: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &Scope { loom, config, t, batch, seq, .. } = scope;
    let b = logits.builder();
    let holes = holes! { t, batch, seq, vocab: config.vocab_size };
    let log_sum_exp = loom.call(b, "log_sum_exp", holes, &[logits])?;
    loom.call(b, "cross_entropy", holes, &[logits, log_sum_exp, target])
}
