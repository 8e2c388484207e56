use super::Scope;
use crate::{
    hlo::Value,
    templates::{TemplateError, holes},
};

/// The gated product of `gate` and `up [batch, seq, mlp]`.
///
/// # Errors
/// If the template is not right.
pub fn mlp<'b>(scope: &Scope<'_>, gate: Value<'b>, up: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &Scope { loom, config, t, batch, seq, .. } = scope;
    loom.call(gate.builder(), "swiglu", holes! { t, batch, seq, mlp: config.intermediate_size }, &[gate, up])
}
