//! Shardings, groups of devices and origins as text.

use std::{collections::BTreeMap, fmt::Write, ops::Bound};

use super::{
    escape::push_quoted,
    messages_data::{
        AxisRefProto, MeshProto, NamedShardingProto, OpMetadata, OpSharding, OriginalArrayProto,
        OriginalValueElementProto, OriginalValueProto, ShapeProto,
    },
    messages_instr::HloInstructionProto,
    text_metadata::push_metadata,
    text_shape::{TUPLE, join, separator},
};
use crate::{base::Diagnostic, hlo::limits::MAX_TUPLE_NESTING};

/// `OpSharding.Type`, in the order of its numbers.
pub(super) const KINDS: &[&str] =
    &["replicated", "maximal", "tuple", "devices", "manual", "unknown", "unreduced"];
pub(super) const MAXIMAL: i32 = 1;
pub(super) const TUPLE_OF_SHARDINGS: i32 = 2;
pub(super) const TILED: i32 = 3;

/// Appends a sharding in braces.
pub(super) fn push_sharding(
    out: &mut String,
    sharding: &OpSharding,
    payloads: &[Vec<u8>],
) -> Result<(), Diagnostic> {
    out.push('{');
    if sharding.kind == TUPLE_OF_SHARDINGS {
        for (index, element) in sharding.tuple_shardings.iter().enumerate() {
            if element.kind == TUPLE_OF_SHARDINGS {
                return Err("expected one sharding for each leaf of a tuple, found a tuple".into());
            }
            out.push_str(&separator(index));
            push_sharding(out, element, payloads)?;
        }
    } else if let Some(named) = &sharding.named_sharding {
        push_named(out, named, payloads)?;
    } else {
        push_array_sharding(out, sharding, payloads)?;
    }
    out.push('}');
    Ok(())
}

fn kind_name(kind: i32) -> Result<&'static str, Diagnostic> {
    let name = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind).copied());
    name.ok_or_else(|| format!("unknown type of a sharding: {kind}").into())
}

fn push_array_sharding(
    out: &mut String,
    sharding: &OpSharding,
    payloads: &[Vec<u8>],
) -> Result<(), Diagnostic> {
    match sharding.kind {
        TILED => push_tiles(out, sharding)?,
        MAXIMAL => {
            let [device] = sharding.tile_assignment_devices[..] else {
                let found = sharding.tile_assignment_devices.len();
                return Err(format!("expected one device of a maximal sharding, found {found}").into());
            };
            let _ = write!(out, "maximal device={device}");
        }
        kind => out.push_str(kind_name(kind)?),
    }
    if sharding.is_shard_group {
        let name = if sharding.shard_group_type == 0 { "shard_as" } else { "shard_like" };
        let _ = write!(out, " {name} {}", sharding.shard_group_id);
    }
    match &sharding.metadata[..] {
        [] => Ok(()),
        [one] => {
            out.push_str(" metadata={");
            push_metadata(out, one, payloads)?;
            out.push('}');
            Ok(())
        }
        several => {
            out.push_str(" metadata=");
            push_metadata_list(out, several, payloads)
        }
    }
}

fn push_metadata_list(out: &mut String, list: &[OpMetadata], payloads: &[Vec<u8>]) -> Result<(), Diagnostic> {
    for (index, metadata) in list.iter().enumerate() {
        out.push_str(if index == 0 { "{{" } else { ", {" });
        push_metadata(out, metadata, payloads)?;
        out.push('}');
    }
    out.push('}');
    Ok(())
}

/// `devices=[2,1,4]<=[8] last_tile_dim_replicate`
fn push_tiles(out: &mut String, sharding: &OpSharding) -> Result<(), Diagnostic> {
    let _ = write!(out, "devices=[{}]", join(&sharding.tile_assignment_dimensions));
    if sharding.iota_reshape_dims.is_empty() && sharding.tile_assignment_devices.is_empty() {
        return Err("expected devices of a tiled sharding, found none".into());
    }
    if sharding.iota_reshape_dims.is_empty() {
        out.push_str(&join(&sharding.tile_assignment_devices));
    } else {
        push_iota(out, &sharding.iota_reshape_dims, &sharding.iota_transpose_perm);
    }
    if sharding.replicate_on_last_tile_dim {
        out.push_str(" last_tile_dim_replicate");
    }
    if !sharding.last_tile_dims.is_empty() {
        let names: Result<Vec<_>, _> = sharding.last_tile_dims.iter().map(|&kind| kind_name(kind)).collect();
        let _ = write!(out, " last_tile_dims={{{}}}", names?.join(", "));
    }
    Ok(())
}

