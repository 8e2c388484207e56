use super::scope::ModelScope;
use crate::{
    base::Literal,
    hlo::{Builder, Value, value_tree},
    templates::{TemplateError, template_args},
};

/// Rotation angles of every position as cosines and sines, `f32[seq, 2, head_dim / 2]` each.
#[derive(Clone, Copy)]
pub struct RopeTable<'b> {
    /// Cosines, the same for both halves.
    pub cos: Value<'b>,
    /// Sines, negative for the first half.
    pub sin: Value<'b>,
}

value_tree! { RopeTable { cos, sin } }

/// The table for positions `0 .. seq`.
///
/// # Errors
/// If the template is invalid.
pub fn rope_table<'b>(scope: &ModelScope<'_>, b: &'b Builder<'b>) -> Result<RopeTable<'b>, TemplateError> {
    let &ModelScope { templates, config, seq, .. } = scope;
    let frequencies: Vec<f32> =
        config.rope.inverse_frequencies(config.head_dim).into_iter().map(|f| f as f32).collect();
    let half = frequencies.len();
    b.named_scope("rotary_emb", || {
        let frequency = b.constant(Literal::f32s([half], &frequencies)).named("frequency");
        let table = templates.call(b, "rope_table", template_args! { seq, half }, &[frequency])?;
        Ok(RopeTable { cos: table.get(0), sin: table.get(1) })
    })
}

/// `x [batch, seq, heads, head_dim]` with the rotary embedding of its positions.
///
/// # Errors
/// If the template is invalid.
pub fn rope<'b>(
    scope: &ModelScope<'_>,
    x: Value<'b>,
    table: RopeTable<'b>,
    heads: usize,
) -> Result<Value<'b>, TemplateError> {
    let &ModelScope { templates, config, t, batch, seq, .. } = scope;
    let args = template_args! { t, batch, seq, heads, head_dim: config.head_dim, half: config.head_dim / 2 };
    templates.call(x.builder(), "rope", args, &[x, table.cos, table.sin])
}
