//! Memory over the schedule of a module: its buffers, how long each is in use, and the sum at each instruction.

mod buffer;
mod buffers;
mod flow;
mod groups;
mod in_place;
mod leaves;
mod size;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

pub use buffer::{Buffer, BufferKind, Position};
use flow::Flow;
pub use size::padded_bytes;

use crate::hlo::raw::Module;

/// Memory over the schedule of a module.
#[derive(Clone)]
pub struct Memory<'m> {
    /// Whether the positions are a schedule. If not, they are the order of the text, and the compiler will choose another one,
    /// fuse, and reuse memory: then the curve is a rough upper bound.
    pub is_scheduled: bool,
    /// The instructions in the order in which they run, those of called computations before the caller.
    pub positions: Vec<Position<'m>>,
    /// The buffers, largest first.
    pub buffers: Vec<Buffer<'m>>,
}

/// The highest point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Bytes in use.
    pub bytes: u64,
    /// The first position at which they are.
    pub position: usize,
}

impl<'m> Memory<'m> {
    /// The buffers of a module. A `while` and what it carries share memory, and so do the operand and the result of an update in
    /// place; the operands of an asynchronous operation are in use until it is done. A computation that is called repeatedly is
    /// entered once; further calls count with the same peak.
    pub fn of(module: &'m Module) -> Self {
        let mut flow = Flow::new(module);
        let root = flow.enter(module.entry(), &[], 0);
        let mut buffers = buffers::collect(module, &mut flow, root);
        buffers::add_repeats(&flow, &mut buffers);
        buffers.sort_by_key(|buffer| Reverse(buffer.bytes));
        Self { is_scheduled: module.is_scheduled(), positions: flow.positions, buffers }
    }

    /// Bytes in use at each position in a memory space; 0 is the device's memory.
    pub fn curve(&self, space: i64) -> Vec<u64> {
        buffers::curve(self.positions.len(), self.buffers.iter().filter(|buffer| buffer.space == space))
    }

    /// The highest point of the curve of a memory space. Compilers report a little more, since their temporaries leave gaps: usually
    /// up to 1 %, and up to a tenth where the peak is of few large buffers.
    pub fn peak(&self, space: i64) -> Peak {
        let mut peak = Peak { bytes: 0, position: 0 };
        for (position, bytes) in self.curve(space).into_iter().enumerate() {
            if bytes > peak.bytes {
                peak = Peak { bytes, position };
            }
        }
        peak
    }

    /// The buffers of a memory space that are in use at a position, largest first.
    pub fn live_at(&self, space: i64, position: usize) -> impl Iterator<Item = &Buffer<'m>> {
        self.buffers.iter().filter(move |buffer| buffer.space == space && buffer.is_live_at(position))
    }

    /// The sum of all parameters, results, temporaries or constants in a memory space, in bytes.
    pub fn total(&self, kind: BufferKind, space: i64) -> u64 {
        let found = self.buffers.iter().filter(|buffer| buffer.kind == kind && buffer.space == space);
        found.fold(0, |sum, buffer| sum.saturating_add(buffer.bytes))
    }
}
