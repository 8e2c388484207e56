//! Which instruction of one computation is which of another.

use std::{collections::VecDeque, hash::Hash};

use rustc_hash::FxHashMap;

use super::{
    body::Body,
    classes::{Classifier, InstrClass},
    numbers::Number,
};
use crate::hlo::raw::{Array, Shape};

/// The instructions of two computations that are the same, at least by their surroundings.
pub(super) struct Alignment {
    /// For each instruction of the first computation, that of the second.
    pub to_b: Vec<Option<u32>>,
    /// For each instruction of the second computation, that of the first.
    pub to_a: Vec<Option<u32>>,
}

/// Parameters of a computation by their numbers, with those of another one.
pub(super) type Arguments = FxHashMap<usize, usize>;

/// Which instructions with the same key are matched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those with a key that no other instruction on the same side has.
    Unique,
    /// All, in the order of the text.
    Several,
}

/// Which neighbors of matched instructions are matched with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbors {
    /// Those of one opcode and shape.
    SameShape,
    /// Those of one opcode.
    SameOpcode,
}

/// Matches the instructions of two computations: first those that compute or are used the same, then their neighbors, then by
/// source and name, then by opcode and shape. Each step looks only at what is left by those before it.
///
/// `arguments` are the parameters that callers give the same value.
pub(super) fn align<'m>(
    a: &Body<'_, 'm>,
    b: &Body<'_, 'm>,
    arguments: Option<&Arguments>,
    classifier: &mut Classifier<'m>,
) -> Alignment {
    let (uses_a, uses_b) = (a.uses(classifier), b.uses(classifier));
    let mut matching = Matching::new(a, b);
    let reordered = arguments.is_some_and(|arguments| arguments.iter().any(|(x, y)| x != y));
    let same_parameters = a.parameters == b.parameters && !reordered;
    if same_parameters {
        matching.step(Among::Unique, |body, i| body.parameter(i));
    } else if let Some(arguments) = arguments {
        matching.step_with_side(Among::Unique, |side, body, i| match side {
            Side::A => arguments.get(&body.parameter(i)?).copied(),
            Side::B => body.parameter(i),
        });
    }
    // Where parameters were added, removed or reordered, their numbers say nothing.
    let value = |body: &Body<'_, 'm>, i: usize| {
        (same_parameters || body.parameter(i).is_none()).then(|| body.classes[i].value)
    };
    let uses = |side: Side, i: usize| if side == Side::A { uses_a[i] } else { uses_b[i] };
    matching.step_with_side(Among::Several, |side, body, i| Some((value(body, i)?, uses(side, i))));
    matching.step(Among::Unique, value);
    matching.step(Among::Several, |body, i| Some((value(body, i)?, op_name(body, i)?)));
    matching.step_with_side(Among::Unique, |side, _, i| Some(uses(side, i)));
    if a.classes[a.root].opcode == b.classes[b.root].opcode {
        matching.join(a.root, b.root);
    }
    matching.neighbors(Neighbors::SameShape);

    matching.step(Among::Several, value);
    let by_source = |body: &Body<'_, 'm>, i: usize| {
        Some((class(body, i).opcode, class(body, i).shape, op_name(body, i)?))
    };
    for among in [Among::Unique, Among::Several] {
        matching.step(among, by_source);
        matching.neighbors(Neighbors::SameShape);
        matching.step(Among::Unique, |body, i| Some(class(body, i).label));
        matching.neighbors(Neighbors::SameShape);
    }
    matching.step(Among::Unique, |body, i| Some((class(body, i).opcode, op_name(body, i)?)));
    matching.step(Among::Unique, |body, i| Some((class(body, i).opcode, body.instrs[i].name())));
    matching.neighbors(Neighbors::SameOpcode);

    matching.step(Among::Several, |body, i| Some(class(body, i).label));
    matching.step(Among::Several, |body, i| Some((class(body, i).opcode, class(body, i).shape)));
    matching.step(Among::Several, |body, i| Some((class(body, i).opcode, op_name(body, i)?)));
    matching.neighbors(Neighbors::SameOpcode);
    matching.step(Among::Several, |body, i| Some((class(body, i).opcode, form(body, i)?)));
    matching.replaced();
    Alignment { to_b: matching.to_b, to_a: matching.to_a }
}

fn class<'b>(body: &'b Body<'_, '_>, index: usize) -> &'b InstrClass {
    &body.classes[index]
}

fn op_name<'m>(body: &Body<'_, 'm>, index: usize) -> Option<&'m str> {
    body.instrs[index].metadata("op_name").filter(|name| !name.is_empty())
}

