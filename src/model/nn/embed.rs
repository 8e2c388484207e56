use super::scope::ModelScope;
use crate::{
    hlo::Value,
    templates::{TemplateError, template_args},
};

/// The rows of `table [vocab, embed]` for `ids s32[batch, seq]`.
///
/// # Errors
/// If the template is invalid.
pub fn embed<'b>(
    scope: &ModelScope<'_>,
    table: Value<'b>,
    ids: Value<'b>,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let args = template_args! { t, batch, seq, vocab: config.vocab_size, dim: config.hidden_size };
    let b = ids.builder();
    b.named_scope("embed_tokens", || templates.call(b, "embed", args, &[table, ids]))
}
