//! The walk over a module in the order in which it runs, which finds its values and how long each is needed.

use std::ops::Range;

use super::{buffer::Position, groups::Groups, in_place::Rules, leaves::Leaf};
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode};

/// Maximum nesting of calls that the walk enters.
const MAX_DEPTH: usize = 128;

/// Maximum number of operands of one instruction whose memory is considered for its results.
const MAX_REUSABLE: usize = 64;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Parameter,
    Constant,
    Computed,
}

/// An array or tuple table that an instruction makes.
#[derive(Clone, Copy)]
pub(super) struct Value<'m> {
    pub computation: CompId,
    pub instr: InstrRef<'m>,
    pub leaf: Leaf,
    pub origin: Origin,
    /// The positions at which it is made, and used last.
    pub first: u32,
    pub last: u32,
}

/// The leaves of the result of an instruction: a range of [`Flow::ids`].
type Leaves = Range<usize>;

/// A computation that was entered before, and is called here.
pub(super) struct Repeat<'m> {
    pub position: u32,
    pub caller: CompId,
    pub instr: InstrRef<'m>,
    pub callee: CompId,
}

/// The walk.
pub(super) struct Flow<'m> {
    module: &'m Module,
    pub rules: Rules<'m>,
    pub positions: Vec<Position<'m>>,
    pub values: Vec<Value<'m>>,
    /// Values that are one: of an element that a loop passes on, what goes in, what each iteration sees, and what comes out.
    pub same: Groups,
    /// Different values that are in one buffer at different times.
    pub joined: Vec<(u32, u32)>,
    /// Values that may be in the buffer of an operand, if nothing reads that afterward.
    pub reusing: Vec<(u32, u32)>,
    /// Values of the leaves of instructions, which refer to ranges.
    pub ids: Vec<u32>,
    /// The positions of the computations that were entered, by id.
    pub spans: Vec<Option<(u32, u32)>>,
    pub repeats: Vec<Repeat<'m>>,
}