/// `<=[2,4]T(1,0)`
fn push_iota<T: ToString + PartialEq + Copy + TryFrom<usize>>(out: &mut String, dims: &[i64], order: &[T]) {
    let _ = write!(out, "<=[{}]", join(dims));
    let is_plain = order.iter().enumerate().all(|(index, &dim)| T::try_from(index).ok() == Some(dim));
    if !is_plain {
        let _ = write!(out, "T({})", join(order));
    }
}

fn push_named(
    out: &mut String,
    sharding: &NamedShardingProto,
    payloads: &[Vec<u8>],
) -> Result<(), Diagnostic> {
    let mesh = sharding.mesh.clone().unwrap_or_default();
    let all = |axes: &[AxisRefProto]| {
        let whole = |(index, axis): (usize, &AxisRefProto)| {
            axis.sub_axis_info.is_none() && axis.mesh_axis_index == index as i64
        };
        axes.len() == mesh.axes.len() && !axes.is_empty() && axes.iter().enumerate().all(whole)
    };
    let no_dims = sharding.dim_shardings.is_empty();
    let lists = [
        ("replicated", &sharding.replicated_axes),
        ("unreduced", &sharding.unreduced_axes),
        ("manual", &sharding.manual_axes),
    ];
    let used: Vec<_> = lists.iter().filter(|(_, axes)| !axes.is_empty()).collect();
    if let (true, &[device]) = (mesh.axes.is_empty(), &mesh.device_ids[..]) {
        let _ = write!(out, "maximal_mesh[device_id={device}]");
    } else {
        push_mesh(out, &mesh)?;
        match used[..] {
            [] if no_dims => out.push_str(", replicated"),
            [&(name, axes)] if no_dims && name != "replicated" && all(axes) => drop(write!(out, ", {name}")),
            _ => {
                out.push_str(", [");
                for (index, dim) in sharding.dim_shardings.iter().enumerate() {
                    out.push_str(if index == 0 { "{" } else { ", {" });
                    push_axes(out, &dim.axes, &mesh, ", ")?;
                    if !dim.is_closed {
                        out.push_str(if dim.axes.is_empty() { "?" } else { ", ?" });
                    }
                    out.push('}');
                }
                out.push(']');
                for (name, axes) in used {
                    let _ = write!(out, ", {name}={{");
                    push_axes(out, axes, &mesh, ", ")?;
                    out.push('}');
                }
            }
        }
    }
    if !sharding.metadata.is_empty() {
        out.push_str(", metadata=");
        push_metadata_list(out, &sharding.metadata, payloads)?;
    }
    Ok(())
}

/// `mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0))`
fn push_mesh(out: &mut String, mesh: &MeshProto) -> Result<(), Diagnostic> {
    out.push_str("mesh[");
    for (index, axis) in mesh.axes.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        let _ = write!(out, "'{}'={}", axis_name(&axis.name)?, axis.size);
    }
    out.push(']');
    if let Some(iota) = &mesh.iota_transform {
        let _ = write!(out, ", device_ids=([{}]", join(&iota.reshape_dims));
        let _ = write!(out, "T({}))", join(&iota.transpose_perm));
    } else if !mesh.device_ids.is_empty() {
        let _ = write!(out, ", device_ids=({})", join(&mesh.device_ids));
    }
    Ok(())
}

/// A name that needs no escapes between single quotes.
fn axis_name(name: &str) -> Result<&str, Diagnostic> {
    let plain = |c: char| {
        c.is_ascii_graphic() && !matches!(c, '\'' | '"' | '\\' | '{' | '}' | '[' | ']' | '(' | ')' | '/')
    };
    if name.chars().all(plain) {
        Ok(name)
    } else {
        Err(format!("unsupported name of a mesh axis: {name:?}").into())
    }
}

fn push_axes(
    out: &mut String,
    axes: &[AxisRefProto],
    mesh: &MeshProto,
    separator: &str,
) -> Result<(), Diagnostic> {
    for (index, axis) in axes.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { separator });
        let name = usize::try_from(axis.mesh_axis_index).ok().and_then(|index| mesh.axes.get(index));
        let name = name.ok_or_else(|| format!("unknown mesh axis: {}", axis.mesh_axis_index))?;
        let _ = write!(out, "'{}'", axis_name(&name.name)?);
        if let Some(part) = &axis.sub_axis_info {
            let _ = write!(out, ":({}){}", part.pre_size, part.size);
        }
    }
    Ok(())
}

