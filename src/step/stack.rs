//! Stacks: values of several layers as one, with the layers as the first dimension.

use crate::{
    base::{ArrayShape, Memory, Tag},
    hlo::{Builder, Value},
};

/// What a stack has an entry of for each layer.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its element type and sizes.
    pub shape: ArrayShape,
    /// How it lies on a mesh, where that is known.
    pub tag: Option<Tag>,
    /// Where the stack lies.
    pub memory: Memory,
}

impl Entry {
    /// A stack of zeros for `layers` entries.
    pub fn empty_stack<'b>(&self, b: &'b Builder<'b>, layers: usize) -> Value<'b> {
        let sizes = [&[layers], &self.shape.dims[..]].concat();
        self.tagged_stack(b.full(ArrayShape::new(self.shape.dtype, sizes), 0.0))
    }

    /// The entry of `stack` at `layer`.
    pub fn get<'b>(&self, stack: Value<'b>, layer: Value<'b>) -> Value<'b> {
        self.tagged(entry_on_device(stack, layer, self.memory))
    }

    /// `stack` with the entry at `layer` replaced.
    pub fn set<'b>(&self, stack: Value<'b>, layer: Value<'b>, entry: Value<'b>) -> Value<'b> {
        let entry = self.tagged(entry).reshape(&[&[1], &self.shape.dims[..]].concat());
        let entry = match self.memory {
            Memory::Device => entry,
            Memory::Host => entry.placed(Memory::Host),
        };
        self.tagged_stack(stack.with_window(0, layer, entry))
    }

    fn tagged<'b>(&self, value: Value<'b>) -> Value<'b> {
        self.tag.iter().fold(value, |value, tag| value.tagged(tag.clone()))
    }

    fn tagged_stack<'b>(&self, stack: Value<'b>) -> Value<'b> {
        self.tag.iter().fold(stack, |stack, tag| stack.tagged(tag.stacked()))
    }
}

/// The entry at `layer` of `stack`, which lies in `memory`.
pub fn entry_on_device<'b>(stack: Value<'b>, layer: Value<'b>, memory: Memory) -> Value<'b> {
    let entry = stack.entry(layer);
    match memory {
        Memory::Device => entry,
        Memory::Host => entry.placed(Memory::Device),
    }
}
