//! The instructions of a computation with their users.

use rustc_hash::FxHashMap;

use super::{
    classes::{Classifier, InstrClass, ModuleClasses},
    numbers::Number,
};
use crate::hlo::raw::{CompId, InstrRef, Module, Opcode, ShapeTable};

/// A computation whose instructions are to be matched.
pub(super) struct Body<'c, 'm> {
    pub id: CompId,
    pub instrs: Vec<InstrRef<'m>>,
    pub classes: &'c [InstrClass],
    pub shapes: &'m ShapeTable,
    pub root: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Where the users of each instruction begin in `users`; one more entry than instructions.
    first_user: Vec<u32>,
    /// Users with the position of the operand.
    users: Vec<(u32, u32)>,
}

impl<'c, 'm> Body<'c, 'm> {
    pub(super) fn new(module: &'m Module, id: CompId, classes: &'c ModuleClasses) -> Self {
        let instrs: Vec<InstrRef<'m>> = module.instructions(id).collect();
        let mut first_user = vec![0_u32; instrs.len() + 1];
        for operand in instrs.iter().flat_map(|instr| instr.operands()) {
            first_user[operand.index() + 1] += 1;
        }
        for index in 1..first_user.len() {
            first_user[index] += first_user[index - 1];
        }
        let mut users = vec![(0, 0); first_user[instrs.len()] as usize];
        let mut next = first_user.clone();
        for (user, instr) in instrs.iter().enumerate() {
            for (position, operand) in instr.operands().iter().enumerate() {
                let slot = &mut next[operand.index()];
                users[*slot as usize] = (user as u32, position as u32);
                *slot += 1;
            }
        }
        let parameters = instrs.iter().filter(|instr| instr.opcode() == Opcode::Parameter).count();
        let (classes, root) = (&classes.of(id).instrs[..], module.root(id).index());
        Self { id, instrs, classes, shapes: module.shapes(), root, parameters, first_user, users }
    }

    /// The users of an instruction, with the position of the operand.
    pub(super) fn users(&self, index: usize) -> &[(u32, u32)] {
        &self.users[self.first_user[index] as usize..self.first_user[index + 1] as usize]
    }

    /// The number of a parameter; `None` for any other instruction.
    pub(super) fn parameter(&self, index: usize) -> Option<usize> {
        let instr = self.instrs[index];
        if instr.opcode() == Opcode::Parameter { instr.payload().trim().parse().ok() } else { None }
    }

    /// How each instruction is used.
    pub(super) fn uses(&self, classifier: &mut Classifier<'m>) -> Vec<Number> {
        let mut uses = vec![0; self.instrs.len()];
        // Users come after their operands.
        for index in (0..self.instrs.len()).rev() {
            let users = self.users(index).iter().map(|&(user, position)| (uses[user as usize], position));
            let mut users: Vec<(Number, u32)> = users.collect();
            uses[index] = classifier.used(self.classes[index].label, index == self.root, &mut users);
        }
        uses
    }

    /// The users of an instruction that are the only ones with their opcode, shape and position among those that `is_open`
    /// holds for. `key` gives the opcode and, where it counts, the shape.
    pub(super) fn sole_users(
        &self,
        index: usize,
        key: impl Fn(&InstrClass) -> (Number, Number),
        is_open: impl Fn(usize) -> bool,
    ) -> FxHashMap<(Number, Number, u32), Option<u32>> {
        let mut found = FxHashMap::default();
        for &(user, position) in self.users(index) {
            if is_open(user as usize) {
                let (opcode, shape) = key(&self.classes[user as usize]);
                let several = found.contains_key(&(opcode, shape, position));
                found.insert((opcode, shape, position), (!several).then_some(user));
            }
        }
        found
    }
}
