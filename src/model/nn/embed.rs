use super::Scope;
use crate::{
    hlo::Value,
    templates::{TemplateError, holes},
};

/// The rows of `table [vocab, embed]` for `ids s32[batch, seq]`.
///
/// # Errors
/// If the template is not right.
pub fn embed<'b>(scope: &Scope<'_>, table: Value<'b>, ids: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &Scope { loom, config, t, batch, seq, .. } = scope;
    let holes = holes! { t, batch, seq, vocab: config.vocab_size, dim: config.hidden_size };
    loom.call(ids.builder(), "embed", holes, &[table, ids])
}
