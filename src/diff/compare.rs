//! The changes of the instructions of a pair of computations.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    attributes::{self, Attribute},
    body::Body,
    change::{AlignedInstr, Change, ChangedComputation, ChangedInstr, ChangedPart},
    classes::{Annotation, Classifier, shape_text},
    ignore::{Ignore, IgnoreSet},
    pairs::{Matched, Numbered, Pairs, takes_operands},
};
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode};

/// A pair of unequal computations, with what is known of all others.
pub(super) struct Comparison<'p, 'c, 'm> {
    pub a: Numbered<'c, 'm>,
    pub b: Numbered<'c, 'm>,
    pub pairs: &'p Pairs<'c, 'm>,
    pub matched: &'p Matched<'c, 'm>,
}

impl<'m> Comparison<'_, '_, 'm> {
    /// The changes, in the order of the second text; what was removed in the order of the first.
    pub(super) fn changes(&self, classifier: &mut Classifier<'m>) -> ChangedComputation<'m> {
        let Matched { before, after, alignment, .. } = self.matched;
        let roots = [before.instrs[before.root], after.instrs[after.root]];
        let mut changes = ChangedComputation {
            before: before.id,
            after: after.id,
            runs: [0.0; 2],
            root: Some(roots).filter(|_| !self.same(before.root, after.root)),
            aligned: Vec::new(),
            unchanged: 0,
            changed: Vec::new(),
            removed: Vec::new(),
            added: Vec::new(),
        };
        let moved = match classifier.ignored.has(Ignore::Order) {
            true => Vec::new(),
            false => moved(&alignment.to_a),
        };
        for (y, x) in alignment.to_a.iter().enumerate() {
            let Some(x) = x.map(|x| x as usize) else {
                changes.added.extend(Some(after.instrs[y]).filter(|_| !after.is_ignored(y)));
                continue;
            };
            let mut found = self.instruction(x, y, classifier);
            if moved.binary_search(&y).is_ok() {
                found.push(Change { part: ChangedPart::Order, before: None, after: None });
            }
            changes.aligned.push(AlignedInstr { before: x, after: y, is_changed: !found.is_empty() });
            if found.is_empty() {
                changes.unchanged += 1;
            } else {
                let (before, after) = (before.instrs[x], after.instrs[y]);
                changes.changed.push(ChangedInstr { before, after, changes: found });
            }
        }
        let removed = alignment.to_b.iter().enumerate();
        let removed = removed.filter(|&(x, y)| y.is_none() && !before.is_ignored(x));
        changes.removed = removed.map(|(x, _)| before.instrs[x]).collect();
        changes
    }

    fn instruction(&self, x: usize, y: usize, classifier: &mut Classifier<'m>) -> Vec<Change<'m>> {
        let Matched { before, after, .. } = self.matched;
        let mut found = Vec::new();
        if before.classes[x].opcode != after.classes[y].opcode {
            let texts = [before.instrs[x], after.instrs[y]].map(|instr| Some(instr.opcode_text().into()));
            let [before, after] = texts;
            found.push(Change { part: ChangedPart::Opcode, before, after });
        } else if before.classes[x].label != after.classes[y].label {
            self.label(x, y, classifier, &mut found);
        }
        let (x, y) = (before.instrs[x], after.instrs[y]);
        if x.opcode() == Opcode::Parameter && x.payload() != y.payload() {
            // Which number the parameter of a called computation has says nothing; that it changed is for its callers.
            let number = |instr: InstrRef<'m>| self.is_entry().then(|| instr.payload().into());
            found.push(Change { part: ChangedPart::ParameterNumber, before: number(x), after: number(y) });
        }
        if !classifier.ignored.has(Ignore::Names) && x.name() != y.name() {
            let (before, after) = (Some(x.name().into()), Some(y.name().into()));
            found.push(Change { part: ChangedPart::Name, before, after });
        }
        self.operands(x, y, &mut found);
        if !classifier.ignored.has(Ignore::Order) {
            self.predecessors(x, y, &mut found);
        }
        found
    }

    fn is_entry(&self) -> bool {
        self.matched.after.id == self.b.module.entry()
    }

    /// Changes of what an instruction is by itself.
    fn label(&self, x: usize, y: usize, classifier: &mut Classifier<'m>, found: &mut Vec<Change<'m>>) {
        let Matched { before, after, .. } = self.matched;
        let shapes = (before.classes[x].shape, after.classes[y].shape);
        let (x, y) = (before.instrs[x], after.instrs[y]);
        if shapes.0 != shapes.1 {
            let text = |body: &Body<'_, 'm>, instr: InstrRef<'m>| {
                Some(shape_text(body.shapes, instr.shape(), classifier.ignored))
            };
            let (before, after) = (text(before, x), text(after, y));
            found.push(Change { part: ChangedPart::Shape, before, after });
        }
        let is_constant = x.opcode() == Opcode::Constant;
        if is_constant
            && classifier.constant(x, before.shapes, shapes.0)
                != classifier.constant(y, after.shapes, shapes.1)
        {
            let (before, after) = (Some(x.payload().into()), Some(y.payload().into()));
            found.push(Change { part: ChangedPart::Constant, before, after });
        }
        self.attributes(x, y, classifier, found);
        self.callees(x, y, found);
    }

    fn attributes(
        &self,
        x: InstrRef<'m>,
        y: InstrRef<'m>,
        classifier: &mut Classifier<'m>,
        found: &mut Vec<Change<'m>>,
    ) {
        let (mut of_x, mut of_y) = (Vec::new(), Vec::new());
        attributes::of_instruction(x, classifier.ignored, &mut of_x);
        attributes::of_instruction(y, classifier.ignored, &mut of_y);
        let start = found.len();
        merge(&of_x, &of_y, |before, after| {
            let equal = match (before, after) {
                (Some(before), Some(after)) => {
                    classifier.attribute(x, before) == classifier.attribute(y, after)
                }
                _ => false,
            };
            let Some(name) = before.or(after).map(|either| either.name).filter(|_| !equal) else { return };
            let part = match attributes::is_sharding(name) {
                true => ChangedPart::Sharding,
                false => ChangedPart::Attribute(name),
            };
            found.push(attribute_change(part, before, after));
        });
        // Shardy names the axes of what the sharding of HLO, whose name sorts first, says in numbers.
        let is_sharding = |change: &Change<'m>| change.part == ChangedPart::Sharding;
        if let Some(first) = found.iter().skip(start).position(is_sharding)
            && found[start + first + 1..].iter().any(is_sharding)
        {
            found.remove(start + first);
        }
    }

    fn callees(&self, x: InstrRef<'m>, y: InstrRef<'m>, found: &mut Vec<Change<'m>>) {
        let (of_x, of_y): (Vec<_>, Vec<_>) = (x.callees().collect(), y.callees().collect());
        let name = |side: Numbered<'_, 'm>, callee: Option<&(AttrName, CompId)>| {
            callee.map(|&(_, id)| Cow::Owned(format!("%{}", side.module.computation_name(id))))
        };
        for index in 0..of_x.len().max(of_y.len()) {
            let (before, after) = (of_x.get(index), of_y.get(index));
            let same = match (before, after) {
                (Some(&(attr_x, x)), Some(&(attr_y, y))) => {
                    let paired = self.pairs.to_b[x.index()] == Some(y);
                    attr_x == attr_y && (paired || self.a.number(x) == self.b.number(y))
                }
                _ => false,
            };
            if let Some(&(attr, _)) = before.or(after).filter(|_| !same) {
                let (before, after) = (name(self.a, before), name(self.b, after));
                found.push(Change { part: ChangedPart::Callee(attr.name()), before, after });
            }
        }
    }

    fn operands(&self, x: InstrRef<'m>, y: InstrRef<'m>, found: &mut Vec<Change<'m>>) {
        let Matched { before, after, alignment, .. } = self.matched;
        let of = |body: &Body<'_, 'm>, other: &[Option<u32>], instr: InstrRef<'m>| -> Vec<usize> {
            instr.operands().iter().map(|operand| unannotated(body, other, operand.index())).collect()
        };
        let (of_x, of_y) = (of(before, &alignment.to_b, x), of(after, &alignment.to_a, y));
        if let Some(parameters) = self.parameters(x, y) {
            let mut left: FxHashSet<usize> = (0..of_y.len()).collect();
            for (position, &operand) in of_x.iter().enumerate() {
                let other = parameters.get(&position).filter(|&other| left.remove(other));
                self.operand(position, Some(operand), other.map(|&other| of_y[other]), found);
            }
            let mut left: Vec<usize> = left.into_iter().collect();
            left.sort_unstable();
            left.into_iter().for_each(|position| self.operand(position, None, Some(of_y[position]), found));
        } else if of_x.len() == of_y.len() {
            for (position, (&x, &y)) in of_x.iter().zip(&of_y).enumerate() {
                self.operand(position, Some(x), Some(y), found);
            }
        } else {
            let (before, after) = (Some(of_x.len().to_string().into()), Some(of_y.len().to_string().into()));
            found.push(Change { part: ChangedPart::OperandCount, before, after });
        }
    }

