//! Shardings in the terms of XLA's `OpSharding`.

use std::{fmt, ops::Range};

use crate::base::{ArrayShape, Diagnostic, Shape};

/// How a value is sharded over devices. Two shardings with the same shards on every device are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sharding {
    /// Every device has the full array.
    Replicated,
    /// One device has the full array.
    Maximal(usize),
    /// Each device has one tile of the array.
    Tiled(Tiling),
    /// One sharding for each array of a tuple, nested tuples flattened; none is itself a tuple.
    Tuple(Vec<Sharding>),
}

/// A grid of tiles over an array, and the devices of each tile. [`Sharding::tiled`] makes it, in canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    tiles: Vec<usize>,
    replicas: usize,
    devices: TileAssignment,
}

/// The devices of a grid of tiles, in row-major order; XLA's `TileAssignment`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TileAssignment {
    /// An iota from zero, reshaped to `reshape` and transposed by `perm`; XLA's `IotaTileAssignment`.
    Iota {
        /// Sizes of the grid before the transposition.
        reshape: Vec<usize>,
        /// The permutation: dimension `i` of the grid is dimension `perm[i]` of `reshape`.
        perm: Vec<usize>,
    },
    /// A list of distinct devices in any order.
    Listed(Vec<usize>),
}

/// Maximum number of devices: more than any mesh has, and representable in every integer type that XLA uses for devices.
const MAX_DEVICES: usize = 1 << 20;

impl Sharding {
    /// Shards dimension `i` of an array into `tiles[i]` tiles, each on `replicas` devices. `devices` fills the grid
    /// `[tiles..., replicas]`. A grid of one tile is [`Sharding::Replicated`].
    ///
    /// # Errors
    /// A size of zero, more than 2^20 devices, an invalid permutation, a duplicate device, or a number of devices other
    /// than that of the grid.
    pub fn tiled(
        tiles: Vec<usize>,
        replicas: usize,
        mut devices: TileAssignment,
    ) -> Result<Self, Diagnostic> {
        let n_tiles = product(&tiles)?;
        let grid = product(&[n_tiles, replicas])?;
        // Replicas are alike; XLA lists them in order.
        if let TileAssignment::Listed(list) = &mut devices {
            list.chunks_mut(replicas).for_each(<[usize]>::sort_unstable);
        }
        let devices = devices.canonical()?;
        let found = devices.count();
        if found != grid {
            return Err(format!("expected {grid} devices in a sharding, found {found}").into());
        }
        Ok(if n_tiles == 1 { Self::Replicated } else { Self::Tiled(Tiling { tiles, replicas, devices }) })
    }

    /// Shards dimension `i` over the mesh axes `dims[i]`, major to minor, and replicates over the other axes. Devices
    /// are numbered in row-major order of the mesh.
    ///
    /// # Panics
    /// If a dimension has an axis outside of the mesh, an axis is used twice or has size zero, or the mesh has more
    /// than 2^20 devices.
    pub fn on_mesh(mesh_sizes: &[usize], dims: &[Vec<usize>]) -> Self {
        let size = |axes: &[usize]| axes.iter().map(|&axis| mesh_sizes[axis]).product();
        let split: Vec<usize> = dims.concat();
        let unused: Vec<usize> = (0..mesh_sizes.len()).filter(|axis| !split.contains(axis)).collect();
        let tiles = dims.iter().map(|axes| size(axes)).collect();
        let devices =
            TileAssignment::Iota { reshape: mesh_sizes.to_vec(), perm: [split, unused.clone()].concat() };
        Self::tiled(tiles, size(&unused), devices)
            .unwrap_or_else(|error| panic!("dims {dims:?} on a mesh of {mesh_sizes:?}: {error}"))
    }

    /// Checks that a value of the given shape can have this sharding.
    ///
    /// # Errors
    /// If the rank or the number of arrays in a tuple differs, or one of the two is a tuple and the other is not.
    pub fn check(&self, shape: &Shape) -> Result<(), Diagnostic> {
        match (self, shape) {
            (Self::Replicated | Self::Maximal(_), Shape::Array(_)) => Ok(()),
            (Self::Tiled(tiling), Shape::Array(array)) if tiling.tiles.len() == array.rank() => Ok(()),
            (Self::Tuple(elements), Shape::Tuple(_)) => {
                let mut arrays = Vec::new();
                collect_arrays(shape, &mut arrays);
                // XLA requires one sharding for a tuple without arrays too.
                let (expected, found) = (arrays.len().max(1), elements.len());
                if found != expected {
                    return Err(
                        format!("expected {expected} shardings for {shape}, found {found}: {self}").into()
                    );
                }
                if elements.iter().any(|element| matches!(element, Self::Tuple(_))) {
                    return Err(format!("expected a flat list of shardings for {shape}, found {self}").into());
                }
                elements.iter().zip(arrays).try_for_each(|(element, array)| element.check(array))
            }
            _ => Err(format!("expected a sharding for {shape}, found {self}").into()),
        }
    }

