//! Which computation of one module is which of the other.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{
    align::{Alignment, Arguments, align},
    body::Body,
    classes::{Classifier, ModuleClasses},
    numbers::Number,
};
use crate::hlo::raw::{CompId, InstrId, InstrRef, Module, Opcode};

/// The computations of two modules in pairs.
pub(super) struct Pairs<'c, 'm> {
    /// For each computation of the first module, that of the second.
    pub to_b: Vec<Option<CompId>>,
    /// For each computation of the second module, that of the first.
    pub to_a: Vec<Option<CompId>>,
    /// Where a computation of the first module is in `unequal`.
    pub matched: FxHashMap<CompId, usize>,
    /// The pairs that are not equal, with their instructions matched, in the order in which they were found: callers first.
    pub unequal: Vec<Matched<'c, 'm>>,
}

/// A pair of computations that are not equal, with their instructions matched.
pub(super) struct Matched<'c, 'm> {
    pub before: Body<'c, 'm>,
    pub after: Body<'c, 'm>,
    pub alignment: Alignment,
    /// For the number of each parameter of the first computation, that of its match.
    pub parameters: FxHashMap<usize, usize>,
}

/// A module with its numbers.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'c, 'm> {
    pub module: &'m Module,
    pub classes: &'c ModuleClasses,
}

impl Numbered<'_, '_> {
    pub(super) fn number(self, id: CompId) -> Number {
        self.classes.of(id).number
    }
}

/// Pairs the entries, computations that are equal, those that matched instructions call, and those of one name that are left.
pub(super) fn pair<'c, 'm>(
    a: Numbered<'c, 'm>,
    b: Numbered<'c, 'm>,
    classifier: &mut Classifier<'m>,
) -> Pairs<'c, 'm> {
    let (to_b, to_a) = (vec![None; a.module.ids().len()], vec![None; b.module.ids().len()]);
    let pairs = Pairs { to_b, to_a, matched: FxHashMap::default(), unequal: Vec::new() };
    let mut search = Search { a, b, pairs, queue: VecDeque::new() };
    search.join(a.module.entry(), b.module.entry(), None);
    search.join_by(|side, id| side.number(id));
    search.follow(classifier);
    search.join_by(|side, id| side.module.computation_name(id));
    search.follow(classifier);
    search.pairs
}

struct Search<'c, 'm> {
    a: Numbered<'c, 'm>,
    b: Numbered<'c, 'm>,
    pairs: Pairs<'c, 'm>,
    /// Unequal pairs whose instructions have not been matched.
    queue: VecDeque<(CompId, CompId, Option<Arguments>)>,
}

impl<'c, 'm> Search<'c, 'm> {
    /// Pairs two computations unless one of them is paired.
    fn join(&mut self, a: CompId, b: CompId, arguments: Option<Arguments>) {
        let Pairs { to_b, to_a, .. } = &mut self.pairs;
        if to_b[a.index()].is_none() && to_a[b.index()].is_none() {
            to_b[a.index()] = Some(b);
            to_a[b.index()] = Some(a);
            if self.a.number(a) != self.b.number(b) {
                self.queue.push_back((a, b, arguments));
            }
        }
    }

    /// Pairs computations with the same key, in the order of the texts.
    fn join_by<K: std::hash::Hash + Eq>(&mut self, key: impl Fn(Numbered<'c, 'm>, CompId) -> K) {
        let mut of_b: FxHashMap<K, VecDeque<CompId>> = FxHashMap::default();
        for id in self.b.module.ids().filter(|id| self.pairs.to_a[id.index()].is_none()) {
            of_b.entry(key(self.b, id)).or_default().push_back(id);
        }
        for id in self.a.module.ids() {
            if self.pairs.to_b[id.index()].is_none()
                && let Some(other) = of_b.get_mut(&key(self.a, id)).and_then(VecDeque::pop_front)
            {
                self.join(id, other, None);
            }
        }
    }

    /// Matches the instructions of unequal pairs, and pairs the computations that matched instructions call.
    fn follow(&mut self, classifier: &mut Classifier<'m>) {
        while let Some((a, b, arguments)) = self.queue.pop_front() {
            let before = Body::new(self.a.module, a, self.a.classes);
            let after = Body::new(self.b.module, b, self.b.classes);
            let alignment = align(&before, &after, arguments.as_ref(), classifier);
            for (x, y) in alignment.to_b.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)?))) {
                let (x, y) = (before.instrs[x], after.instrs[y as usize]);
                for ((attr_x, callee_x), (attr_y, callee_y)) in x.callees().zip(y.callees()) {
                    if attr_x == attr_y {
                        self.join(
                            callee_x,
                            callee_y,
                            takes_operands(x).then(|| arguments_of(x, y, &alignment)),
                        );
                    }
                }
            }
            let parameters = parameters(&before, &after, &alignment);
            self.pairs.matched.insert(a, self.pairs.unequal.len());
            self.pairs.unequal.push(Matched { before, after, alignment, parameters });
        }
    }
}

/// Whether the parameters of the called computation are the operands of the instruction, one by one.
pub(super) fn takes_operands(instr: InstrRef<'_>) -> bool {
    matches!(instr.opcode(), Opcode::Fusion | Opcode::Call)
}

/// The positions of matched operands of two instructions.
fn arguments_of(x: InstrRef<'_>, y: InstrRef<'_>, alignment: &Alignment) -> Arguments {
    let mut of_y: FxHashMap<usize, VecDeque<usize>> = FxHashMap::default();
    for (position, operand) in y.operands().iter().enumerate() {
        of_y.entry(operand.index()).or_default().push_back(position);
    }
    let position = |(position, operand): (usize, &InstrId)| {
        let other = alignment.to_b[operand.index()]? as usize;
        Some((position, of_y.get_mut(&other)?.pop_front()?))
    };
    x.operands().iter().enumerate().filter_map(position).collect()
}

/// The numbers of matched parameters.
fn parameters(before: &Body<'_, '_>, after: &Body<'_, '_>, alignment: &Alignment) -> FxHashMap<usize, usize> {
    let matched = alignment.to_b.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)? as usize)));
    matched.filter_map(|(x, y)| Some((before.parameter(x)?, after.parameter(y)?))).collect()
}
