use std::fmt::Write;

use super::{Mesh, Plan, TensorSharding, grid::line, matches};

/// The tensors whose name matches a pattern, as [`matches()`] reads it. Adapters and optimizer state also match by the name
/// of their base parameter.
pub fn find_matching<'p>(plan: &'p Plan, pattern: &str) -> Vec<&'p TensorSharding> {
    let is_match = |sharding: &&TensorSharding| {
        matches(pattern, &sharding.tensor.name)
            || sharding.tensor.param().is_some_and(|param| matches(pattern, param))
    };
    plan.tensors.iter().filter(is_match).collect()
}

/// The sharding of a tensor, with the line of the file that decided it, one line for each dimension.
pub fn explain(sharding: &TensorSharding, mesh: &Mesh) -> String {
    let TensorSharding { tensor, dims } = sharding;
    let mut text = format!(
        "{}  {}\n  shard {}, {} bytes on each device",
        tensor.name,
        tensor.shape(),
        sharding.shard_shape(),
        sharding.shard_bytes()
    );
    let over = sharding.replicated_over(mesh);
    if !over.is_empty() {
        let _ = write!(text, ", replicated along {}", over.join(", "));
    }
    text.push('\n');
    for split in dims {
        let axes = if split.axes.is_empty() { "replicated".to_owned() } else { split.axes.join(" x ") };
        let location = match &split.location {
            Some(location) => line(location).to_string(),
            None => "no rule".to_owned(),
        };
        let (dim, size, shard) = (split.dim, split.size, split.shard_size());
        let _ = writeln!(text, "  {dim:<10}{size:>8} -> {shard:<8}{axes:<16}{location}");
    }
    text
}
