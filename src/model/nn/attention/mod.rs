mod blocks;

use super::{
    rope::{RopeTable, rope},
    scope::{Attention, ModelScope, per_token},
};
use crate::{
    base::DType,
    hlo::{Builder, Value},
    mesh::{Dim, WithLogicalSharding},
    model::{Linear, features},
    templates::{KERNELS, TemplateError, template_args},
};

/// Causal grouped-query attention of `q [batch, seq, heads, head_dim]` over `k` and `v [batch, seq, kv_heads, head_dim]`;
/// returns `[batch, seq, heads, head_dim]`. With `segments s32[batch, seq]`, a position attends only to its own segment; with a
/// sliding window, only to that many positions, its own included.
///
/// # Errors
/// If a template is invalid.
pub fn attention<'b>(
    scope: &ModelScope<'_>,
    q: Value<'b>,
    k: Value<'b>,
    v: Value<'b>,
    table: RopeTable<'b>,
    segments: Option<Value<'b>>,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, attention } = scope;
    let (heads, kv_heads, head_dim) =
        (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let group = heads / kv_heads;
    let b = q.builder();
    let per_head = |linear| per_token(&features(linear, config).output);

    let q = rope(scope, q, table, heads)?.with_logical_sharding(per_head(Linear::Query));
    let k = rope(scope, k, table, kv_heads)?.with_logical_sharding(per_head(Linear::Key));
    let arguments: Vec<Value<'b>> = [q, k, v].into_iter().chain(segments).collect();
    let kernel = KERNELS[usize::from(segments.is_some())];
    if templates.has(KERNELS[0]) && !templates.has(kernel) {
        return Err(TemplateError::NotPacked);
    }
    if let Some(window) = scope.window().filter(|_| templates.has(kernel)) {
        return Err(TemplateError::NotWindowed { window });
    }
    let both = if templates.has(kernel) {
        let args = template_args! { t, batch, seq, heads, kv_heads, group, head_dim, scale: scale(head_dim) };
        templates.call(b, kernel, args, &arguments)?
    } else {
        match attention {
            Attention::Dense => return dense(scope, q, k, v, segments),
            Attention::Blocks(block) => {
                let callee = blocks::instantiate(scope, block, segments.is_some())?;
                b.named_scope("attention", || b.call(callee, &arguments)).named("attention")
            }
        }
    };
    // Only the backward pass reads it; the logical sharding is for that.
    both.get(1).named("log_sum_exp").with_logical_sharding(per_token(&[(Dim::Heads, heads)]));
    Ok(both.get(0).with_logical_sharding(per_head(Linear::Query)))
}

fn dense<'b>(
    scope: &ModelScope<'_>,
    q: Value<'b>,
    k: Value<'b>,
    v: Value<'b>,
    segments: Option<Value<'b>>,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let (heads, kv_heads, head_dim) =
        (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let group = heads / kv_heads;
    let b = q.builder();
    let q = q.reshape(&[batch, seq, kv_heads, group, head_dim]);
    let first = b.scalar(DType::S32, 0.0);
    let mask = mask(scope, seq, [first, first], segments.map(|segments| [segments, segments]))?;
    let args = template_args! { t, batch, seq, kv_heads, group, head_dim, scale: scale(head_dim) };
    let weights = templates.call(b, "attention_weights", args, &[q, k, mask])?;
    let mixed = templates.call(b, "attention_mix", args, &[weights, v])?;
    Ok(mixed.reshape(&[batch, seq, heads, head_dim]))
}

/// The attention mask `pred[batch, length, length]` of `length` queries and as many keys, from the positions of the first
/// query and the first key and the segments `s32[batch, length]` of both.
fn mask<'b>(
    scope: &ModelScope<'_>,
    length: usize,
    first: [Value<'b>; 2],
    segments: Option<[Value<'b>; 2]>,
) -> Result<Value<'b>, TemplateError> {
    let b: &'b Builder<'b> = first[0].builder();
    let args = template_args! { batch: scope.batch, queries: length, keys: length };
    let mut mask = scope.templates.call(b, "attention_mask", args, &first)?;
    if let Some(window) = scope.window() {
        let args = template_args! { batch: scope.batch, queries: length, keys: length, window };
        mask = scope.templates.call(b, "window_mask", args, &[mask, first[0], first[1]])?;
    }
    match segments {
        None => Ok(mask),
        Some([queries, keys]) => scope.templates.call(b, "segment_mask", args, &[mask, queries, keys]),
    }
}

/// The factor of attention scores.
fn scale(head_dim: usize) -> f64 {
    1.0 / (head_dim as f64).sqrt()
}
