use super::scope::{ModelScope, residual};
use crate::{
    hlo::Value,
    mesh::WithLogicalSharding,
    templates::{TemplateError, template_args},
};

/// RMSNorm of `x [batch, seq, embed]` with the learned `weight [embed]`.
///
/// # Errors
/// If the template is invalid.
pub fn norm<'b>(scope: &ModelScope<'_>, x: Value<'b>, weight: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let args = template_args! { t, batch, seq, dim: config.hidden_size, eps: config.rms_norm_eps };
    Ok(templates.call(x.builder(), "rms_norm", args, &[x, weight])?.with_logical_sharding(residual()))
}
