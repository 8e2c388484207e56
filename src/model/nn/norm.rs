use super::{Scope, residual};
use crate::{
    hlo::Value,
    templates::{TemplateError, holes},
};

/// RMSNorm of `x [batch, seq, embed]` with the learned `weight [embed]`.
///
/// # Errors
/// If the template is not right.
pub fn norm<'b>(scope: &Scope<'_>, x: Value<'b>, weight: Value<'b>) -> Result<Value<'b>, TemplateError> {
    let &Scope { loom, config, t, batch, seq, .. } = scope;
    let holes = holes! { t, batch, seq, dim: config.hidden_size, eps: config.rms_norm_eps };
    Ok(loom.call(x.builder(), "rms_norm", holes, &[x, weight])?.tagged(residual()))
}
