//! The model as HLO: one layer, and the logits after the last.

use std::collections::BTreeMap;

use super::{
    Linear, Param, features,
    nn::{self, LoraValues, ModelScope, RopeTable},
};
use crate::{
    hlo::{DotDims, Value},
    mesh::{Dim, LogicalSharding, WithLogicalSharding},
    templates::TemplateError,
};

/// The values of one layer.
pub struct LayerValues<'b> {
    /// Norms, weights and biases, without the dimension of layers.
    pub base: BTreeMap<Param, Value<'b>>,
    /// The adapters, for the linears that have one.
    pub adapters: BTreeMap<Linear, LoraValues<'b>>,
}

/// The output of one layer, of the shape of its input `x [batch, seq, embed]`; `segments` as in [`nn::attention`].
///
/// # Errors
/// If a template is invalid.
pub fn layer<'b>(
    scope: &ModelScope<'_>,
    x: Value<'b>,
    table: RopeTable<'b>,
    segments: Option<Value<'b>>,
    values: &LayerValues<'b>,
) -> Result<Value<'b>, TemplateError> {
    let b = x.builder();
    let base = |param: Param| values.base[&param];
    let linear = |which: Linear, x: Value<'b>| {
        let bias = values.base.get(&Param::Bias(which)).copied();
        let adapter = values.adapters.get(&which).copied();
        nn::linear(scope, which, x, base(Param::Weight(which)), bias, adapter)
    };

    let norm =
        |param: Param, x: Value<'b>| b.named_scope(&param.to_string(), || nn::norm(scope, x, base(param)));
    let inner = |linear| nn::per_token(&features(linear, scope.config).input);
    let self_attn = |h: Value<'b>| {
        let (q, k, v) = (linear(Linear::Query, h)?, linear(Linear::Key, h)?, linear(Linear::Value, h)?);
        let mixed = nn::attention(scope, q, k, v, table, segments)?;
        linear(Linear::Output, mixed.with_logical_sharding(inner(Linear::Output)))
    };
    let mlp = |h: Value<'b>| {
        let gated = nn::mlp(scope, linear(Linear::Gate, h)?, linear(Linear::Up, h)?)?;
        linear(Linear::Down, gated.with_logical_sharding(inner(Linear::Down)))
    };

    let h = norm(Param::InputNorm, x)?;
    let x = (x + b.named_scope("self_attn", || self_attn(h))?).with_logical_sharding(nn::residual());
    let h = norm(Param::PostAttentionNorm, x)?;
    Ok((x + b.named_scope("mlp", || mlp(h))?).with_logical_sharding(nn::residual()))
}

/// The logits `[batch, seq, vocab]` of the last layer's `x`, with `head [vocab, embed]`, the parameter `param`.
///
/// Each device computes with its own shard of the vocabulary: activations are communicated, not the matrix.
///
/// # Errors
/// If a template is invalid.
pub fn logits<'b>(
    scope: &ModelScope<'_>,
    x: Value<'b>,
    final_norm: Value<'b>,
    head: Value<'b>,
    param: &str,
) -> Result<Value<'b>, TemplateError> {
    let along = LogicalSharding::compute_as_stored(nn::residual().dims, param, Dim::Vocab);
    let b = x.builder();
    let h = b.named_scope("norm", || nn::norm(scope, x, final_norm))?.with_logical_sharding(along);
    let dims = DotDims { lhs_contracting: vec![2], rhs_contracting: vec![1], ..DotDims::default() };
    let logits = b.named_scope("lm_head", || h.dot(head.with_logical_sharding(head_sharding(param)), dims));
    Ok(logits.named("logits").with_logical_sharding(logits_sharding(param)))
}

/// Logical sharding of the matrix `param` in the computation of logits.
pub fn head_sharding(param: &str) -> LogicalSharding {
    LogicalSharding::compute_as_stored([Dim::Vocab, Dim::Embed], param, Dim::Vocab)
}

/// Logical sharding of the logits computed with the matrix `param`.
pub fn logits_sharding(param: &str) -> LogicalSharding {
    LogicalSharding::compute_as_stored([Dim::Batch, Dim::Seq, Dim::Vocab], param, Dim::Vocab)
}