/// Appends the groups of devices of a collective: listed, counted up or by mesh axes.
pub(super) fn push_groups(out: &mut String, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    if let Some(groups) = &instr.mesh_axes_replica_group_list {
        let mesh = groups.mesh.clone().unwrap_or_default();
        push_mesh(out, &mesh)?;
        out.push_str(" {");
        push_axes(out, &groups.axes, &mesh, ",")?;
        out.push('}');
        return Ok(());
    }
    if let Some(groups) = &instr.iota_collective_device_list {
        if groups.iota_reshape_dims.is_empty() {
            return Err("expected dimensions of groups that are counted up, found none".into());
        }
        let _ = write!(out, "[{},{}]", groups.num_replica_groups, groups.num_devices_per_group);
        push_iota(out, &groups.iota_reshape_dims, &groups.iota_transpose_perm);
        return Ok(());
    }
    let groups = match &instr.collective_device_list {
        Some(list) => &list.replica_groups,
        None => &instr.replica_groups,
    };
    let groups = groups.iter().map(|group| format!("{{{}}}", join(&group.replica_ids)));
    let _ = write!(out, "{{{}}}", groups.collect::<Vec<_>>().join(","));
    Ok(())
}

/// Appends the origin of an instruction with this shape: a leaf, or nested as the shape is.
pub(super) fn push_origin(
    out: &mut String,
    origin: &OriginalValueProto,
    shape: Option<&ShapeProto>,
) -> Result<(), Diagnostic> {
    out.push('{');
    if origin.is_synthetic_call {
        out.push_str("[synthetic_call]");
        if !origin.elements.is_empty() {
            return Err("expected no elements in the origin of a synthetic call".into());
        }
    } else {
        let elements =
            origin.elements.iter().map(|element| (element.shape_index.as_slice(), element)).collect();
        push_origin_tree(out, &elements, shape, &mut Vec::new())?;
    }
    out.push('}');
    Ok(())
}

/// Appends the leaf with this index, or a tuple of what is inside of it.
fn push_origin_tree(
    out: &mut String,
    elements: &BTreeMap<&[i64], &OriginalValueElementProto>,
    shape: Option<&ShapeProto>,
    index: &mut Vec<i64>,
) -> Result<(), Diagnostic> {
    if index.len() > MAX_TUPLE_NESTING {
        return Err(format!("expected at most {MAX_TUPLE_NESTING} nested tuples, found more").into());
    }
    let inner =
        shape.filter(|shape| shape.element_type == TUPLE).map_or(&[][..], |shape| &shape.tuple_shapes);
    let is_tuple = shape.is_some_and(|shape| shape.element_type == TUPLE);
    // The last element inside of this one has the largest index.
    let mut next = index.clone();
    next.push(i64::MAX);
    let last =
        elements.range::<[i64], _>((Bound::Excluded(&index[..]), Bound::Included(&next[..]))).next_back();
    let last = last.map(|(found, _)| found[index.len()]);
    if let Some(element) = elements.get(&index[..]).filter(|_| last.is_none()) {
        out.push('{');
        if let Some(array) = &element.original_array {
            push_original_array(out, array);
        }
        out.push('}');
        return Ok(());
    }
    if !is_tuple && last.is_none() {
        out.push_str("{}");
        return Ok(());
    }
    let count = last.map_or(0, |last| last.saturating_add(1)).max(inner.len() as i64);
    if count > inner.len() as i64 {
        let expected = inner.len();
        return Err(format!("expected an origin of {expected} elements, found index {}", count - 1).into());
    }
    out.push('(');
    for position in 0..count {
        out.push_str(if position == 0 { "" } else { ", " });
        index.push(position);
        push_origin_tree(out, elements, inner.get(position as usize), index)?;
        index.pop();
    }
    out.push(')');
    Ok(())
}

/// Appends `"name" {1,0}`.
pub(super) fn push_original_array(out: &mut String, array: &OriginalArrayProto) {
    push_quoted(out, array.instruction_name.as_bytes());
    if !array.shape_index.is_empty() {
        let _ = write!(out, " {{{}}}", join(&array.shape_index));
    }
}
