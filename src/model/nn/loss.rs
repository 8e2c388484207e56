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
    let b = labels.builder();
    let both = templates.call(b, "next_token", template_args! { batch, seq }, &[labels])?;
    let [target, num_label_tokens] = b.named_scope("next_token", || [both.get(0), both.get(1)]);
    Ok(NextToken { target, num_label_tokens })
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
    b.named_scope("loss", || {
        let log_sum_exp = templates.call(b, "log_sum_exp", args, &[logits])?;
        templates.call(b, "cross_entropy", args, &[logits, log_sum_exp, target])
    })
}