    /// The parameters to which two instructions give their operands, if they are not all the same.
    fn parameters(&self, x: InstrRef<'m>, y: InstrRef<'m>) -> Option<&FxHashMap<usize, usize>> {
        let (_, callee_x) = x.callees().next().filter(|_| takes_operands(x) && takes_operands(y))?;
        let (_, callee_y) = y.callees().next()?;
        if self.pairs.to_b[callee_x.index()] != Some(callee_y) {
            return None;
        }
        Some(&self.pairs.unequal[*self.pairs.matched.get(&callee_x)?].parameters)
    }

    fn operand(&self, position: usize, x: Option<usize>, y: Option<usize>, found: &mut Vec<Change<'m>>) {
        if let (Some(x), Some(y)) = (x, y)
            && self.same(x, y)
        {
            return;
        }
        let x = x.map(|x| self.matched.before.instrs[x]);
        let y = y.map(|y| self.matched.after.instrs[y]);
        // The opcodes say most, and are the same for the same change elsewhere.
        let by_opcode = matches!((x, y), (Some(x), Some(y)) if x.opcode_text() != y.opcode_text());
        let text = |instr: InstrRef<'_>| match instr.opcode() {
            _ if by_opcode => instr.opcode_text(),
            // A name may be that of another parameter on the other side.
            Opcode::Parameter => format!("parameter({})", instr.payload()),
            _ => format!("%{}", instr.name()),
        };
        let [before, after] = [x, y].map(|instr| instr.map(|instr| Cow::Owned(text(instr))));
        found.push(Change { part: ChangedPart::Operand(position), before, after });
    }

    fn predecessors(&self, x: InstrRef<'m>, y: InstrRef<'m>, found: &mut Vec<Change<'m>>) {
        let (of_x, of_y): (Vec<_>, Vec<_>) =
            (x.control_predecessors().collect(), y.control_predecessors().collect());
        let Matched { before: in_a, after: in_b, alignment, .. } = self.matched;
        let mut mapped: Vec<_> = of_x.iter().map(|x| alignment.to_b[x.index()]).collect();
        let mut expected: Vec<_> = of_y.iter().map(|y| Some(y.index() as u32)).collect();
        mapped.sort_unstable();
        expected.sort_unstable();
        if mapped != expected {
            let names = |names: Vec<&str>| Some(Cow::Owned(format!("{{{}}}", names.join(", "))));
            let before = names(of_x.iter().map(|x| in_a.instrs[x.index()].name()).collect());
            let after = names(of_y.iter().map(|y| in_b.instrs[y.index()].name()).collect());
            let part = ChangedPart::Attribute(AttrName::ControlPredecessors.name());
            found.push(Change { part, before, after });
        }
    }

    /// Whether two operands are the same instruction, or compute the same value.
    fn same(&self, x: usize, y: usize) -> bool {
        let Matched { before, after, alignment, .. } = self.matched;
        alignment.to_b[x] == Some(y as u32) || before.classes[x].value == after.classes[y].value
    }
}

