//! The mesh axes along which collectives communicate.

use crate::hlo::raw::ReplicaGroups;

/// Maximum number of devices of a mesh.
const MAX_DEVICES: usize = 1 << 20;

/// The axes along which the devices of each group differ, major to minor; axes of one device are left out. Device numbers count
/// the coordinates of the mesh in row-major order. `None` if some group is not all devices along some axes, or the groups are
/// not those of all devices of the mesh.
pub fn axes<'n>(groups: &ReplicaGroups, mesh: &[(&'n str, usize)]) -> Option<Vec<&'n str>> {
    let sizes = sizes(mesh)?;
    let all: Vec<usize> = (0..mesh.len()).collect();
    let spanned = match groups {
        ReplicaGroups::All => all,
        ReplicaGroups::Listed(groups) => spanned(groups, &sizes)?,
        ReplicaGroups::Axes { mesh, axes } => spanned(&along(mesh, axes)?, &sizes)?,
    };
    Some(names(&spanned, mesh))
}

/// The axes along which the source and target of some pair of a collective-permute differ. `None` if a device is not of the mesh.
pub fn permute_axes<'n>(pairs: &ReplicaGroups, mesh: &[(&'n str, usize)]) -> Option<Vec<&'n str>> {
    let sizes = sizes(mesh)?;
    let ReplicaGroups::Listed(pairs) = pairs else { return None };
    let mut differs = vec![false; sizes.len()];
    for pair in pairs {
        let devices = pair.iter().map(|&device| coordinates(device, &sizes));
        mark_differences(&devices.collect::<Option<Vec<_>>>()?, &mut differs);
    }
    let spanned: Vec<usize> = (0..sizes.len()).filter(|&axis| differs[axis]).collect();
    Some(names(&spanned, mesh))
}

fn sizes(mesh: &[(&str, usize)]) -> Option<Vec<usize>> {
    let sizes: Vec<usize> = mesh.iter().map(|&(_, size)| size).collect();
    let devices = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))?;
    (1..=MAX_DEVICES).contains(&devices).then_some(sizes)
}

fn names<'n>(spanned: &[usize], mesh: &[(&'n str, usize)]) -> Vec<&'n str> {
    spanned.iter().map(|&axis| mesh[axis]).filter(|&(_, size)| size > 1).map(|(name, _)| name).collect()
}

/// The coordinates of a device.
fn coordinates(device: i64, sizes: &[usize]) -> Option<Vec<usize>> {
    let mut rest = usize::try_from(device).ok()?;
    let mut found = vec![0; sizes.len()];
    for (coordinate, &size) in found.iter_mut().zip(sizes).rev() {
        *coordinate = rest % size;
        rest /= size;
    }
    (rest == 0).then_some(found)
}

fn mark_differences(devices: &[Vec<usize>], differs: &mut [bool]) {
    for device in devices {
        for (axis, differs) in differs.iter_mut().enumerate() {
            *differs |= device[axis] != devices[0][axis];
        }
    }
}

/// The axes that the groups span: the devices of each differ along these axes only, and are as many as the axes have.
fn spanned(groups: &[Vec<i64>], sizes: &[usize]) -> Option<Vec<usize>> {
    let devices: usize = sizes.iter().product();
    let mut seen = vec![false; devices];
    let mut common: Option<Vec<bool>> = None;
    for group in groups {
        for &device in group {
            let seen = seen.get_mut(usize::try_from(device).ok()?)?;
            if std::mem::replace(seen, true) {
                return None;
            }
        }
        let coordinates: Vec<Vec<usize>> =
            group.iter().map(|&device| coordinates(device, sizes)).collect::<Option<_>>()?;
        let mut differs = vec![false; sizes.len()];
        mark_differences(&coordinates, &mut differs);
        let size: usize =
            sizes.iter().zip(&differs).filter(|&(_, &differs)| differs).map(|(&size, _)| size).product();
        if size != group.len() || common.get_or_insert_with(|| differs.clone()) != &differs {
            return None;
        }
    }
    let common = common.filter(|_| seen.iter().all(|&seen| seen))?;
    Some((0..sizes.len()).filter(|&axis| common[axis]).collect())
}

