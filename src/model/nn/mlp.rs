use super::scope::ModelScope;
use crate::{
    hlo::Value,
    templates::{TemplateError, template_args},
};

/// The gated product of `gate` and `up [batch, seq, mlp]`.
///
/// # Errors
/// If the template is invalid.
pub fn mlp<'b>(scope: &ModelScope<'_>, gate: Value<'b>, up: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    templates.call(
        gate.builder(),
        "swiglu",
        template_args! { t, batch, seq, mlp: config.intermediate_size },
        &[gate, up],
    )
}
