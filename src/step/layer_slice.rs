//! Stacks: values of several layers as one array, with the layers as the first dimension.

use crate::{
    base::{ArrayShape, MemorySpace},
    hlo::{Builder, Value},
    mesh::{LogicalSharding, WithLogicalSharding},
};

/// One layer's slice of a stack.
#[derive(Clone, Debug)]
pub(super) struct LayerSlice {
    pub shape: ArrayShape,
    pub logical: Option<LogicalSharding>,
    /// The memory space of the stack.
    pub memory: MemorySpace,
}

impl LayerSlice {
    /// A stack of zeros for `layers` slices.
    pub(super) fn zeros<'b>(&self, b: &'b Builder<'b>, layers: usize) -> Value<'b> {
        let sizes = [&[layers], &self.shape.dims[..]].concat();
        self.stack_sharding(b.full(ArrayShape::new(self.shape.dtype, sizes), 0.0))
    }

    /// The slice of `stack` at `layer`, on the device.
    pub(super) fn read<'b>(&self, stack: Value<'b>, layer: Value<'b>) -> Value<'b> {
        self.slice_sharding(slice_on_device(stack, layer, self.memory))
    }

    /// `stack` with `slice` written at `layer`.
    pub(super) fn write<'b>(&self, stack: Value<'b>, layer: Value<'b>, slice: Value<'b>) -> Value<'b> {
        let slice = self.slice_sharding(slice).reshape(&[&[1], &self.shape.dims[..]].concat());
        let slice = match self.memory {
            MemorySpace::Device => slice,
            MemorySpace::Host => slice.to_memory_space(MemorySpace::Host),
        };
        self.stack_sharding(stack.dynamic_update_slice_in_dim(0, layer, slice))
    }

    fn slice_sharding<'b>(&self, slice: Value<'b>) -> Value<'b> {
        self.logical.iter().fold(slice, |slice, logical| slice.with_logical_sharding(logical.clone()))
    }

    fn stack_sharding<'b>(&self, stack: Value<'b>) -> Value<'b> {
        self.logical.iter().fold(stack, |stack, logical| stack.with_logical_sharding(logical.stacked()))
    }
}

/// The slice at `layer` of `stack`, which is stored in `memory`; on the device.
pub(super) fn slice_on_device<'b>(stack: Value<'b>, layer: Value<'b>, memory: MemorySpace) -> Value<'b> {
    let slice = stack.dynamic_index_in_dim(layer);
    match memory {
        MemorySpace::Device => slice,
        MemorySpace::Host => slice.to_memory_space(MemorySpace::Device),
    }
}
