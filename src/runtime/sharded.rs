use std::{collections::BTreeMap, ops::Range};

use super::RuntimeError;
use crate::{
    base::{ArrayShape, ArrayWindow, Literal, MemorySpace, at_origin, copy_window},
    hlo::Sharding,
    pjrt::{Buffer, Client, HostArray},
    step::{Role, Slot},
};

/// An array on the devices: one shard per device, in device order.
#[derive(Debug)]
pub struct Sharded {
    shape: ArrayShape,
    sharding: Sharding,
    memory: MemorySpace,
    shards: Vec<Buffer>,
}

/// A window of an array, and the devices that have a copy of it.
struct Tile {
    window: Vec<Range<usize>>,
    devices: Vec<usize>,
}

/// The distinct windows of an array on `devices` devices. A device past the end of a padded array has an empty one.
fn tiles(shape: &ArrayShape, sharding: &Sharding, devices: usize) -> Vec<Tile> {
    let mut tiles: BTreeMap<Vec<(usize, usize)>, Tile> = BTreeMap::new();
    for device in 0..devices {
        let window = sharding.tile_of(shape, device).unwrap_or_else(|| vec![0..0; shape.rank()]);
        let key = window.iter().map(|range| (range.start, range.end)).collect();
        let tile = tiles.entry(key).or_insert(Tile { window, devices: vec![] });
        tile.devices.push(device);
    }
    tiles.into_values().collect()
}

impl Sharded {
    /// Fills the shards of an array on `devices` one after the other, so that at most one of them is in host memory.
    /// `read` writes a window of the array, row-major, into a buffer of that size. Padding of a shard is zero.
    ///
    /// # Errors
    /// Those of `read`, or if the plugin fails.
    pub fn place(
        client: &Client,
        devices: &[i32],
        slot: &Slot,
        mut read: impl FnMut(&[Range<usize>], &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        let (shape, sharding) = (slot.shape(), slot.sharding.clone());
        let shard = shard_shape(slot)?;
        let width = shape.dtype.bytes();
        let mut shards: Vec<Option<Buffer>> = devices.iter().map(|_| None).collect();
        for Tile { window, devices: holders } in tiles(&shape, &sharding, devices.len()) {
            let mut bytes = vec![0; shard.bytes()];
            let inside = ArrayShape::new(shape.dtype, window.iter().map(Range::len).collect::<Vec<_>>());
            if inside == shard {
                read(&window, &mut bytes)?;
            } else if inside.elements() > 0 {
                let mut part = vec![0; inside.bytes()];
                read(&window, &mut part)?;
                let origin = at_origin(&window);
                let windowed = |dims| ArrayWindow { dims, ranges: &origin };
                copy_window(&part, windowed(&inside.dims), &mut bytes, windowed(&shard.dims), width);
            }
            let array = |&holder: &usize| HostArray {
                bytes: &bytes,
                shape: &shard,
                device: devices[holder],
                memory: slot.memory,
            };
            let arrays: Vec<HostArray<'_>> = holders.iter().map(array).collect();
            for (holder, buffer) in holders.into_iter().zip(client.upload_all(&arrays)?) {
                shards[holder] = Some(buffer);
            }
        }
        let shards = shards.into_iter().flatten().collect();
        Ok(Self { shape, sharding, memory: slot.memory, shards })
    }

    /// Wraps the shards that a program returned.
    ///
    /// # Errors
    /// [`RuntimeError::ShardShape`] if a shard has another shape than the slot's sharding gives.
    pub fn adopt(slot: &Slot, shards: Vec<Buffer>) -> Result<Self, RuntimeError> {
        let expected = shard_shape(slot)?;
        if let Some(odd) = shards.iter().find(|shard| *shard.shape() != expected) {
            let found = odd.shape().clone();
            return Err(RuntimeError::ShardShape { role: slot.role, expected, found });
        }
        let (sharding, memory) = (slot.sharding.clone(), slot.memory);
        Ok(Self { shape: slot.shape(), sharding, memory, shards })
    }

    /// The shards, in device order.
    pub fn shards(&self) -> &[Buffer] {
        &self.shards
    }

    /// The same, by value.
    pub fn into_shards(self) -> Vec<Buffer> {
        self.shards
    }

    /// The full array, copied to the host.
    ///
    /// # Errors
    /// If a copy fails.
    pub fn to_literal(&self) -> Result<Literal, RuntimeError> {
        let Self { shape, sharding, memory: _, shards } = self;
        let mut whole = Literal::zeros(shape.clone());
        for Tile { window, devices } in tiles(shape, sharding, shards.len()) {
            let Some(shard) = devices.first().map(|&device| &shards[device]) else { continue };
            let part = shard.to_literal()?;
            let origin = at_origin(&window);
            let from = ArrayWindow { dims: &shard.shape().dims, ranges: &origin };
            let to = ArrayWindow { dims: &shape.dims, ranges: &window };
            copy_window(part.bytes(), from, whole.bytes_mut(), to, shape.dtype.bytes());
        }
        Ok(whole)
    }
}

fn shard_shape(slot: &Slot) -> Result<ArrayShape, RuntimeError> {
    let unfit = || RuntimeError::Sharding { role: slot.role, sharding: slot.sharding.to_string() };
    slot.sharding.shard_shape(&slot.shape()).ok_or_else(unfit)
}

/// State on the devices between two runs, by role.
#[derive(Debug, Default)]
pub struct DeviceState {
    values: BTreeMap<Role, Sharded>,
}

impl DeviceState {
    /// Sets the value of a role.
    pub fn insert(&mut self, role: Role, value: Sharded) {
        self.values.insert(role, value);
    }

