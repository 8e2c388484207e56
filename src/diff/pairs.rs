//! Which computation of one module is which of the other.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{
    align::{Alignment, align},
    body::Body,
    classes::{Classifier, ModuleClasses},
    numbers::Number,
};
use crate::hlo::raw::{CompId, Module};

/// The computations of two modules in pairs.
pub(super) struct Pairs<'c, 'm> {
    /// For each computation of the first module, that of the second.
    pub to_b: Vec<Option<CompId>>,
    /// For each computation of the second module, that of the first.
    pub to_a: Vec<Option<CompId>>,
    /// The pairs that are not equal, with their instructions matched, in the order in which they were found: callers first.
    pub unequal: Vec<Matched<'c, 'm>>,
}

/// A pair of computations that are not equal, with their instructions matched.
pub(super) struct Matched<'c, 'm> {
    pub before: Body<'c, 'm>,
    pub after: Body<'c, 'm>,
    pub alignment: Alignment,
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
    let mut search = Search { a, b, pairs: Pairs { to_b, to_a, unequal: Vec::new() }, queue: VecDeque::new() };
    search.join(a.module.entry(), b.module.entry());
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
    queue: VecDeque<(CompId, CompId)>,
}

impl<'c, 'm> Search<'c, 'm> {
    /// Pairs two computations unless one of them is paired.
    fn join(&mut self, a: CompId, b: CompId) {
        let Pairs { to_b, to_a, .. } = &mut self.pairs;
        if to_b[a.index()].is_none() && to_a[b.index()].is_none() {
            to_b[a.index()] = Some(b);
            to_a[b.index()] = Some(a);
            if self.a.number(a) != self.b.number(b) {
                self.queue.push_back((a, b));
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
                self.join(id, other);
            }
        }
    }

    /// Matches the instructions of unequal pairs, and pairs the computations that matched instructions call.
    fn follow(&mut self, classifier: &mut Classifier<'m>) {
        while let Some((a, b)) = self.queue.pop_front() {
            let before = Body::new(self.a.module, a, self.a.classes);
            let after = Body::new(self.b.module, b, self.b.classes);
            let alignment = align(&before, &after, classifier);
            for (x, y) in alignment.to_b.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)?))) {
                let (x, y) = (before.instrs[x], after.instrs[y as usize]);
                for ((attr_x, x), (attr_y, y)) in x.callees().zip(y.callees()) {
                    if attr_x == attr_y {
                        self.join(x, y);
                    }
                }
            }
            self.pairs.unequal.push(Matched { before, after, alignment });
        }
    }
}
