//! Stacks: values of several layers as one, with the layers as the first dimension.

use crate::{
    base::{ArrayShape, LogicalSharding, MemorySpace},
    hlo::{Builder, Value},
};

/// What a stack has an entry of for each layer.
#[derive(Clone, Debug)]
pub struct LayerSlice {
    /// Its element type and sizes.
    pub shape: ArrayShape,
    /// How it lies on a mesh, where that is known.
    pub logical: Option<LogicalSharding>,
    /// Where the stack lies.
    pub memory: MemorySpace,
}

impl LayerSlice {
    /// A stack of zeros for `layers` entries.
    pub fn empty_stack<'b>(&self, b: &'b Builder<'b>, layers: usize) -> Value<'b> {
        let sizes = [&[layers], &self.shape.dims[..]].concat();
        self.with_stack_sharding(b.full(ArrayShape::new(self.shape.dtype, sizes), 0.0))
    }

    /// The entry of `stack` at `layer`.
    pub fn get<'b>(&self, stack: Value<'b>, layer: Value<'b>) -> Value<'b> {
        self.with_logical_sharding(slice_on_device(stack, layer, self.memory))
    }

    /// `stack` with the entry at `layer` replaced.
    pub fn set<'b>(&self, stack: Value<'b>, layer: Value<'b>, entry: Value<'b>) -> Value<'b> {
        let entry = self.with_logical_sharding(entry).reshape(&[&[1], &self.shape.dims[..]].concat());
        let entry = match self.memory {
            MemorySpace::Device => entry,
            MemorySpace::Host => entry.to_memory_space(MemorySpace::Host),
        };
        self.with_stack_sharding(stack.dynamic_update_slice_in_dim(0, layer, entry))
    }

    fn with_logical_sharding<'b>(&self, value: Value<'b>) -> Value<'b> {
        self.logical.iter().fold(value, |value, logical| value.with_logical_sharding(logical.clone()))
    }

    fn with_stack_sharding<'b>(&self, stack: Value<'b>) -> Value<'b> {
        self.logical.iter().fold(stack, |stack, logical| stack.with_logical_sharding(logical.stacked()))
    }
}

/// The entry at `layer` of `stack`, which lies in `memory`.
pub fn slice_on_device<'b>(stack: Value<'b>, layer: Value<'b>, memory: MemorySpace) -> Value<'b> {
    let entry = stack.dynamic_index_in_dim(layer);
    match memory {
        MemorySpace::Device => entry,
        MemorySpace::Host => entry.to_memory_space(MemorySpace::Device),
    }
}
