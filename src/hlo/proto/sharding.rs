//! Conversion of shardings to and from `OpSharding`.

use super::{
    ints::{index, indices, int, ints},
    messages::{OpSharding, SHARDING_MAXIMAL, SHARDING_OTHER, SHARDING_REPLICATED, SHARDING_TUPLE},
};
use crate::{
    base::Diagnostic,
    hlo::{Sharding, TileAssignment, Tiling},
};

pub(super) fn sharding_proto(sharding: &Sharding) -> OpSharding {
    match sharding {
        Sharding::Replicated => OpSharding { kind: SHARDING_REPLICATED, ..OpSharding::default() },
        Sharding::Maximal(device) => OpSharding {
            kind: SHARDING_MAXIMAL,
            tile_assignment_dimensions: vec![1],
            tile_assignment_devices: vec![int(*device)],
            ..OpSharding::default()
        },
        Sharding::Tiled(tiling) => tiling_proto(tiling),
        Sharding::Tuple(elements) => OpSharding {
            kind: SHARDING_TUPLE,
            tuple_shardings: elements.iter().map(sharding_proto).collect(),
            ..OpSharding::default()
        },
    }
}

fn tiling_proto(tiling: &Tiling) -> OpSharding {
    let proto = OpSharding {
        kind: SHARDING_OTHER,
        tile_assignment_dimensions: ints(&tiling.grid()),
        replicate_on_last_tile_dim: tiling.replicas() > 1,
        ..OpSharding::default()
    };
    match tiling.devices() {
        TileAssignment::Iota { reshape, perm } => OpSharding {
            iota_reshape_dims: ints(reshape),
            iota_transpose_perm: perm.iter().map(|&dim| i32::try_from(dim).unwrap_or(i32::MAX)).collect(),
            ..proto
        },
        TileAssignment::Listed(devices) => OpSharding { tile_assignment_devices: ints(devices), ..proto },
    }
}

pub(super) fn sharding(proto: &OpSharding) -> Result<Sharding, Diagnostic> {
    if proto.kind != SHARDING_TUPLE {
        return array_sharding(proto);
    }
    proto.tuple_shardings.iter().map(array_sharding).collect::<Result<_, _>>().map(Sharding::Tuple)
}

fn array_sharding(proto: &OpSharding) -> Result<Sharding, Diagnostic> {
    let OpSharding {
        kind,
        tile_assignment_dimensions,
        tile_assignment_devices,
        tuple_shardings: _,
        replicate_on_last_tile_dim,
        last_tile_dims,
        iota_reshape_dims,
        iota_transpose_perm,
        is_shard_group,
    } = proto;
    if *is_shard_group {
        return Err("unsupported shard group: expected a sharding without groups".into());
    }
    match *kind {
        SHARDING_REPLICATED => Ok(Sharding::Replicated),
        SHARDING_MAXIMAL => match tile_assignment_devices.as_slice() {
            &[device] => index(device).map(Sharding::Maximal),
            devices => Err(format!("expected one device, found {devices:?}").into()),
        },
        SHARDING_OTHER => {
            let replicates = match last_tile_dims.as_slice() {
                [] => *replicate_on_last_tile_dim,
                [SHARDING_REPLICATED] => true,
                kinds => {
                    return Err(format!("expected replicas in the last dimension, found {kinds:?}").into());
                }
            };
            let mut tiles = indices(tile_assignment_dimensions)?;
            let replicas = if replicates { tiles.pop().unwrap_or(1) } else { 1 };
            let perm = iota_transpose_perm.iter().map(|&dim| index(i64::from(dim)));
            let devices = match iota_reshape_dims.as_slice() {
                [] => TileAssignment::Listed(indices(tile_assignment_devices)?),
                reshape => {
                    TileAssignment::Iota { reshape: indices(reshape)?, perm: perm.collect::<Result<_, _>>()? }
                }
            };
            Sharding::tiled(tiles, replicas, devices)
        }
        kind => Err(format!("expected a replicated, maximal or tiled sharding, found type {kind}").into()),
    }
}
