//! Memory over the schedule of a module: its buffers, how long each is in use, and the sum at each instruction.

mod buffers;
mod flow;
mod groups;
mod in_place;
mod leaves;
mod size;
#[cfg(test)]
mod tests;

use flow::Flow;
pub use size::padded_bytes;

use crate::hlo::raw::{CompId, InstrRef, Module};

/// An instruction in the order in which a module runs.
#[derive(Clone, Copy)]
pub struct Position<'m> {
    /// The computation of the instruction.
    pub computation: CompId,
    /// The instruction.
    pub instr: InstrRef<'m>,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BufferKind {
    /// A parameter of the entry computation, also one whose memory a result takes (donation). It is held throughout.
    Parameter,
    /// A result that is not in the memory of a parameter. It is held throughout, since it is allocated before a run.
    Output,
    /// An intermediate value.
    Temporary,
    /// A constant. It is part of the program, and not in the sum.
    Constant,
}

/// Memory for one or more values that are in it at different times.
#[derive(Clone)]
pub struct Buffer<'m> {
    /// The computation of the instruction.
    pub computation: CompId,
    /// The instruction that writes it first.
    pub instr: InstrRef<'m>,
    /// Parameter, result, temporary or constant.
    pub kind: BufferKind,
    /// Bytes, with the padding of the layout.
    pub bytes: u64,
    /// The memory space of the layout: 0 is the device's memory, 5 is the host's.
    pub space: i64,
    /// First and last position of each time that it is in use, in order.
    pub live: Vec<(u32, u32)>,
}

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
        buffers.sort_by(|a, b| b.bytes.cmp(&a.bytes));
        Self { is_scheduled: module.is_scheduled(), positions: flow.positions, buffers }
    }

    /// Bytes in use at each position in a memory space; 0 is the device's memory.
    pub fn curve(&self, space: i64) -> Vec<u64> {
        buffers::curve(self.positions.len(), self.buffers.iter().filter(|buffer| buffer.space == space))
    }

    /// The highest point of the curve of a memory space.
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

    /// Bytes of all buffers of a kind in a memory space.
    pub fn total(&self, kind: BufferKind, space: i64) -> u64 {
        let found = self.buffers.iter().filter(|buffer| buffer.kind == kind && buffer.space == space);
        found.fold(0, |sum, buffer| sum.saturating_add(buffer.bytes))
    }
}

impl<'m> Buffer<'m> {
    /// Whether the buffer is in use at a position. Constants never are.
    pub fn is_live_at(&self, position: usize) -> bool {
        let next = self.live.partition_point(|&(first, _)| first as usize <= position);
        self.kind != BufferKind::Constant
            && next.checked_sub(1).is_some_and(|index| self.live[index].1 as usize >= position)
    }

    /// The operation of the source program that the buffer belongs to, from the metadata of its instruction.
    pub fn op_name(&self) -> Option<&'m str> {
        self.instr.metadata("op_name")
    }
}
