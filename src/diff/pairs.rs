//! Which computation of one module is which of the other.

use std::{collections::VecDeque, hash::Hash};

use rustc_hash::FxHashMap;

use super::{
    align::{Alignment, Arguments, align},
    body::Body,
    classes::{Classifier, ModuleClasses},
    numbers::Number,
};
use crate::hlo::raw::{CompId, InstrRef, Module, Opcode};

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

/// Pairs the entries, the computations that matched instructions call, those left that are equal, and those of one name.
pub(super) fn pair<'c, 'm>(
    a: Numbered<'c, 'm>,
    b: Numbered<'c, 'm>,
    classifier: &mut Classifier<'m>,
) -> Pairs<'c, 'm> {
    let (to_b, to_a) = (vec![None; a.module.ids().len()], vec![None; b.module.ids().len()]);
    let pairs = Pairs { to_b, to_a, matched: FxHashMap::default(), unequal: Vec::new() };
    let open = [a, b].map(|side| {
        let mut open: FxHashMap<Number, usize> = FxHashMap::default();
        side.module.ids().for_each(|id| *open.entry(side.number(id)).or_default() += 1);
        open
    });
    let mut search = Search { a, b, pairs, open, queue: VecDeque::new(), deferred: VecDeque::new() };
    search.join(a.module.entry(), b.module.entry(), None);
    search.follow(classifier);
    search.join_by(|side, id| side.number(id));
    search.follow(classifier);
    while let Some((x, y, arguments)) = search.deferred.pop_front() {
        search.join(x, y, arguments);
        search.follow(classifier);
    }
    search.join_by(|side, id| side.module.computation_name(id));
    search.follow(classifier);
    search.pairs
}

/// Two computations, and for parameters of one those of the other that get the same arguments.
type Pair = (CompId, CompId, Option<Arguments>);

struct Search<'c, 'm> {
    a: Numbered<'c, 'm>,
    b: Numbered<'c, 'm>,
    pairs: Pairs<'c, 'm>,
    /// For each side, how many computations with a number have no pair.
    open: [FxHashMap<Number, usize>; 2],
    /// Pairs whose instructions have not been looked at.
    queue: VecDeque<Pair>,
    /// Unequal computations that matched instructions call, while one of them is equal to another one without a pair.
    deferred: VecDeque<Pair>,
}

impl<'c, 'm> Search<'c, 'm> {
    /// Pairs two computations unless one of them is paired.
    fn join(&mut self, a: CompId, b: CompId, arguments: Option<Arguments>) {
        if self.are_open(a, b) {
            self.pairs.to_b[a.index()] = Some(b);
            self.pairs.to_a[b.index()] = Some(a);
            for (open, number) in self.open.iter_mut().zip([self.a.number(a), self.b.number(b)]) {
                open.entry(number).and_modify(|count| *count -= 1);
            }
            self.queue.push_back((a, b, arguments));
        }
    }

    fn are_open(&self, a: CompId, b: CompId) -> bool {
        self.pairs.to_b[a.index()].is_none() && self.pairs.to_a[b.index()].is_none()
    }

    /// Pairs computations with the same key, in the order of the texts.
    fn join_by<K: Hash + Eq>(&mut self, key: impl Fn(Numbered<'c, 'm>, CompId) -> K) {
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

    /// Pairs the computations that paired computations call, and theirs, and matches the instructions of unequal pairs.
    fn follow(&mut self, classifier: &mut Classifier<'m>) {
        while let Some((a, b, arguments)) = self.queue.pop_front() {
            if self.a.number(a) == self.b.number(b) {
                self.callees_of_equal(a, b);
                continue;
            }
            let before = Body::new(self.a.module, a, self.a.classes);
            let after = Body::new(self.b.module, b, self.b.classes);
            let alignment = align(&before, &after, arguments.as_ref(), classifier);
            let matched = alignment.to_b.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)? as usize)));
            self.callees(&before, &after, &alignment, matched);
            let parameters = parameters(&before, &after, &alignment);
            self.pairs.matched.insert(a, self.pairs.unequal.len());
            self.pairs.unequal.push(Matched { before, after, alignment, parameters });
        }
    }

    /// Pairs what equal computations call: their instructions are equal, too.
    fn callees_of_equal(&mut self, a: CompId, b: CompId) {
        let [of_a, of_b] = [(self.a, a), (self.b, b)].map(|(side, id)| {
            let instrs = side.module.instructions(id).zip(&side.classes.of(id).instrs);
            let calls = instrs.filter(|(instr, _)| instr.callees().next().is_some());
            let mut calls: Vec<(Number, InstrRef<'m>)> =
                calls.map(|(instr, class)| (class.value, instr)).collect();
            calls.sort_by_key(|&(value, _)| value);
            calls
        });
        for ((_, x), (_, y)) in of_a.into_iter().zip(of_b) {
            for ((_, x), (_, y)) in x.callees().zip(y.callees()) {
                self.join(x, y, None);
            }
        }
    }

    /// Pairs what matched instructions call, the equal ones first.
    fn callees(
        &mut self,
        before: &Body<'c, 'm>,
        after: &Body<'c, 'm>,
        alignment: &Alignment,
        matched: impl Iterator<Item = (usize, usize)>,
    ) {
        let mut unequal = Vec::new();
        for (x, y) in matched {
            for ((attr_x, callee_x), (attr_y, callee_y)) in
                before.instrs[x].callees().zip(after.instrs[y].callees())
            {
                if attr_x != attr_y {
                    continue;
                }
                if self.a.number(callee_x) == self.b.number(callee_y) {
                    self.join(callee_x, callee_y, None);
                } else {
                    unequal.push((x, y, callee_x, callee_y));
                }
            }
        }
        for (x, y, callee_x, callee_y) in unequal {
            if !self.are_open(callee_x, callee_y) {
                continue;
            }
            let arguments = takes_operands(before.instrs[x])
                .then(|| arguments_of(before.operands(x), after.operands(y), alignment));
            let [of_a, of_b] = &self.open;
            let has_equal =
                |open: &FxHashMap<Number, usize>, number| open.get(&number).is_some_and(|&n| n > 0);
            if has_equal(of_b, self.a.number(callee_x)) || has_equal(of_a, self.b.number(callee_y)) {
                self.deferred.push_back((callee_x, callee_y, arguments));
            } else {
                self.join(callee_x, callee_y, arguments);
            }
        }
    }
}

/// Whether the parameters of the called computation are the operands of the instruction, one by one.
pub(super) fn takes_operands(instr: InstrRef<'_>) -> bool {
    matches!(instr.opcode(), Opcode::Fusion | Opcode::Call)
}

/// The positions of matched operands of two instructions.
fn arguments_of(x: &[u32], y: &[u32], alignment: &Alignment) -> Arguments {
    let mut of_y: FxHashMap<u32, VecDeque<usize>> = FxHashMap::default();
    for (position, &operand) in y.iter().enumerate() {
        of_y.entry(operand).or_default().push_back(position);
    }
    let position = |(position, &operand): (usize, &u32)| {
        let other = alignment.to_b[operand as usize]?;
        Some((position, of_y.get_mut(&other)?.pop_front()?))
    };
    x.iter().enumerate().filter_map(position).collect()
}

/// The numbers of matched parameters.
fn parameters(before: &Body<'_, '_>, after: &Body<'_, '_>, alignment: &Alignment) -> FxHashMap<usize, usize> {
    let matched = alignment.to_b.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)? as usize)));
    matched.filter_map(|(x, y)| Some((before.parameter(x)?, after.parameter(y)?))).collect()
}