/// The operand without annotations that the other computation lacks, which are listed by themselves, or are ignored.
fn unannotated(body: &Body<'_, '_>, other: &[Option<u32>], mut index: usize) -> usize {
    while body.classes[index].annotation != Annotation::None && other[index].is_none() {
        index = body.instrs[index].operands()[0].index();
    }
    index
}

/// The attributes of the modules that changed.
pub(super) fn module_changes<'m>(a: &'m Module, b: &'m Module, ignored: IgnoreSet) -> Vec<Change<'m>> {
    let (of_a, of_b) = (attributes::of_module(a, ignored), attributes::of_module(b, ignored));
    let mut found = Vec::new();
    merge(&of_a, &of_b, |before, after| {
        let canonical = |attribute: Option<&Attribute<'m>>| attribute.map(|one| one.canonical(ignored));
        if let Some(either) = before.or(after).filter(|_| canonical(before) != canonical(after)) {
            found.push(attribute_change(ChangedPart::Attribute(either.name), before, after));
        }
    });
    if !ignored.has(Ignore::Names) && a.name() != b.name() {
        let (before, after) = (Some(a.name().into()), Some(b.name().into()));
        found.push(Change { part: ChangedPart::Name, before, after });
    }
    found
}

fn attribute_change<'m>(
    part: ChangedPart<'m>,
    before: Option<&Attribute<'m>>,
    after: Option<&Attribute<'m>>,
) -> Change<'m> {
    let [before, after] = [before, after].map(|attribute| attribute.map(attributes::readable));
    Change { part, before, after }
}

