//! Which instructions of two modules correspond.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode};

/// Where an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its computation.
    pub computation: CompId,
    /// Its position among the instructions there.
    pub position: usize,
}

/// Two instructions that correspond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// In the module before.
    pub before: Place,
    /// In the module after.
    pub after: Place,
    /// How the two compare.
    pub status: PairStatus,
}

/// How two instructions that correspond compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairStatus {
    /// Equal but for names and metadata.
    Same,
    /// Different in opcode, shape, operands or attributes.
    Changed,
}

/// Pairs instructions from the entries downward: in two computations that correspond, by name, then by `op_name` with opcode, in
/// order, then parameters by number, then the roots; computations correspond if paired instructions call them. What is left then is
/// paired by name in the whole module, then by `op_name` with opcode, then by `op_name`.
pub(super) fn by_name(before: &Module, after: &Module) -> Vec<Pair> {
    let mut matcher = Matcher {
        before,
        after,
        partner: FxHashMap::default(),
        taken: FxHashSet::default(),
        waiting: vec![(before.entry(), after.entry())],
        seen: FxHashSet::default(),
    };
    while let Some((old, new)) = matcher.waiting.pop() {
        matcher.computations(old, new);
    }
    let (old, new) = (places(before, before.ids()), places(after, after.ids()));
    matcher.both_by(&old, &new, |instr| Some(instr.name().to_owned()));
    matcher.both_by(&old, &new, by_op_name_and_opcode);
    matcher.both_by(&old, &new, |instr| instr.metadata("op_name").map(str::to_owned));
    let mut pairs: Vec<Pair> = matcher.partner.iter().map(|(&old, &new)| matcher.pair(old, new)).collect();
    pairs.sort_unstable_by_key(|pair| (pair.before.computation, pair.before.position));
    pairs
}

fn by_op_name_and_opcode(instr: InstrRef<'_>) -> Option<(String, String)> {
    Some((instr.metadata("op_name")?.to_owned(), instr.opcode_text()))
}

/// The places of all instructions of some computations.
fn places(module: &Module, computations: impl IntoIterator<Item = CompId>) -> Vec<Place> {
    let of = |id| (0..module.instructions(id).len()).map(move |position| Place { computation: id, position });
    computations.into_iter().flat_map(of).collect()
}

struct Matcher<'m> {
    before: &'m Module,
    after: &'m Module,
    /// The instruction after of each one before that has one.
    partner: FxHashMap<Place, Place>,
    /// The instructions after that are paired.
    taken: FxHashSet<Place>,
    /// Computations that correspond, whose instructions are not paired yet.
    waiting: Vec<(CompId, CompId)>,
    seen: FxHashSet<CompId>,
}

impl<'m> Matcher<'m> {
    fn instr(module: &'m Module, place: Place) -> InstrRef<'m> {
        let mut instrs = module.instructions(place.computation);
        instrs.nth(place.position).expect("a place of this module")
    }

    /// Pairs the instructions of two computations.
    fn computations(&mut self, before: CompId, after: CompId) {
        if !self.seen.insert(before) {
            return;
        }
        let (old, new) = (places(self.before, [before]), places(self.after, [after]));
        self.both_by(&old, &new, |instr| Some((instr.name().to_owned(), instr.opcode_text())));
        self.both_by(&old, &new, by_op_name_and_opcode);
        self.both_by(&old, &new, |instr| (instr.opcode() == Opcode::Parameter).then(|| instr.payload()));
        let root =
            |module: &Module, id: CompId| [Place { computation: id, position: module.root(id).index() }];
        self.both_by(&root(self.before, before), &root(self.after, after), |_| Some(()));
        for &place in &old {
            let Some(&partner) = self.partner.get(&place) else { continue };
            let olds = Self::instr(self.before, place).callees();
            let news = Self::instr(self.after, partner).callees();
            let same = olds.zip(news).filter(|((old, _), (new, _))| old == new);
            self.waiting.extend(same.map(|((_, old), (_, new))| (old, new)));
        }
    }

    /// Pairs those with the same key, in order.
    fn both_by<K: Hash + Eq>(
        &mut self,
        old: &[Place],
        new: &[Place],
        key: impl Fn(InstrRef<'m>) -> Option<K>,
    ) {
        let mut free: FxHashMap<K, Vec<Place>> = FxHashMap::default();
        for &place in new.iter().rev().filter(|place| !self.taken.contains(place)) {
            if let Some(key) = key(Self::instr(self.after, place)) {
                free.entry(key).or_default().push(place);
            }
        }
        for &place in old {
            if self.partner.contains_key(&place) {
                continue;
            }
            let key = key(Self::instr(self.before, place));
            if let Some(found) = key.and_then(|key| free.get_mut(&key)?.pop()) {
                self.partner.insert(place, found);
                self.taken.insert(found);
            }
        }
    }

    fn pair(&self, before: Place, after: Place) -> Pair {
        let (old, new) = (Self::instr(self.before, before), Self::instr(self.after, after));
        let operands = old.operands().len() == new.operands().len()
            && old.operands().iter().zip(new.operands()).all(|(old, new)| {
                let old = Place { computation: before.computation, position: old.index() };
                let new = Place { computation: after.computation, position: new.index() };
                self.partner.get(&old) == Some(&new)
            });
        let same = operands
            && old.opcode_text() == new.opcode_text()
            && self.before.shapes().text(old.shape()) == self.after.shapes().text(new.shape())
            && old.payload() == new.payload()
            && attrs(old).eq(attrs(new));
        Pair { before, after, status: if same { PairStatus::Same } else { PairStatus::Changed } }
    }
}

/// The attributes that change what an instruction does: no metadata, and no names of computations or instructions.
fn attrs<'m>(instr: InstrRef<'m>) -> impl Iterator<Item = (&'m str, &'m str)> {
    let called: Vec<&str> = instr.callees().map(|(attr, _)| attr.name()).collect();
    let left_out = [AttrName::Metadata, AttrName::ControlPredecessors].map(AttrName::name);
    instr.attrs().filter(move |(name, _)| !left_out.contains(name) && !called.contains(name))
}
