//! The text of Shardy's attributes, which Shardy reads from frontend attributes of an HLO module.
//!
//! A mesh is given by the names and sizes of its axes, major to minor; a sharding by the axes of each dimension, major to
//! minor, as for [`Sharding::on_mesh`](super::Sharding::on_mesh).

/// The frontend attribute of a module with the text of [`mesh`].
pub const MESHES: &str = "xla.sdy.meshes";

/// The frontend attribute of an instruction with the text of [`sharding`] or [`sharding_per_value`].
pub const SHARDING: &str = "xla.sdy.sharding";

/// `{mesh = #sdy.mesh<["fsdp"=4, "tp"=2]>}`
pub fn mesh(axes: &[(&str, usize)]) -> String {
    let axes: Vec<String> = axes.iter().map(|(name, size)| format!("\"{name}\"={size}")).collect();
    format!("{{mesh = #sdy.mesh<[{}]>}}", axes.join(", "))
}

/// `#sdy.sharding<@mesh, [{"fsdp"}, {}]>`, the sharding of a parameter.
///
/// # Panics
/// If a dimension has an axis outside of the mesh.
pub fn sharding(mesh: &[(&str, usize)], dims: &[Vec<usize>]) -> String {
    format!("#sdy.sharding{}", on_mesh(mesh, dims))
}

/// `#sdy.sharding_per_value<[<@mesh, [{"fsdp"}, {}]>]>`, the shardings of the results of any other instruction.
///
/// # Panics
/// If a dimension has an axis outside of the mesh.
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