/// Element type and number of dimensions of an array.
fn form(body: &Body<'_, '_>, index: usize) -> Option<(&'static str, usize)> {
    let Shape::Array(Array { element, dims, .. }) = body.shapes.get(body.instrs[index].shape()) else {
        return None;
    };
    Some((element.name(), dims.len()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

struct Matching<'b, 'c, 'm> {
    a: &'b Body<'c, 'm>,
    b: &'b Body<'c, 'm>,
    to_b: Vec<Option<u32>>,
    to_a: Vec<Option<u32>>,
    /// Matches whose neighbors have not been looked at.
    queue: VecDeque<(usize, usize)>,
}

impl<'b, 'c, 'm> Matching<'b, 'c, 'm> {
    fn new(a: &'b Body<'c, 'm>, b: &'b Body<'c, 'm>) -> Self {
        let (to_b, to_a) = (vec![None; a.instrs.len()], vec![None; b.instrs.len()]);
        Self { a, b, to_b, to_a, queue: VecDeque::new() }
    }

    /// Matches two instructions unless one of them is matched.
    fn join(&mut self, a: usize, b: usize) {
        if self.to_b[a].is_none() && self.to_a[b].is_none() {
            self.to_b[a] = Some(b as u32);
            self.to_a[b] = Some(a as u32);
            self.queue.push_back((a, b));
        }
    }

    /// Matches instructions that are left, by a key.
    fn step<K: Hash + Eq>(&mut self, among: Among, key: impl Fn(&Body<'c, 'm>, usize) -> Option<K>) {
        self.step_with_side(among, |_, body, i| key(body, i));
    }

    fn step_with_side<K: Hash + Eq>(
        &mut self,
        among: Among,
        key: impl Fn(Side, &Body<'c, 'm>, usize) -> Option<K>,
    ) {
        let mut left: FxHashMap<K, [Vec<usize>; 2]> = FxHashMap::default();
        for (side, body, matched) in [(Side::A, self.a, &self.to_b), (Side::B, self.b, &self.to_a)] {
            let is_left = |&index: &usize| matched[index].is_none() && !body.is_ignored(index);
            for index in (0..matched.len()).filter(is_left) {
                if let Some(key) = key(side, body, index) {
                    left.entry(key).or_default()[side as usize].push(index);
                }
            }
        }
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for [of_a, of_b] in left.into_values() {
            if among == Among::Several || (of_a.len() == 1 && of_b.len() == 1) {
                pairs.extend(of_a.into_iter().zip(of_b));
            }
        }
        // The map has no order of its own.
        pairs.sort_unstable();
        pairs.into_iter().for_each(|(a, b)| self.join(a, b));
    }

    /// Matches instructions of one shape whose operands are matched, whatever their opcodes: one took the place of the other.
    fn replaced(&mut self) {
        let mut of_b: FxHashMap<(Number, &[u32]), Option<usize>> = FxHashMap::default();
        for y in (0..self.to_a.len()).filter(|&y| self.to_a[y].is_none() && !self.b.is_ignored(y)) {
            let entry = of_b.entry((self.b.classes[y].shape, self.b.operands(y)));
            entry.and_modify(|several| *several = None).or_insert(Some(y));
        }
        // Operands come before their users, so that a chain is matched from its beginning.
        for x in 0..self.to_b.len() {
            let operands = self.a.operands(x);
            if self.to_b[x].is_none()
                && !operands.is_empty()
                && let Some(operands) =
                    operands.iter().map(|&operand| self.to_b[operand as usize]).collect::<Option<Vec<u32>>>()
                && let Some(&Some(y)) = of_b.get(&(self.a.classes[x].shape, operands.as_slice()))
            {
                self.join(x, y);
            }
        }
    }

    /// Matches operands and users of matched instructions, and theirs, as far as that leads.
    fn neighbors(&mut self, which: Neighbors) {
        let key = |class: &InstrClass| -> (Number, Number) {
            (class.opcode, if which == Neighbors::SameShape { class.shape } else { 0 })
        };
        // Matches that had their turn under the stricter rule have it again under the wider one.
        if which == Neighbors::SameOpcode {
            let matched = self.to_b.iter().enumerate().filter_map(|(a, b)| Some((a, (*b)? as usize)));
            self.queue = matched.collect();
        }
        while let Some((a, b)) = self.queue.pop_front() {
            let (operands_a, operands_b) = (self.a.operands(a), self.b.operands(b));
            if operands_a.len() == operands_b.len() {
                for (&x, &y) in operands_a.iter().zip(operands_b) {
                    let (x, y) = (x as usize, y as usize);
                    if key(&self.a.classes[x]) == key(&self.b.classes[y]) {
                        self.join(x, y);
                    }
                }
            }
            let users_a = self.a.sole_users(a, key, |user| self.to_b[user].is_none());
            if users_a.is_empty() {
                continue;
            }
            let users_b = self.b.sole_users(b, key, |user| self.to_a[user].is_none());
            let mut pairs: Vec<(u32, u32)> =
                users_a.iter().filter_map(|(key, &x)| Some((x?, (*users_b.get(key)?)?))).collect();
            pairs.sort_unstable();
            pairs.into_iter().for_each(|(x, y)| self.join(x as usize, y as usize));
        }
    }
}