    /// The shape of each shard; as in XLA, a size that does not divide is padded up. `None` if the sharding does not
    /// fit the array.
    pub fn shard_shape(&self, shape: &ArrayShape) -> Option<ArrayShape> {
        match self {
            Self::Replicated | Self::Maximal(_) => Some(shape.clone()),
            Self::Tiled(Tiling { tiles, .. }) => (tiles.len() == shape.rank()).then(|| {
                let sizes = shape.dims.iter().zip(tiles).map(|(&dim, &tiles)| dim.div_ceil(tiles));
                ArrayShape::new(shape.dtype, sizes.collect::<Vec<_>>())
            }),
            Self::Tuple(_) => None,
        }
    }

    /// The array shape padded up to full shards. `None` if the sharding does not fit the array.
    pub fn padded_shape(&self, shape: &ArrayShape) -> Option<ArrayShape> {
        let mut padded = self.shard_shape(shape)?;
        if let Self::Tiled(Tiling { tiles, .. }) = self {
            padded.dims.iter_mut().zip(tiles).for_each(|(size, tiles)| *size *= tiles);
        }
        Some(padded)
    }

    /// The slice of the array that is on `device`, one range for each dimension; the rest of its shard is padding. `None`
    /// if the device has no shard, or the sharding does not fit the array.
    pub fn tile_of(&self, shape: &ArrayShape, device: usize) -> Option<Vec<Range<usize>>> {
        let sizes = self.shard_shape(shape)?.dims;
        let mut tile = match self {
            Self::Tiled(tiling) => tiling.devices.position(device)? / tiling.replicas,
            Self::Maximal(holder) if *holder != device => return None,
            _ => 0,
        };
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(sizes.len());
        for (dim, (&size, &full)) in sizes.iter().zip(&shape.dims).enumerate().rev() {
            let tiles = if let Self::Tiled(tiling) = self { tiling.tiles[dim] } else { 1 };
            let start = (tile % tiles).saturating_mul(size).min(full);
            ranges.push(start..start.saturating_add(size).min(full));
            tile /= tiles;
        }
        ranges.reverse();
        Some(ranges)
    }
}

impl Tiling {
    /// The number of tiles along each dimension of the array.
    pub fn tiles(&self) -> &[usize] {
        &self.tiles
    }

    /// The number of devices of each tile.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// The devices of the grid `[tiles..., replicas]`: the iota with the fewest dimensions, or a list if no iota has this
    /// order.
    pub fn devices(&self) -> &TileAssignment {
        &self.devices
    }

    /// The sizes of the grid: the tiles, then the replicas if there are several.
    pub(super) fn grid(&self) -> Vec<usize> {
        let replicas = (self.replicas > 1).then_some(self.replicas);
        self.tiles.iter().copied().chain(replicas).collect()
    }
}

/// One dimension of a transposed grid; neighbours along it differ by `stride` devices.
#[derive(Clone, Copy)]
struct Digit {
    size: usize,
    stride: usize,
}

