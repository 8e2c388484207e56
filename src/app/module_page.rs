//! The page to browse a module, with its memory.

use std::collections::HashMap;

use super::hlo_files::OpenedModule;
use crate::{
    analyze::{self, BufferKind, Memory},
    base::MemorySpace,
    diff::ModuleDiff,
    hlo::raw::{CompId, InstrRef, Module, Opcode},
    page::{self, CurveBuffer, CurvePoint, MemoryCurve, Pair, PairStatus, Place, Stage, Stages},
};

/// The number of the device's memory space in layouts.
const DEVICE: i64 = MemorySpace::Device.space();

/// The page of one module.
pub fn of_one(opened: &OpenedModule) -> String {
    let memory = curve(opened);
    page::html(&Stages::One(stage(opened, memory.as_ref())))
}

/// The page of two modules in step, with what [`diff`](crate::diff::diff) found of them where that is known.
pub fn of_two(before: &OpenedModule, after: &OpenedModule, found: Option<&ModuleDiff<'_>>) -> String {
    let pairs = found.map(|found| pairs(&before.module, &after.module, found));
    let (before_memory, after_memory) = (curve(before), curve(after));
    page::html(&Stages::Two {
        before: stage(before, before_memory.as_ref()),
        after: stage(after, after_memory.as_ref()),
        pairs: pairs.as_deref(),
    })
}

/// The instructions that correspond.
fn pairs(before: &Module, after: &Module, found: &ModuleDiff<'_>) -> Vec<Pair> {
    let pair = |(a, x): (CompId, usize), (b, y): (CompId, usize), status| Pair {
        before: Place { computation: a, position: x },
        after: Place { computation: b, position: y },
        status,
    };
    let mut pairs = Vec::new();
    for changed in &found.computations {
        pairs.extend(changed.aligned.iter().map(|aligned| {
            let status = if aligned.is_changed { PairStatus::Changed } else { PairStatus::Same };
            pair((changed.before, aligned.before), (changed.after, aligned.after), status)
        }));
    }
    for &(a, b) in &found.equal_pairs {
        // Equal computations may have another order: then instructions are found by name.
        let names: HashMap<&str, usize> =
            after.instructions(b).enumerate().map(|(position, instr)| (instr.name(), position)).collect();
        let opcodes: Vec<Opcode> = after.instructions(b).map(InstrRef::opcode).collect();
        for (x, instr) in before.instructions(a).enumerate() {
            let at_position = opcodes.get(x).filter(|&&opcode| opcode == instr.opcode()).map(|_| x);
            if let Some(y) = names.get(instr.name()).copied().or(at_position) {
                pairs.push(pair((a, x), (b, y), PairStatus::Same));
            }
        }
    }
    pairs
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
