use std::fmt::Write;

use super::{Mesh, Plan, TensorSharding, grid::line, matches};

/// The tensors that a pattern means, as [`matches()`] reads it; adapters and optimizer state go by their base too.
pub fn find<'p>(plan: &'p Plan, pattern: &str) -> Vec<&'p TensorSharding> {
    let means = |assigned: &&TensorSharding| {
        matches(pattern, &assigned.tensor.name)
            || assigned.tensor.param().is_some_and(|param| matches(pattern, param))
    };
    plan.tensors.iter().filter(means).collect()
}

/// How a tensor lies on a mesh and which line of the file decided that, a line for each dimension.
pub fn explain(assigned: &TensorSharding, mesh: &Mesh) -> String {
    let TensorSharding { tensor, splits } = assigned;
    let mut text = format!(
        "{}  {}\n  shard {}, {} bytes on each device",
        tensor.name,
        tensor.shape(),
        assigned.shard_shape(),
        assigned.shard_bytes()
    );
    let over = assigned.replicated_over(mesh);
    if !over.is_empty() {
        let _ = write!(text, ", the same along {}", over.join(", "));
    }
    text.push('\n');
    for split in splits {
        let axes = if split.axes.is_empty() { "whole".to_owned() } else { split.axes.join(" x ") };
        let location = match &split.location {
            Some(location) => line(location).to_string(),
            None => "no rule".to_owned(),
        };
        let (dim, size, shard) = (split.dim, split.size, split.shard());
        let _ = writeln!(text, "  {dim:<10}{size:>8} -> {shard:<8}{axes:<16}{location}");
    }
    text
}