impl TileAssignment {
    /// The same devices as the iota with the fewest dimensions, if there is one.
    ///
    /// # Errors
    /// An invalid permutation, a duplicate device, no device or more than 2^20.
    fn canonical(self) -> Result<Self, Diagnostic> {
        match self {
            Self::Iota { reshape, perm } => {
                product(&reshape)?;
                let mut sorted = perm.clone();
                sorted.sort_unstable();
                if !sorted.iter().copied().eq(0..reshape.len()) {
                    let rank = reshape.len();
                    return Err(format!("expected a permutation of {rank} dimensions, found {perm:?}").into());
                }
                Ok(Self::from_digits(&merged(&digits(&reshape, &perm))))
            }
            Self::Listed(list) => {
                product(&[list.len()])?;
                let mut sorted = list.clone();
                sorted.sort_unstable();
                if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(format!("duplicate device {} in a sharding", twice[0]).into());
                }
                let counts_up = sorted.iter().copied().eq(0..list.len());
                Ok(counts_up.then(|| covering(&list)).flatten().unwrap_or(Self::Listed(list)))
            }
        }
    }

    fn from_digits(digits: &[Digit]) -> Self {
        if digits.is_empty() {
            return Self::Iota { reshape: vec![1], perm: vec![0] };
        }
        let mut order: Vec<usize> = (0..digits.len()).collect();
        order.sort_unstable_by_key(|&index| std::cmp::Reverse(digits[index].stride));
        let mut perm = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank, &index)| perm[index] = rank);
        Self::Iota { reshape: order.iter().map(|&index| digits[index].size).collect(), perm }
    }

    fn count(&self) -> usize {
        match self {
            Self::Iota { reshape, .. } => reshape.iter().product(),
            Self::Listed(list) => list.len(),
        }
    }

    /// The position of a device in the grid.
    fn position(&self, device: usize) -> Option<usize> {
        match self {
            Self::Iota { reshape, perm } => (device < self.count()).then(|| {
                let advance = |at, Digit { size, stride }: Digit| at * size + device / stride % size;
                digits(reshape, perm).into_iter().fold(0, advance)
            }),
            Self::Listed(list) => list.iter().position(|&listed| listed == device),
        }
    }
}

fn digits(reshape: &[usize], perm: &[usize]) -> Vec<Digit> {
    let mut stride = 1;
    let minor_first = reshape.iter().rev().map(|&size| {
        let digit = Digit { size, stride };
        stride *= size;
        digit
    });
    let minor_first: Vec<Digit> = minor_first.collect();
    perm.iter().map(|&dim| minor_first[reshape.len() - 1 - dim]).collect()
}

/// Drops dimensions of size one, and merges adjacent dimensions that are contiguous.
fn merged(digits: &[Digit]) -> Vec<Digit> {
    let mut merged: Vec<Digit> = Vec::new();
    for &digit in digits.iter().filter(|digit| digit.size != 1) {
        match merged.last_mut() {
            Some(last) if last.stride == digit.size * digit.stride => {
                *last = Digit { size: last.size * digit.size, stride: digit.stride };
            }
            _ => merged.push(digit),
        }
    }
    merged
}

/// The iota whose devices are this list, if there is one.
fn covering(list: &[usize]) -> Option<TileAssignment> {
    let mut digits = Vec::new();
    let mut block = 1;
    while block < list.len() {
        let stride = list[block].checked_sub(list[0])?;
        let counts_on = |&step: &usize| list.get(step * block) == Some(&(list[0] + step * stride));
        let size = (1..).take_while(counts_on).count() + 1;
        digits.insert(0, Digit { size, stride });
        block *= size;
    }
    let found = TileAssignment::from_digits(&merged(&digits));
    let is_list = || list.iter().enumerate().all(|(at, &device)| found.position(device) == Some(at));
    (found.count() == list.len() && is_list()).then_some(found)
}

fn product(sizes: &[usize]) -> Result<usize, Diagnostic> {
    let product = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    product.filter(|product| (1..=MAX_DEVICES).contains(product)).ok_or_else(|| {
        format!("expected between 1 and {MAX_DEVICES} devices in a sharding, found sizes {sizes:?}").into()
    })
}

fn collect_arrays<'a>(shape: &'a Shape, arrays: &mut Vec<&'a Shape>) {
    match shape {
        Shape::Array(_) => arrays.push(shape),
        Shape::Tuple(elements) => elements.iter().for_each(|element| collect_arrays(element, arrays)),
    }
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicated => f.write_str("{replicated}"),
            Self::Maximal(device) => write!(f, "{{maximal device={device}}}"),
            Self::Tiled(tiling) => {
                write!(f, "{{devices=[{}]", list(&tiling.grid()))?;
                match &tiling.devices {
                    TileAssignment::Iota { reshape, perm } => {
                        write!(f, "<=[{}]", list(reshape))?;
                        if perm.len() > 1 {
                            write!(f, "T({})", list(perm))?;
                        }
                    }
                    TileAssignment::Listed(devices) => f.write_str(&list(devices))?,
                }
                f.write_str(if tiling.replicas > 1 { " last_tile_dim_replicate}" } else { "}" })
            }
            Self::Tuple(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::to_string).collect();
                write!(f, "{{{}}}", elements.join(", "))
            }
        }
    }
}

