use super::scope::{ModelScope, per_token};
use crate::{
    hlo::Value,
    mesh::WithLogicalSharding,
    model::{Features, Linear, features, sizes},
    templates::{TemplateError, template_args},
};

/// The adapter of one linear of one layer.
#[derive(Clone, Copy)]
pub struct LoraValues<'b> {
    /// `f32[rank, in]`.
    pub a: Value<'b>,
    /// `f32[rank, out]`.
    pub b: Value<'b>,
    /// `f32[]`.
    pub scale: Value<'b>,
}

/// The output `[batch, seq, out]` of a linear for `x [batch, seq, in]`: `weight [out, in]`, and the `bias [out]` and the adapter,
/// if it has them. `in` and `out` may be several dimensions: heads and features of a head.
///
/// # Errors
/// If the template is invalid.
pub fn linear<'b>(
    scope: &ModelScope<'_>,
    linear: Linear,
    x: Value<'b>,
    weight: Value<'b>,
    bias: Option<Value<'b>>,
    adapter: Option<LoraValues<'b>>,
) -> Result<Value<'b>, TemplateError> {
    x.builder().named_scope(linear.name(), || affine(scope, linear, x, weight, bias, adapter))
}

fn affine<'b>(
    scope: &ModelScope<'_>,
    linear: Linear,
    x: Value<'b>,
    weight: Value<'b>,
    bias: Option<Value<'b>>,
    adapter: Option<LoraValues<'b>>,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let Features { input, output } = features(linear, config);
    let logical = per_token(&output);
    let (input, output) = (sizes(&input), sizes(&output));
    let range = |start: usize, length: usize| (start..start + length).collect::<Vec<usize>>();
    let (x_in, weight_in) = (range(2, input.len()), range(output.len(), input.len()));
    let b = x.builder();
    let y = match adapter {
        None => {
            let args = template_args! { t, batch, seq, in: input, out: output.clone(), x_in, weight_in };
            templates.call(b, "dense", args, &[x, weight])?
        }
        Some(adapter) => {
            let rank = adapter.a.dims()[0];
            let a_in = range(1, input.len());
            let args =
                template_args! { t, batch, seq, rank, in: input, out: output.clone(), x_in, weight_in, a_in };
            templates.call(b, "lora_dense", args, &[x, weight, adapter.a, adapter.b, adapter.scale])?
        }
    };
    let y = y.named(linear.name()).with_logical_sharding(logical);
    Ok(match bias {
        None => y,
        Some(bias) => y + bias.broadcast(&y.dims(), &range(2, output.len())),
    })
}