/// Calls `visit` with each name of two lists that are sorted by name: the attributes of that name.
fn merge<'m>(
    a: &[Attribute<'m>],
    b: &[Attribute<'m>],
    mut visit: impl FnMut(Option<&Attribute<'m>>, Option<&Attribute<'m>>),
) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let Some(name) = [a.peek(), b.peek()].into_iter().flatten().map(|one| one.name).min() {
        visit(a.next_if(|one| one.name == name), b.next_if(|one| one.name == name));
    }
}

/// The positions in the second list that are not in order: those outside of a longest increasing subsequence.
fn moved(to_a: &[Option<u32>]) -> Vec<usize> {
    // For each length, the end of a subsequence of it; and for each element, the one in front of it.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = vec![None; to_a.len()];
    for (index, x) in to_a.iter().enumerate().filter(|(_, x)| x.is_some()) {
        let length = ends.partition_point(|&end| to_a[end] < *x);
        previous[index] = length.checked_sub(1).map(|length| ends[length]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut in_order = vec![false; to_a.len()];
    let mut next = ends.last().copied();
    while let Some(index) = next {
        in_order[index] = true;
        next = previous[index];
    }
    (0..to_a.len()).filter(|&index| to_a[index].is_some() && !in_order[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_the_smallest_set() {
        let check = |order: &[u32], expect: &[usize]| {
            let to_a: Vec<Option<u32>> = order.iter().map(|&x| Some(x)).collect();
            assert_eq!(moved(&to_a), expect);
        };
        check(&[0, 1, 2], &[]);
        check(&[3, 0, 1, 2], &[0]);
        check(&[1, 2, 3, 0], &[3]);
        check(&[0, 2, 1, 4, 3], &[1, 3]);
        assert_eq!(moved(&[Some(1), None, Some(0)]), [0]);
        assert_eq!(moved(&[]), [0; 0]);
    }
}
