//! Buffers, and positions in the schedule.

use crate::hlo::raw::{CompId, InstrRef, Module, StackFrame};

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
    /// The operation of the source program that it belongs to: the `op_name` of the first value in it that has one.
    pub op_name: Option<&'m str>,
    /// The `stack_frame_id` of that value.
    pub stack_frame: Option<u32>,
    /// Parameter, result, temporary or constant.
    pub kind: BufferKind,
    /// Bytes, with the padding of the layout.
    pub bytes: u64,
    /// The memory space of the layout: 0 is the device's memory, 5 is the host's.
    pub space: i64,
    /// First and last position of each time that it is in use, in order.
    pub live: Vec<(u32, u32)>,
}

impl<'m> Buffer<'m> {
    /// Whether the buffer is in use at a position. Constants never are.
    pub fn is_live_at(&self, position: usize) -> bool {
        let next = self.live.partition_point(|&(first, _)| first as usize <= position);
        self.kind != BufferKind::Constant
            && next.checked_sub(1).is_some_and(|index| self.live[index].1 as usize >= position)
    }

    /// The source lines that the buffer belongs to, innermost first.
    pub fn stack(&self, module: &'m Module) -> impl Iterator<Item = StackFrame<'m>> {
        module.stack(self.stack_frame.unwrap_or(0))
    }
}
