//! Shardings, groups of devices, metadata and origins as messages.

use super::{
    messages_data::{
        AxisRefProto, CollectiveDeviceListProto, DimensionSharding, IotaReplicaGroupListProto, IotaTransform,
        MeshAxesReplicaGroupListProto, MeshAxis, MeshProto, NamedShardingProto, OpMetadata, OpSharding,
        OriginalArrayProto, OriginalValueElementProto, OriginalValueProto, Payload, ReplicaGroup, ShapeProto,
        SubAxis,
    },
    messages_instr::HloInstructionProto,
    text_shape::TUPLE,
    text_sharding::{KINDS, MAXIMAL, TILED, TUPLE_OF_SHARDINGS},
    value::Value,
};
use crate::hlo::{
    limits::MAX_TUPLE_NESTING,
    raw::cursor::{Parsed, SyntaxError},
};

/// The sharding here of a value with this shape. One sharding of a tuple is that of all its leaves.
pub(super) fn sharding(value: &mut Value<'_>, shape: Option<&ShapeProto>) -> Parsed<OpSharding> {
    let mut inside = *value;
    inside.expect(b'{')?;
    let is_tuple = inside.next_is(b'{')? || inside.next_is(b'}')?;
    if is_tuple {
        let tuple_shardings = value.items(b'{', b'}', one)?;
        return Ok(OpSharding { kind: TUPLE_OF_SHARDINGS, tuple_shardings, ..OpSharding::default() });
    }
    let found = one(value)?;
    Ok(match shape.filter(|shape| shape.element_type == TUPLE) {
        Some(shape) => OpSharding {
            kind: TUPLE_OF_SHARDINGS,
            // XLA gives an empty tuple one sharding.
            tuple_shardings: vec![found; leaves(shape).max(1)],
            ..OpSharding::default()
        },
        None => found,
    })
}

fn leaves(shape: &ShapeProto) -> usize {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().map(leaves).sum(),
        _ => 1,
    }
}

fn one(value: &mut Value<'_>) -> Parsed<OpSharding> {
    let mut inside = *value;
    inside.expect(b'{')?;
    let word = inside.0.peek_word();
    if word == b"mesh" || word == b"maximal_mesh" {
        value.expect(b'{')?;
        let named = named(value)?;
        value.expect(b'}')?;
        return Ok(OpSharding { named_sharding: Some(Box::new(named)), ..OpSharding::default() });
    }
    array(value)
}

fn array(value: &mut Value<'_>) -> Parsed<OpSharding> {
    let mut found = OpSharding::default();
    value.expect(b'{')?;
    while !value.accept(b'}')? {
        let at = *value;
        match value.word("a part of a sharding")? {
            "device" => {
                value.expect(b'=')?;
                found.tile_assignment_devices = vec![value.int()?];
            }
            "devices" => {
                found.kind = TILED;
                value.expect(b'=')?;
                tiles(&mut found, value)?;
            }
            "last_tile_dim_replicate" => found.replicate_on_last_tile_dim = true,
            "last_tile_dims" => {
                value.expect(b'=')?;
                found.last_tile_dims = value.items(b'{', b'}', |value| value.one_of(KINDS))?;
            }
            "metadata" => {
                value.expect(b'=')?;
                found.metadata = metadata_list(value)?;
            }
            word @ ("shard_as" | "shard_like") => {
                found.is_shard_group = true;
                found.shard_group_type = i32::from(word == "shard_like");
                found.shard_group_id = value.int()?;
            }
            word => {
                let kind = KINDS.iter().position(|kind| *kind == word);
                found.kind = kind.ok_or_else(|| at.error("a part of a sharding"))? as i32;
            }
        }
        value.accept(b',')?;
    }
    if found.kind == MAXIMAL && found.tile_assignment_devices.len() != 1 {
        return Err(value.error("`device=` of a maximal sharding"));
    }
    Ok(found)
}

/// `[2,1,4]<=[8]` or `[2,2]3,1,2,0`
fn tiles(sharding: &mut OpSharding, value: &mut Value<'_>) -> Parsed<()> {
    sharding.tile_assignment_dimensions = value.items(b'[', b']', Value::int)?;
    if value.next_is(b'<')? {
        let (dims, order) = iota(value)?;
        sharding.iota_reshape_dims = dims;
        sharding.iota_transpose_perm = order;
        return Ok(());
    }
    loop {
        sharding.tile_assignment_devices.push(value.int()?);
        if !value.accept(b',')? {
            return Ok(());
        }
    }
}

