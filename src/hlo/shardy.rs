//! The text of Shardy's attributes, which that partitioner reads as frontend attributes of an HLO module.
//!
//! A mesh is given by the names and sizes of its axes, slowest first; a value by the axes, major to minor, that split
//! each of its dimensions, as for [`Sharding::on_mesh`](super::Sharding::on_mesh).

/// The module's frontend attribute that holds [`mesh`].
pub const MESHES: &str = "xla.sdy.meshes";

/// The instruction's frontend attribute that holds [`sharding`] or [`sharding_per_value`].
pub const SHARDING: &str = "xla.sdy.sharding";

/// `{mesh = #sdy.mesh<["fsdp"=4, "tp"=2]>}`
pub fn mesh(axes: &[(&str, usize)]) -> String {
    let axes: Vec<String> = axes.iter().map(|(name, size)| format!("\"{name}\"={size}")).collect();
    format!("{{mesh = #sdy.mesh<[{}]>}}", axes.join(", "))
}

/// `#sdy.sharding<@mesh, [{"fsdp"}, {}]>`, what a parameter carries.
///
/// # Panics
/// If a dimension names no axis of the mesh.
pub fn sharding(mesh: &[(&str, usize)], dims: &[Vec<usize>]) -> String {
    format!("#sdy.sharding{}", on_mesh(mesh, dims))
}

/// `#sdy.sharding_per_value<[<@mesh, [{"fsdp"}, {}]>]>`, what any other instruction carries: one entry for each value
/// that it gives.
///
/// # Panics
/// If a dimension names no axis of the mesh.
pub fn sharding_per_value(mesh: &[(&str, usize)], values: &[Vec<Vec<usize>>]) -> String {
    let values: Vec<String> = values.iter().map(|dims| on_mesh(mesh, dims)).collect();
    format!("#sdy.sharding_per_value<[{}]>", values.join(", "))
}

fn on_mesh(mesh: &[(&str, usize)], dims: &[Vec<usize>]) -> String {
    let dim = |axes: &Vec<usize>| {
        let names: Vec<String> = axes.iter().map(|&axis| format!("\"{}\"", mesh[axis].0)).collect();
        format!("{{{}}}", names.join(", "))
    };
    format!("<@mesh, [{}]>", dims.iter().map(dim).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_print_as_shardy_reads_them() {
        let axes = [("fsdp", 4), ("tp", 2)];
        assert_eq!(mesh(&axes), r#"{mesh = #sdy.mesh<["fsdp"=4, "tp"=2]>}"#);
        let dims = vec![vec![0], vec![], vec![1]];
        assert_eq!(sharding(&axes, &dims), r#"#sdy.sharding<@mesh, [{"fsdp"}, {}, {"tp"}]>"#);
        assert_eq!(sharding(&axes, &[]), "#sdy.sharding<@mesh, []>");
        assert_eq!(
            sharding_per_value(&axes, &[vec![vec![0, 1]], vec![]]),
            r#"#sdy.sharding_per_value<[<@mesh, [{"fsdp", "tp"}]>, <@mesh, []>]>"#
        );
    }
}
