use super::scope::ModelScope;
use crate::{
    hlo::{Value, value_tree},
    templates::{TemplateError, template_args},
};

/// The target of positions that are not labelled.
pub const IGNORED: i32 = -100;

/// The next token of every position.
#[derive(Clone, Copy)]
pub struct NextToken<'b> {
    /// `s32[batch, seq]`; [`IGNORED`] where the next token is not labelled.
    pub target: Value<'b>,
    /// `s32[]`, the number of labelled tokens.
    pub num_label_tokens: Value<'b>,
}

value_tree! { NextToken { target, num_label_tokens } }

/// The targets for `labels s32[batch, seq]`: the labels, shifted by one position.
///
/// # Errors
/// If the template is invalid.
pub fn next_token<'b>(scope: &ModelScope<'_>, labels: Value<'b>) -> Result<NextToken<'b>, TemplateError> {
    let &ModelScope { templates, batch, seq, .. } = scope;
    let both = templates.call(labels.builder(), "next_token", template_args! { batch, seq }, &[labels])?;
    Ok(NextToken { target: both.get(0), num_label_tokens: both.get(1) })
}

/// The sum, `f32[]`, of the cross-entropy of `logits [batch, seq, vocab]` over the labelled tokens.
///
/// # Errors
/// If a template is invalid.
pub fn loss<'b>(
    scope: &ModelScope<'_>,
    logits: Value<'b>,
    target: Value<'b>,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let b = logits.builder();
    let args = template_args! { t, batch, seq, vocab: config.vocab_size };
    let log_sum_exp = templates.call(b, "log_sum_exp", args, &[logits])?;
    templates.call(b, "cross_entropy", args, &[logits, log_sum_exp, target])
}