fn list(values: &[usize]) -> String {
    values.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{base::DType, hlo::testing::Draw};

    #[track_caller]
    fn check(mesh: &[usize], dims: &[&[usize]], expect: &str) {
        let dims: Vec<Vec<usize>> = dims.iter().map(|axes| axes.to_vec()).collect();
        assert_eq!(Sharding::on_mesh(mesh, &dims).to_string(), expect);
    }

    #[test]
    fn mesh_terms_print_as_xla_prints_them() {
        check(&[4, 2], &[&[], &[]], "{replicated}");
        check(&[1, 1], &[&[0], &[1]], "{replicated}");
        check(&[4, 2], &[&[0], &[1]], "{devices=[4,2]<=[8]}");
        check(&[1, 8, 1], &[&[0], &[1]], "{devices=[1,8]<=[8]}");
        check(&[4, 2], &[&[0], &[]], "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
        check(&[4, 2], &[&[1], &[0]], "{devices=[2,4]<=[4,2]T(1,0)}");
        check(&[4, 2], &[&[1], &[]], "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
        check(&[2, 3, 4], &[&[2], &[0]], "{devices=[4,2,3]<=[6,4]T(1,0) last_tile_dim_replicate}");
        check(&[2, 3, 4], &[&[1], &[]], "{devices=[3,1,8]<=[2,3,4]T(1,0,2) last_tile_dim_replicate}");
        check(&[2, 3, 4], &[&[0], &[2]], "{devices=[2,4,3]<=[2,3,4]T(0,2,1) last_tile_dim_replicate}");
        check(&[2, 1, 4], &[&[2, 0], &[1]], "{devices=[8,1]<=[2,4]T(1,0)}");
        check(&[2, 3, 4], &[&[2, 1, 0]], "{devices=[24]<=[2,3,4]T(2,1,0)}");
        check(&[2, 2, 2], &[&[1], &[], &[0, 2]], "{devices=[2,1,4]<=[2,2,2]T(1,0,2)}");
    }

    fn listed(tiles: &[usize], devices: &[usize]) -> Result<String, Diagnostic> {
        let devices = TileAssignment::Listed(devices.to_vec());
        let sharding = Sharding::tiled(tiles.to_vec(), 1, devices);
        sharding.map(|sharding| sharding.to_string())
    }

    #[test]
    fn a_list_that_no_iota_covers_remains_a_list() {
        assert_eq!(listed(&[2, 2], &[0, 1, 2, 3]).unwrap(), "{devices=[2,2]<=[4]}");
        assert_eq!(listed(&[2, 2], &[0, 2, 1, 3]).unwrap(), "{devices=[2,2]<=[2,2]T(1,0)}");
        assert_eq!(listed(&[4], &[0, 1, 3, 2]).unwrap(), "{devices=[4]0,1,3,2}");
        assert_eq!(listed(&[2], &[5, 4]).unwrap(), "{devices=[2]5,4}");
        let replicas = Sharding::tiled(vec![2], 2, TileAssignment::Listed(vec![9, 0, 3, 1])).unwrap();
        assert_eq!(replicas.to_string(), "{devices=[2,2]0,9,1,3 last_tile_dim_replicate}");
    }

    #[test]
    fn invalid_tile_assignments_are_refused() {
        assert_eq!(listed(&[4], &[0, 1]).unwrap_err().message, "expected 4 devices in a sharding, found 2");
        assert_eq!(listed(&[2], &[1, 1]).unwrap_err().message, "duplicate device 1 in a sharding");
        let message = "expected between 1 and 1048576 devices in a sharding, found sizes [0, 2]";
        assert_eq!(listed(&[0, 2], &[]).unwrap_err().message, message);
        let iota = TileAssignment::Iota { reshape: vec![2, 2], perm: vec![1, 1] };
        let message = "expected a permutation of 2 dimensions, found [1, 1]";
        assert_eq!(Sharding::tiled(vec![4], 1, iota).unwrap_err().message, message);
    }

    #[test]
    fn a_sharding_must_fit_its_shape() {
        let array = Shape::array(DType::F32, [8, 4]);
        let tiled = Sharding::on_mesh(&[4, 2], &[vec![0], vec![1]]);
        assert_eq!(tiled.check(&array), Ok(()));
        let vector = Shape::array(DType::F32, [8]);
        let message = "expected a sharding for f32[8], found {devices=[4,2]<=[8]}";
        assert_eq!(tiled.check(&vector).unwrap_err().message, message);
        let pair = Shape::Tuple(vec![array, Shape::Tuple(vec![vector])]);
        let both = Sharding::Tuple(vec![tiled.clone(), Sharding::Replicated]);
        assert_eq!(both.check(&pair), Ok(()));
        let message = "expected 2 shardings for (f32[8,4], (f32[8])), found 1: {{devices=[4,2]<=[8]}}";
        assert_eq!(Sharding::Tuple(vec![tiled.clone()]).check(&pair).unwrap_err().message, message);
        assert_eq!(Sharding::Tuple(vec![Sharding::Replicated]).check(&Shape::Tuple(vec![])), Ok(()));
        let nested = Sharding::Tuple(vec![tiled, Sharding::Tuple(vec![Sharding::Replicated])]);
        let message = "expected a flat list of shardings for (f32[8,4], (f32[8])), \
                       found {{devices=[4,2]<=[8]}, {{replicated}}}";
        assert_eq!(nested.check(&pair).unwrap_err().message, message);
    }

    #[test]
    fn the_last_tiles_of_an_odd_size_are_short_or_empty() {
        let sharding = Sharding::on_mesh(&[4], &[vec![0]]);
        let shape = ArrayShape::new(DType::F32, [5]);
        let tiles: Vec<_> = (0..5).map(|device| sharding.tile_of(&shape, device)).collect();
        let part = |range| Some(vec![range]);
        assert_eq!(tiles, [part(0..2), part(2..4), part(4..5), part(5..5), None]);
        assert_eq!(sharding.shard_shape(&shape).unwrap().dims, [2]);
    }

    proptest! {
        #[test]
        fn shards_cover_the_array_and_replicas_are_equal(
            mesh in vec(1_usize..4, 1..4), rank in 1_usize..4, seed in any::<u64>(),
        ) {
            let mut draw = Draw(seed);
            let mut dims = vec![vec![]; rank];
            for axis in 0..mesh.len() {
                if let Some(axes) = dims.get_mut(draw.below(rank + 1)) {
                    axes.insert(draw.below(axes.len() + 1), axis);
                }
            }
            let shape = ArrayShape::new(DType::F32, (0..rank).map(|_| draw.below(7)).collect::<Vec<_>>());
            let sharding = Sharding::on_mesh(&mesh, &dims);
            let n_devices: usize = mesh.iter().product();
            let used: usize = dims.concat().iter().map(|&axis| mesh[axis]).product();
            let mut held = vec![0; shape.elements()];
            for device in 0..n_devices {
                let ranges = sharding.tile_of(&shape, device).unwrap();
                let shard = sharding.shard_shape(&shape).unwrap();
                prop_assert!(ranges.iter().zip(&shard.dims).all(|(range, &size)| range.len() <= size));
                for (index, count) in held.iter_mut().enumerate() {
                    let mut rest = index;
                    let inside = ranges.iter().zip(&shape.dims).rev().all(|(range, &size)| {
                        let at = rest % size;
                        rest /= size;
                        range.contains(&at)
                    });
                    *count += usize::from(inside);
                }
                // Devices that differ only along unused axes have the same tile.
                let strides = |axis: usize| mesh[axis + 1..].iter().product::<usize>();
                for axis in (0..mesh.len()).filter(|axis| !dims.concat().contains(axis)) {
                    let first = device - device / strides(axis) % mesh[axis] * strides(axis);
                    prop_assert_eq!(sharding.tile_of(&shape, first).unwrap(), ranges.clone());
                }
            }
            prop_assert!(held.iter().all(|&count| count == n_devices / used));
        }

        #[test]
        fn a_list_equals_the_iota_that_covers_it(sizes in vec(1_usize..5, 1..5), seed in any::<u64>()) {
            let mut draw = Draw(seed);
            let mut perm = vec![];
            (0..sizes.len()).for_each(|dim| perm.insert(draw.below(perm.len() + 1), dim));
            let count: usize = sizes.iter().product();
            let iota = TileAssignment::Iota { reshape: sizes, perm }.canonical().unwrap();
            let mut list = vec![0; count];
            (0..count).for_each(|device| list[iota.position(device).unwrap()] = device);
            prop_assert_eq!(TileAssignment::Listed(list).canonical().unwrap(), iota);
        }
    }
}