/// `<=[2,4]T(1,0)`, with the order of the dimensions written out.
fn iota(value: &mut Value<'_>) -> Parsed<(Vec<i64>, Vec<i32>)> {
    value.expect(b'<')?;
    value.expect(b'=')?;
    let at = *value;
    let dims = value.items(b'[', b']', Value::int)?;
    if dims.is_empty() {
        return Err(at.error("dimensions such as `[2,4]`"));
    }
    let mut next = *value;
    if next.accept_word("T")? && next.next_is(b'(')? {
        *value = next;
        return Ok((dims, value.items(b'(', b')', Value::int32)?));
    }
    let order = (0..dims.len() as i32).collect();
    Ok((dims, order))
}

/// `mesh['x'=4,'y'=2], device_ids=(...)`
fn mesh(value: &mut Value<'_>) -> Parsed<MeshProto> {
    let axes = value.items(b'[', b']', |value| {
        let name = value.utf8()?;
        value.expect(b'=')?;
        Ok(MeshAxis { name, size: value.int()? })
    })?;
    let mut found = MeshProto { axes, ..MeshProto::default() };
    let mut next = *value;
    if !next.accept(b',')? || !next.accept_word("device_ids")? {
        return Ok(found);
    }
    next.expect(b'=')?;
    *value = next;
    next.expect(b'(')?;
    if !next.next_is(b'[')? {
        found.device_ids = value.items(b'(', b')', Value::int)?;
        return Ok(found);
    }
    value.expect(b'(')?;
    let reshape_dims = value.items(b'[', b']', Value::int)?;
    let transpose_perm = match value.accept_word("T")? {
        true => value.items(b'(', b')', Value::int)?,
        false => (0..reshape_dims.len() as i64).collect(),
    };
    value.expect(b')')?;
    found.iota_transform = Some(IotaTransform { reshape_dims, transpose_perm });
    Ok(found)
}

/// An axis by name or by number, or a part of one: `'x'`, `'1'`, `'x':(2)4`
fn axis(value: &mut Value<'_>, mesh: &MeshProto) -> Parsed<AxisRefProto> {
    value.0.skip_blank()?;
    let at = *value;
    let name = value.utf8()?;
    let named = mesh.axes.iter().position(|axis| axis.name == name);
    let numbered = || name.parse::<usize>().ok().filter(|&index| index < mesh.axes.len());
    let index = named.or_else(numbered).ok_or_else(|| at.error("an axis of the mesh"))?;
    let mut found = AxisRefProto { mesh_axis_index: index as i64, sub_axis_info: None };
    if value.accept(b':')? {
        value.expect(b'(')?;
        let pre_size = value.int()?;
        value.expect(b')')?;
        found.sub_axis_info = Some(SubAxis { pre_size, size: value.int()? });
    }
    Ok(found)
}

fn axes(value: &mut Value<'_>, mesh: &MeshProto) -> Parsed<Vec<AxisRefProto>> {
    value.items(b'{', b'}', |value| axis(value, mesh))
}

/// `{'x', ?}`
fn dimension(value: &mut Value<'_>, mesh: &MeshProto) -> Parsed<DimensionSharding> {
    let mut is_closed = true;
    let axes = value.items(b'{', b'}', |value| {
        if value.accept(b'?')? {
            is_closed = false;
            return Ok(None);
        }
        axis(value, mesh).map(Some)
    })?;
    Ok(DimensionSharding { axes: axes.into_iter().flatten().collect(), is_closed })
}

fn named(value: &mut Value<'_>) -> Parsed<NamedShardingProto> {
    let mut found = NamedShardingProto::default();
    let mesh = if value.accept_word("maximal_mesh")? {
        value.expect(b'[')?;
        if !value.accept_word("device_id")? {
            return Err(value.error("`device_id`"));
        }
        value.expect(b'=')?;
        let device_ids = vec![value.int()?];
        value.expect(b']')?;
        MeshProto { device_ids, ..MeshProto::default() }
    } else {
        value.accept_word("mesh")?;
        mesh(value)?
    };
    let whole = |index| AxisRefProto { mesh_axis_index: index as i64, sub_axis_info: None };
    loop {
        value.accept(b',')?;
        if value.next_is(b'}')? {
            break;
        }
        if value.next_is(b'[')? {
            found.dim_shardings = value.items(b'[', b']', |value| dimension(value, &mesh))?;
            continue;
        }
        let at = *value;
        let word = value.word("a part of a sharding")?;
        if value.accept(b'=')? {
            match word {
                "replicated" => found.replicated_axes = axes(value, &mesh)?,
                "unreduced" => found.unreduced_axes = axes(value, &mesh)?,
                "manual" => found.manual_axes = axes(value, &mesh)?,
                "metadata" => found.metadata = metadata_list(value)?,
                _ => return Err(at.error("a part of a sharding")),
            }
            continue;
        }
        let all = || (0..mesh.axes.len()).map(whole).collect();
        match word {
            "replicated" => {}
            "unreduced" => found.unreduced_axes = all(),
            "manual" => found.manual_axes = all(),
            _ => return Err(at.error("a part of a sharding")),
        }
    }
    found.mesh = Some(mesh);
    Ok(found)
}