/// The groups of devices along some axes of a mesh.
fn along(mesh: &[(String, i64)], axes: &[String]) -> Option<Vec<Vec<i64>>> {
    let named: Vec<(&str, usize)> = mesh
        .iter()
        .map(|(name, size)| Some((name.as_str(), usize::try_from(*size).ok()?)))
        .collect::<Option<_>>()?;
    let sizes = sizes(&named)?;
    let is_fixed: Vec<bool> = mesh.iter().map(|(name, _)| !axes.contains(name)).collect();
    let devices: usize = sizes.iter().product();
    // The group of a device is that of its coordinates along the other axes.
    let mut groups =
        vec![
            Vec::new();
            sizes.iter().zip(&is_fixed).filter(|&(_, &fixed)| fixed).map(|(&size, _)| size).product()
        ];
    for device in 0..devices as i64 {
        let coordinates = coordinates(device, &sizes)?;
        let fixed = (0..sizes.len()).filter(|&axis| is_fixed[axis]);
        let group: usize = fixed.fold(0, |group, axis| group * sizes[axis] + coordinates[axis]);
        groups[group].push(device);
    }
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    const MESH: [(&str, usize); 3] = [("data", 2), ("fsdp", 4), ("tensor", 2)];

    /// Checks the axes that an attribute spans.
    #[track_caller]
    fn check(attr: &str, expect: Option<&[&str]>) {
        let (opcode, after) = match attr.starts_with("source") {
            true => ("collective-permute(x)", ""),
            false => ("all-reduce(x)", ", to_apply=add"),
        };
        let text = format!(
            "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
             ENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] {opcode}, {attr}{after} }}"
        );
        let module = parse(text, "axes.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let groups = module.instructions(module.entry()).nth(1).unwrap().replica_groups().unwrap();
        let found = if after.is_empty() { permute_axes(&groups, &MESH) } else { axes(&groups, &MESH) };
        assert_eq!(found.as_deref(), expect, "{attr}");
    }

    #[test]
    fn groups_span_the_axes_along_which_their_devices_differ() {
        check("replica_groups={}", Some(&["data", "fsdp", "tensor"]));
        check("replica_groups=[1,16]<=[16]", Some(&["data", "fsdp", "tensor"]));
        check("replica_groups=[8,2]<=[16]", Some(&["tensor"]));
        check("replica_groups=[2,8]<=[16]", Some(&["fsdp", "tensor"]));
        check("replica_groups=[8,2]<=[2,8]T(1,0)", Some(&["data"]));
        check("replica_groups=[4,4]<=[2,4,2]T(0,2,1)", Some(&["fsdp"]));
        check("replica_groups=[4,4]<=[2,4,2]T(1,0,2)", Some(&["data", "tensor"]));
        check("replica_groups=[16,1]<=[16]", Some(&[]));
        check("replica_groups={{0,2,4,6},{1,3,5,7},{14,12,10,8},{9,11,13,15}}", Some(&["fsdp"]));
        check("replica_groups=mesh['a'=2,'b'=8] {'b'}", Some(&["fsdp", "tensor"]));
        check("replica_groups=mesh['a'=2,'b'=4,'c'=2] {'a','c'}", Some(&["data", "tensor"]));
    }

    #[test]
    fn groups_that_are_not_those_of_axes_span_none() {
        check("replica_groups=[4,4]<=[16]", None);
        check("replica_groups=[4,2]<=[8]", None);
        check("replica_groups={{0,1},{2,3},{4,5},{6,7},{8,9},{10,11},{12,14},{13,15}}", None);
        check("replica_groups=[16,2]<=[32]", None);
        check("replica_groups={{0,1},{0,1}}", None);
        check("replica_groups=mesh['a'=4] {'a'}", None);
    }

    #[test]
    fn a_permute_moves_along_the_axes_of_its_pairs() {
        check("source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}", Some(&["fsdp"]));
        check("source_target_pairs={{0,9},{9,0}}", Some(&["data", "tensor"]));
        check("source_target_pairs={{0,0}}", Some(&[]));
        check("source_target_pairs={{0,16}}", None);
    }
}
