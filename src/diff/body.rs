//! The instructions of a computation with their users.

use rustc_hash::FxHashMap;

use super::{
    classes::{Annotation, Classifier, InstrClass, ModuleClasses},
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
    /// Where the operands of each instruction begin in `operands`; one more entry than instructions.
    first_operand: Vec<u32>,
    operands: Vec<u32>,
    /// Where the users of each instruction begin in `users`; one more entry than instructions.
    first_user: Vec<u32>,
    /// Users with the position of the operand.
    users: Vec<(u32, u32)>,
}

impl<'c, 'm> Body<'c, 'm> {
    pub(super) fn new(module: &'m Module, id: CompId, classes: &'c ModuleClasses) -> Self {
        let instrs: Vec<InstrRef<'m>> = module.instructions(id).collect();
        let (classes, root) = (&classes.of(id).instrs[..], module.root(id).index());
        let (mut first_operand, mut operands) = (vec![0], Vec::new());
        for (instr, class) in instrs.iter().zip(classes) {
            let own = if class.annotation == Annotation::Ignored { &[] } else { instr.operands() };
            operands.extend(own.iter().map(|operand| annotated(&instrs, classes, operand.index()) as u32));
            first_operand.push(operands.len() as u32);
        }
        let mut first_user = vec![0_u32; instrs.len() + 1];
        operands.iter().for_each(|&operand| first_user[operand as usize + 1] += 1);
        for index in 1..first_user.len() {
            first_user[index] += first_user[index - 1];
        }
        let mut users = vec![(0, 0); operands.len()];
        let mut next = first_user.clone();
        for user in 0..instrs.len() {
            let own = first_operand[user] as usize..first_operand[user + 1] as usize;
            for (position, &operand) in operands[own].iter().enumerate() {
                let slot = &mut next[operand as usize];
                users[*slot as usize] = (user as u32, position as u32);
                *slot += 1;
            }
        }
        let root = if classes[root].annotation == Annotation::Ignored {
            annotated(&instrs, classes, root)
        } else {
            root
        };
        let parameters = instrs.iter().filter(|instr| instr.opcode() == Opcode::Parameter).count();
        let shapes = module.shapes();
        Self { id, instrs, classes, shapes, root, parameters, first_operand, operands, first_user, users }
    }

    /// The operands of an instruction, without annotations: what they annotate. An annotation that is ignored has none.
    pub(super) fn operands(&self, index: usize) -> &[u32] {
        &self.operands[self.first_operand[index] as usize..self.first_operand[index + 1] as usize]
    }

    /// Whether an instruction is an annotation that is ignored.
    pub(super) fn is_ignored(&self, index: usize) -> bool {
        self.classes[index].annotation == Annotation::Ignored
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

/// The instruction that annotations, one on the other, annotate.
fn annotated(instrs: &[InstrRef<'_>], classes: &[InstrClass], mut index: usize) -> usize {
    while classes[index].annotation != Annotation::None {
        index = instrs[index].operands()[0].index();
    }
    index
}