    /// Removes and returns the value of a role.
    pub fn remove(&mut self, role: Role) -> Option<Sharded> {
        self.values.remove(&role)
    }

    /// The value of a role.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if there is none.
    pub fn get(&self, role: Role) -> Result<&Sharded, RuntimeError> {
        self.values.get(&role).ok_or(RuntimeError::Missing { role })
    }

    /// Size of the state in each device's memory in bytes, as the plugin reports it, in device order.
    ///
    /// # Errors
    /// If the plugin does not report it.
    pub fn device_bytes(&self) -> Result<Vec<u64>, RuntimeError> {
        let devices = self.values.values().map(|value| value.shards.len()).max().unwrap_or(0);
        let mut bytes = vec![0; devices];
        for value in self.values.values().filter(|value| value.memory == MemorySpace::Device) {
            for (bytes, shard) in bytes.iter_mut().zip(&value.shards) {
                *bytes += shard.bytes_on_device()? as u64;
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::DType, hlo::TileAssignment};

    #[track_caller]
    fn check(sharding: Sharding, sizes: &[usize], devices: usize, expect: &str) {
        let shape = ArrayShape::new(DType::F32, sizes);
        let found = tiles(&shape, &sharding, devices);
        let text = |tile: &Tile| format!("{:?} on {:?}", tile.window, tile.devices);
        assert_eq!(found.iter().map(text).collect::<Vec<_>>().join("; "), expect);
    }

    #[test]
    fn each_part_is_read_once_for_all_its_devices() {
        check(Sharding::Replicated, &[4], 3, "[0..4] on [0, 1, 2]");
        check(Sharding::on_mesh(&[2, 2], &[vec![1]]), &[4], 4, "[0..2] on [0, 2]; [2..4] on [1, 3]");
    }

    #[test]
    fn what_does_not_divide_leaves_the_last_devices_less() {
        let iota = TileAssignment::Iota { reshape: vec![4], perm: vec![0] };
        let sharding = Sharding::tiled(vec![4], 1, iota).unwrap();
        check(sharding, &[5], 4, "[0..2] on [0]; [2..4] on [1]; [4..5] on [2]; [5..5] on [3]");
    }
}
