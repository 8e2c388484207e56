//! An instruction in one line.

use super::{classes::shape_text, ignore::IgnoreSet};
use crate::hlo::raw::{InstrRef, Module};

/// The instruction as in HLO text, without attributes: `%sum = f32[8] add(%x, %y)`.
pub fn describe(module: &Module, instr: InstrRef<'_>, ignored: IgnoreSet) -> String {
    let names = (0..instr.operands().len()).filter_map(|position| instr.operand(position));
    let names: Vec<String> = names.map(|operand| format!("%{}", operand.name())).collect();
    let shape = shape_text(module.shapes(), instr.shape(), ignored);
    format!("%{} = {shape} {}({}{})", instr.name(), instr.opcode_text(), instr.payload(), names.join(", "))
}