/// Sets the groups of devices of a collective.
pub(super) fn groups(instr: &mut HloInstructionProto, value: &mut Value<'_>) -> Parsed<()> {
    if value.next_is(b'{')? {
        let replica_groups =
            value.items(b'{', b'}', |value| Ok(ReplicaGroup { replica_ids: value.ints()? }))?;
        instr.collective_device_list = Some(Box::new(CollectiveDeviceListProto { replica_groups }));
    } else if value.accept_word("mesh")? {
        let mesh = mesh(value)?;
        let axes = axes(value, &mesh)?;
        let groups = MeshAxesReplicaGroupListProto { mesh: Some(mesh), axes };
        instr.mesh_axes_replica_group_list = Some(Box::new(groups));
    } else {
        let at = *value;
        let shape = value.items(b'[', b']', Value::int)?;
        let [num_replica_groups, num_devices_per_group] = shape[..] else {
            return Err(at.error("numbers of groups and of devices in each"));
        };
        let (iota_reshape_dims, iota_transpose_perm) = iota(value)?;
        instr.iota_collective_device_list = Some(Box::new(IotaReplicaGroupListProto {
            num_replica_groups,
            num_devices_per_group,
            iota_reshape_dims,
            iota_transpose_perm,
        }));
    }
    Ok(())
}

/// One group of metadata, or several in braces.
fn metadata_list(value: &mut Value<'_>) -> Parsed<Vec<OpMetadata>> {
    let mut inside = *value;
    inside.expect(b'{')?;
    if inside.next_is(b'{')? { value.items(b'{', b'}', metadata) } else { Ok(vec![metadata(value)?]) }
}

/// `{op_name="a" source_line=3}`, with or without commas.
pub(super) fn metadata(value: &mut Value<'_>) -> Parsed<OpMetadata> {
    let mut found = OpMetadata::default();
    value.expect(b'{')?;
    while !value.accept(b'}')? {
        let at = *value;
        let field = value.word("a field of metadata")?;
        value.expect(b'=')?;
        match field {
            "op_type" => found.op_type = value.utf8()?,
            "op_name" => found.op_name = value.utf8()?,
            "source_file" => found.source_file = value.utf8()?,
            "source_line" => found.source_line = value.int32()?,
            "source_end_line" => found.source_end_line = value.int32()?,
            "source_column" => found.source_column = value.int32()?,
            "source_end_column" => found.source_end_column = value.int32()?,
            "stack_frame_id" => found.stack_frame_id = value.int32()?,
            "deduplicated_name" => found.deduplicated_name = value.utf8()?,
            "scheduling_name" => found.scheduling_name = value.utf8()?,
            "metadata_payload" => {
                found.metadata_payload = Some(Payload { value: Some(value.string()?), id: None });
            }
            "profile_type" => found.profile_type = value.items(b'{', b'}', Value::int32)?,
            _ => return Err(at.error("a field of metadata that a proto has")),
        }
        value.accept(b',')?;
    }
    Ok(found)
}

/// `{{"x"}}`, `{({"y" {0}}, {})}` or `{[synthetic_call]}`
pub(super) fn origin(value: &mut Value<'_>) -> Parsed<OriginalValueProto> {
    let mut found = OriginalValueProto::default();
    value.expect(b'{')?;
    if value.accept(b'[')? {
        if !value.accept_word("synthetic_call")? {
            return Err(value.error("`synthetic_call`"));
        }
        value.expect(b']')?;
        found.is_synthetic_call = true;
    } else {
        origin_tree(value, &mut found.elements, &mut Vec::new())?;
    }
    value.expect(b'}')?;
    Ok(found)
}

fn origin_tree(
    value: &mut Value<'_>,
    elements: &mut Vec<OriginalValueElementProto>,
    index: &mut Vec<i64>,
) -> Parsed<()> {
    if value.next_is(b'(')? {
        if index.len() > MAX_TUPLE_NESTING {
            return Err(SyntaxError::new(value.0.at(), "expected fewer nested tuples"));
        }
        let mut position = 0;
        value.items(b'(', b')', |value| {
            index.push(position);
            let read = origin_tree(value, elements, index);
            index.pop();
            position += 1;
            read
        })?;
        return Ok(());
    }
    value.expect(b'{')?;
    let original_array = if value.next_is(b'}')? { None } else { Some(original_array(value)?) };
    value.expect(b'}')?;
    elements.push(OriginalValueElementProto { shape_index: index.clone(), original_array });
    Ok(())
}

/// `"name" {1,0}`
pub(super) fn original_array(value: &mut Value<'_>) -> Parsed<OriginalArrayProto> {
    let instruction_name = value.utf8()?;
    let shape_index = if value.next_is(b'{')? { value.ints()? } else { vec![] };
    Ok(OriginalArrayProto { instruction_name, shape_index })
}
