//! The arrays and tuple tables of shapes.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::size::padded_bytes;
use crate::hlo::raw::{Module, Shape, ShapeId};

/// Bytes of a pointer in the table of a tuple.
const POINTER: u64 = 8;

/// An array of a shape, or the table of pointers of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub bytes: u64,
    /// Memory space of the layout.
    pub space: i64,
    /// The shape: a tuple's of a table.
    pub shape: ShapeId,
}

/// The leaves of a shape. Those of a tuple are its table, then the leaves of its elements.
#[derive(Clone, Debug)]
pub(super) struct Leaves {
    pub list: Vec<Leaf>,
    /// Where the leaves of each element of a tuple begin, and where the last end; empty for an array.
    offsets: Vec<u32>,
}

impl Leaves {
    /// The positions of the leaves of an element of a tuple.
    pub(super) fn element(&self, index: usize) -> Option<std::ops::Range<usize>> {
        Some(*self.offsets.get(index)? as usize..*self.offsets.get(index + 1)? as usize)
    }

    /// The element of a tuple in which a leaf is, and the position there; `None` for the table.
    pub(super) fn element_at(&self, leaf: usize) -> Option<(usize, usize)> {
        // Elements without leaves do not exist: an empty tuple has a table.
        let index = self.offsets.partition_point(|&start| start as usize <= leaf).checked_sub(1)?;
        let element = self.element(index)?;
        Some((index, leaf - element.start))
    }
}

/// The leaves of the shapes of a module, each computed once.
pub(super) struct LeafTable<'m> {
    module: &'m Module,
    leaves: FxHashMap<ShapeId, Rc<Leaves>>,
}

impl<'m> LeafTable<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        Self { module, leaves: FxHashMap::default() }
    }

    /// The leaves of a shape.
    pub(super) fn of(&mut self, shape: ShapeId) -> Rc<Leaves> {
        if let Some(leaves) = self.leaves.get(&shape) {
            return leaves.clone();
        }
        let leaves = Rc::new(match self.module.shapes().get(shape) {
            Shape::Array(array) => {
                let space = array.layout.as_ref().map_or(0, |layout| layout.memory_space);
                let leaf = Leaf { bytes: padded_bytes(array), space, shape };
                Leaves { list: vec![leaf], offsets: vec![] }
            }
            &Shape::Buffer(inner) => Leaves { list: self.of(inner).list.clone(), offsets: vec![] },
            Shape::Tuple(elements) => {
                let table = Leaf { bytes: POINTER * elements.len() as u64, space: 0, shape };
                let mut leaves = Leaves { list: vec![table], offsets: vec![1] };
                for &element in elements {
                    leaves.list.extend_from_slice(&self.of(element).list);
                    leaves.offsets.push(u32::try_from(leaves.list.len()).unwrap_or(u32::MAX));
                }
                leaves
            }
        });
        self.leaves.insert(shape, leaves.clone());
        leaves
    }
}
