//! What changed in an instruction, and in a computation.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::hlo::raw::{CompId, InstrRef};

/// The part of an instruction that changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangedPart<'m> {
    /// The opcode: another instruction of the same shape and operands. Its attributes are not compared.
    Opcode,
    /// The shape of the result.
    Shape,
    /// The sharding: that of Shardy where it changed, which names axes, else that of HLO.
    Sharding,
    /// The literal of a constant.
    Constant,
    /// The number of a parameter.
    ParameterNumber,
    /// An attribute; a frontend attribute by its key.
    Attribute(&'m str),
    /// The computation that an attribute names: another one, and not a changed one.
    Callee(&'static str),
    /// An operand, by its position: another instruction, and not a changed one.
    Operand(usize),
    /// The number of operands.
    OperandCount,
    /// The name.
    Name,
    /// The place among the instructions that are in both computations.
    Order,
}

/// A change of an instruction, the same text for the same change of another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change<'m> {
    /// What changed.
    pub part: ChangedPart<'m>,
    /// Its text before; `None` if it was absent, or has no text.
    pub before: Option<Cow<'m, str>>,
    /// Its text after; `None` if it is absent, or has no text.
    pub after: Option<Cow<'m, str>>,
}

/// An instruction in both modules, before and after.
#[derive(Clone)]
pub struct ChangedInstr<'m> {
    /// In the first module.
    pub before: InstrRef<'m>,
    /// In the second module.
    pub after: InstrRef<'m>,
    /// What changed.
    pub changes: Vec<Change<'m>>,
}

/// A computation in both modules, before and after.
#[derive(Clone)]
pub struct ChangedComputation<'m> {
    /// In the first module.
    pub before: CompId,
    /// In the second module.
    pub after: CompId,
    /// How often each runs in one run of its module; 0 for one that is applied to elements.
    pub runs: [f64; 2],
    /// The root before and after, where it is another instruction.
    pub root: Option<[InstrRef<'m>; 2]>,
    /// Instructions that correspond, in the order of the second module.
    pub aligned: Vec<AlignedInstr>,
    /// Number of instructions in both that are equal by themselves.
    pub unchanged: usize,
    /// Instructions in both that changed.
    pub changed: Vec<ChangedInstr<'m>>,
    /// Instructions of the first module that the second lacks.
    pub removed: Vec<InstrRef<'m>>,
    /// Instructions of the second module that the first lacks.
    pub added: Vec<InstrRef<'m>>,
}

/// Two instructions that correspond, by their positions in their computations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedInstr {
    /// In the first module.
    pub before: usize,
    /// In the second module.
    pub after: usize,
    /// Whether they differ.
    pub is_changed: bool,
}

/// One change with the instructions that have it.
pub struct ChangeGroup<'d, 'm> {
    /// The change.
    pub change: &'d Change<'m>,
    /// The instructions, before and after.
    pub instrs: Vec<(InstrRef<'m>, InstrRef<'m>)>,
}

impl<'m> ChangedComputation<'m> {
    /// The number of instructions that changed, were removed or were added.
    pub fn len(&self) -> usize {
        self.changed.len() + self.removed.len() + self.added.len()
    }

    /// Whether nothing differs by itself: what differs is a computation that an instruction calls, or the name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.root.is_none()
    }

    /// The changes, each once, those of most instructions first.
    pub fn groups(&self) -> Vec<ChangeGroup<'_, 'm>> {
        let mut groups: Vec<ChangeGroup<'_, 'm>> = Vec::new();
        let mut by_change: FxHashMap<&Change<'m>, usize> = FxHashMap::default();
        for instr in &self.changed {
            for change in &instr.changes {
                let index = *by_change.entry(change).or_insert(groups.len());
                if index == groups.len() {
                    groups.push(ChangeGroup { change, instrs: Vec::new() });
                }
                groups[index].instrs.push((instr.before, instr.after));
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.instrs.len()));
        groups
    }
}
