use super::{RopeTable, Scope, rope};
use crate::{
    hlo::Value,
    templates::{TemplateError, holes},
};

/// Causal grouped-query attention of `q [batch, seq, heads, head_dim]` over `k` and `v
/// [batch, seq, kv_heads, head_dim]`, giving `[batch, seq, heads, head_dim]`.
///
/// # Errors
/// If a template is not right.
pub fn attention<'b>(
    scope: &Scope<'_>,
    q: Value<'b>,
    k: Value<'b>,
    v: Value<'b>,
    table: RopeTable<'b>,
) -> Result<Value<'b>, TemplateError> {
    let &Scope { loom, config, t, batch, seq } = scope;
    let (heads, kv_heads, head_dim) =
        (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let group = heads / kv_heads;
    let scale = 1.0 / (head_dim as f64).sqrt();
    let b = q.builder();

    let q = rope(scope, q, table, heads)?.reshape(&[batch, seq, kv_heads, group, head_dim]);
    let k = rope(scope, k, table, kv_heads)?;
    let holes = holes! { t, batch, seq, kv_heads, group, head_dim, scale };
    let weights = loom.call(b, "attention_weights", holes, &[q, k])?;
    let mixed = loom.call(b, "attention_mix", holes, &[weights, v])?;
    Ok(mixed.reshape(&[batch, seq, heads, head_dim]))
}