impl<'m> Flow<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        Self {
            module,
            rules: Rules::new(module),
            positions: vec![],
            values: vec![],
            same: Groups::default(),
            joined: vec![],
            reusing: vec![],
            ids: vec![],
            spans: vec![None; module.ids().len()],
            repeats: vec![],
        }
    }

    /// Walks a computation. Returns the leaves of its root, which are needed up to its end.
    pub(super) fn enter(&mut self, id: CompId, arguments: &[Leaves], depth: usize) -> Leaves {
        let start = self.next();
        let mut results: Vec<Leaves> = Vec::with_capacity(self.module.instructions(id).len());
        for instr in self.module.instructions(id) {
            let operands: Vec<Leaves> =
                instr.operands().iter().map(|operand| results[operand.index()].clone()).collect();
            let result = match instr.opcode() {
                Opcode::While => self.while_loop(id, instr, &operands, depth),
                Opcode::Call | Opcode::Conditional => self.call(id, instr, &operands, depth),
                Opcode::Parameter => self.parameter(id, instr, arguments, depth),
                _ => {
                    self.step(id, instr);
                    self.instruction(id, instr, &operands)
                }
            };
            results.push(result);
        }
        let end = self.next().saturating_sub(1);
        self.spans[id.index()] = Some((start, end));
        let root = results[self.module.root(id).index()].clone();
        self.touch(root.clone(), end);
        root
    }

    fn next(&self) -> u32 {
        u32::try_from(self.positions.len()).expect("a text has fewer instructions than bytes")
    }

    fn step(&mut self, computation: CompId, instr: InstrRef<'m>) {
        self.positions.push(Position { computation, instr });
    }

    fn touch(&mut self, leaves: Leaves, position: u32) {
        for at in leaves {
            self.touch_one(self.ids[at], position);
        }
    }

    fn touch_one(&mut self, value: u32, position: u32) {
        let value = self.same.find(value) as usize;
        self.values[value].last = self.values[value].last.max(position);
    }

    /// Adds values for all leaves of the result of an instruction that is at the last position.
    fn fresh(&mut self, computation: CompId, instr: InstrRef<'m>, origin: Origin) -> Leaves {
        let position = self.next().saturating_sub(1);
        self.fresh_beside((computation, instr, origin), position, &(0..0), &[])
    }

    /// Adds values for the leaves of a result, some of which are present values.
    fn fresh_beside(
        &mut self,
        (computation, instr, origin): (CompId, InstrRef<'m>, Origin),
        position: u32,
        present: &Leaves,
        values: &[u32],
    ) -> Leaves {
        let start = self.ids.len();
        for (at, &leaf) in self.rules.leaves.of(instr.shape()).list.iter().enumerate() {
            let id = match present.contains(&at) {
                true => values[at - present.start],
                false => {
                    self.value(Value { computation, instr, leaf, origin, first: position, last: position })
                }
            };
            self.ids.push(id);
        }
        start..self.ids.len()
    }

    fn value(&mut self, value: Value<'m>) -> u32 {
        self.values.push(value);
        self.same.add();
        (self.values.len() - 1) as u32
    }

    fn parameter(&mut self, id: CompId, instr: InstrRef<'m>, arguments: &[Leaves], depth: usize) -> Leaves {
        self.step(id, instr);
        let count = self.rules.leaves.of(instr.shape()).list.len();
        let argument = instr.payload().parse::<usize>().ok().and_then(|number| arguments.get(number));
        match argument {
            Some(argument) if argument.len() == count => argument.clone(),
            // The argument is there before the run.
            _ if depth == 0 => self.fresh_beside((id, instr, Origin::Parameter), 0, &(0..0), &[]),
            _ => self.fresh(id, instr, Origin::Computed),
        }
    }

    /// The result of an instruction that calls nothing, or nothing that has buffers.
    fn instruction(&mut self, id: CompId, instr: InstrRef<'m>, operands: &[Leaves]) -> Leaves {
        use Opcode as O;
        let position = self.next().saturating_sub(1);
        let count = self.rules.leaves.of(instr.shape()).list.len();
        let alias = match instr.opcode() {
            O::Bitcast | O::OptBarrier | O::AddDependency | O::Domain => operands.first().cloned(),
            O::GetTupleElement => {
                if let Some(table) = operands.first().filter(|leaves| !leaves.is_empty()) {
                    self.touch_one(self.ids[table.start], position);
                }
                let index = instr.int(AttrName::Index).and_then(|index| usize::try_from(index).ok());
                index.and_then(|index| self.element(instr, operands, index))
            }
            O::AsyncUpdate | O::AllReduceDone => operands.first().cloned(),
            O::AsyncDone | O::AllGatherDone | O::CollectivePermuteDone => self.element(instr, operands, 1),
            O::CopyDone => self.element(instr, operands, 0),
            _ => None,
        };
        if !matches!(
            instr.opcode(),
            O::Bitcast | O::OptBarrier | O::AddDependency | O::Domain | O::GetTupleElement | O::Tuple
        ) {
            operands.iter().for_each(|operand| self.touch(operand.clone(), position));
        }
        if let Some(alias) = alias.filter(|alias| alias.len() == count) {
            return alias;
        }
        let origin = if instr.opcode() == O::Constant { Origin::Constant } else { Origin::Computed };
        match instr.opcode() {
            O::Tuple => self.tuple(id, instr, operands),
            O::RecvDone => {
                let elements = [0, 2].map(|index| self.element(instr, operands, index));
                let elements: Vec<Leaves> = elements.into_iter().flatten().collect();
                self.tuple(id, instr, &elements)
            }
            _ => {
                let (leaves, values) = self.passed_on(instr, operands);
                let result = self.fresh_beside((id, instr, origin), position, &leaves, &values);
                self.overwrite(instr, operands, result.clone());
                result
            }
        }
    }

    /// The leaves of an element of the first operand.
    fn element(&mut self, instr: InstrRef<'m>, operands: &[Leaves], index: usize) -> Option<Leaves> {
        let leaves = operands.first()?;
        let element = self.rules.leaves.of(instr.operand(0)?.shape()).element(index)?;
        (element.end <= leaves.len()).then(|| leaves.start + element.start..leaves.start + element.end)
    }

    /// A tuple of some leaves, with a new table.
    fn tuple(&mut self, id: CompId, instr: InstrRef<'m>, elements: &[Leaves]) -> Leaves {
        let leaves = self.rules.leaves.of(instr.shape());
        if elements.iter().map(ExactSizeIterator::len).sum::<usize>() + 1 != leaves.list.len() {
            return self.fresh(id, instr, Origin::Computed);
        }
        let position = self.next().saturating_sub(1);
        let leaf = leaves.list[0];
        let origin = Origin::Computed;
        let table =
            self.value(Value { computation: id, instr, leaf, origin, first: position, last: position });
        let start = self.ids.len();
        self.ids.push(table);
        for element in elements {
            self.ids.extend_from_within(element.clone());
        }
        start..self.ids.len()
    }

    /// The leaves of the tuple that the start of an asynchronous operation returns which are its operands, and their values: they
    /// are in use until it is done.
    fn passed_on(&mut self, instr: InstrRef<'m>, operands: &[Leaves]) -> (Leaves, Vec<u32>) {
        use Opcode as O;
        let element = match instr.opcode() {
            O::AsyncStart | O::AllGatherStart | O::CollectivePermuteStart | O::Send => 0,
            O::CopyStart => 1,
            _ => return (0..0, vec![]),
        };
        let Some(element) = self.rules.leaves.of(instr.shape()).element(element) else {
            return (0..0, vec![]);
        };
        let mut values = Vec::new();
        for operand in operands {
            values.extend_from_slice(&self.ids[operand.clone()]);
        }
        // One operand, or a tuple of all with a table.
        match element.len().checked_sub(values.len()) {
            Some(skip @ 0..=1) => (element.start + skip..element.end, values),
            // A permute in place has more operands than it passes on.
            None => (element.clone(), values),
            Some(_) => (0..0, vec![]),
        }
    }

    /// Notes the operands in whose memory the result is, or may be.
    fn overwrite(&mut self, instr: InstrRef<'m>, operands: &[Leaves], result: Leaves) {
        let leaf = |leaves: &Leaves, leaf: usize| (leaf < leaves.len()).then_some(leaves.start + leaf);
        for pair in self.rules.in_place(instr).iter() {
            let operand = operands.get(pair.operand).and_then(|operand| leaf(operand, pair.operand_leaf));
            if let (Some(operand), Some(result)) = (operand, leaf(&result, pair.result_leaf)) {
                self.joined.push((self.ids[result], self.ids[operand]));
            }
        }
        for &position in self.rules.reusable(instr).iter().take(MAX_REUSABLE) {
            let Some(operand) = operands.get(position).filter(|operand| operand.len() == 1) else { continue };
            let operand = self.ids[operand.start];
            for at in result.clone() {
                self.reusing.push((self.ids[at], operand));
            }
        }
    }

    /// Enters a computation the first time that it is called.
    fn enter_once(
        &mut self,
        (caller, instr): (CompId, InstrRef<'m>),
        callee: CompId,
        arguments: &[Leaves],
        depth: usize,
    ) -> Option<Leaves> {
        if self.spans[callee.index()].is_some() || depth >= MAX_DEPTH {
            self.repeats.push(Repeat { position: self.next(), caller, instr, callee });
            return None;
        }
        Some(self.enter(callee, arguments, depth + 1))
    }

    fn call(&mut self, id: CompId, instr: InstrRef<'m>, operands: &[Leaves], depth: usize) -> Leaves {
        let is_call = instr.opcode() == Opcode::Call;
        let mut roots = Vec::new();
        for (branch, (attr, callee)) in instr.callees().enumerate() {
            let argument = match attr {
                AttrName::TrueComputation => 1,
                AttrName::FalseComputation => 2,
                _ => branch + 1,
            };
            let arguments =
                if is_call { operands } else { operands.get(argument..argument + 1).unwrap_or_default() };
            roots.extend(self.enter_once((id, instr), callee, arguments, depth));
        }
        self.step(id, instr);
        let position = self.next() - 1;
        operands.iter().for_each(|operand| self.touch(operand.clone(), position));
        let count = self.rules.leaves.of(instr.shape()).list.len();
        if let Some(root) = roots.first().filter(|root| is_call && root.len() == count) {
            self.touch(root.clone(), position);
            return root.clone();
        }
        let result = self.fresh(id, instr, Origin::Computed);
        for root in roots {
            for (root, result) in root.zip(result.clone()) {
                self.joined.push((self.ids[root], self.ids[result]));
            }
        }
        result
    }

    fn while_loop(&mut self, id: CompId, instr: InstrRef<'m>, operands: &[Leaves], depth: usize) -> Leaves {
        let count = self.rules.leaves.of(instr.shape()).list.len();
        let initial = operands.first().filter(|initial| initial.len() == count).cloned();
        let start = self.next();
        let carry = self.fresh_beside((id, instr, Origin::Computed), start, &(0..0), &[]);
        let mut root = None;
        for attr in [AttrName::Condition, AttrName::Body] {
            let Some(callee) = instr.called(attr).next() else { continue };
            if attr == AttrName::Body
                && let Some(initial) = &initial
            {
                // The first iteration takes the initial values over.
                self.touch(initial.clone(), self.next());
            }
            let result = self.enter_once((id, instr), callee, std::slice::from_ref(&carry), depth);
            root = result.filter(|root| attr == AttrName::Body && root.len() == count);
        }
        self.step(id, instr);
        let result = self.fresh(id, instr, Origin::Computed);
        for leaf in 0..count {
            let carried = self.ids[carry.start + leaf];
            let out = self.ids[result.start + leaf];
            let initial = initial.as_ref().map(|initial| self.ids[initial.start + leaf]);
            let next = root.as_ref().map(|root| self.ids[root.start + leaf]);
            let passed_on = next.is_none_or(|next| self.same.find(next) == self.same.find(carried));
            match initial {
                Some(initial) if passed_on => {
                    self.merge(initial, carried);
                    self.merge(initial, out);
                }
                _ => self
                    .joined
                    .extend(initial.into_iter().chain(next).chain([out]).map(|value| (carried, value))),
            }
        }
        result
    }

    /// Makes one value of two.
    fn merge(&mut self, a: u32, b: u32) {
        let (a, b) = (self.same.find(a), self.same.find(b));
        let (keep, other) = (a.min(b) as usize, self.values[a.max(b) as usize]);
        self.same.join(a, b);
        self.values[keep].first = self.values[keep].first.min(other.first);
        self.values[keep].last = self.values[keep].last.max(other.last);
    }
}
