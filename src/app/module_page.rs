//! The page to browse a module, with its memory.

use super::hlo_files::OpenedModule;
use crate::{
    analyze::{self, BufferKind, Memory},
    page::{self, CurveBuffer, CurvePoint, MemoryCurve, Pair, Stage, Stages},
};

/// The memory space of the device's own memory.
const DEVICE: i64 = 0;

/// The page of one module.
pub fn of_one(opened: &OpenedModule) -> String {
    let memory = curve(opened);
    page::html(&Stages::One(stage(opened, memory.as_ref())))
}

/// The page of two modules in step. `pairs` are instructions that correspond, where they are known.
pub fn of_two(before: &OpenedModule, after: &OpenedModule, pairs: Option<&[Pair]>) -> String {
    let (before_memory, after_memory) = (curve(before), curve(after));
    page::html(&Stages::Two {
        before: stage(before, before_memory.as_ref()),
        after: stage(after, after_memory.as_ref()),
        pairs,
    })
}

fn stage<'m>(opened: &'m OpenedModule, memory: Option<&'m MemoryCurve>) -> Stage<'m> {
    Stage { title: &opened.stage, module: &opened.module, memory }
}

/// Memory over the schedule; `None` of a module without one.
fn curve(opened: &OpenedModule) -> Option<MemoryCurve> {
    let memory = Memory::of(&opened.module);
    if !memory.is_scheduled {
        return None;
    }
    let bytes = memory.curve(DEVICE);
    let points = memory.positions.iter().zip(bytes);
    let points =
        points.map(|(position, bytes)| CurvePoint { instruction: position.instr.name().to_owned(), bytes });
    let in_sum =
        |buffer: &&analyze::Buffer<'_>| buffer.space == DEVICE && buffer.kind != BufferKind::Constant;
    let buffers = memory.buffers.iter().filter(in_sum).flat_map(|buffer| {
        buffer.live.iter().map(|&(first, last)| CurveBuffer {
            name: buffer.instr.name().to_owned(),
            bytes: buffer.bytes,
            first: first as usize,
            last: last as usize,
        })
    });
    Some(MemoryCurve { points: points.collect(), buffers: buffers.collect() })
}
