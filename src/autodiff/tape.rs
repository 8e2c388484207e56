use std::cell::RefCell;

use super::{AutodiffError, SavePolicy, VjpTable, rules};
use crate::{
    base::Shape,
    hlo::{Attrs, Builder, CompId, Computation, Instr, InstrId, Value},
};

/// The primal computation inside the backward one: its values are residuals or computed again on demand.
pub(super) struct Tape<'b> {
    b: &'b Builder<'b>,
    pub vjps: &'b VjpTable,
    primal: &'b Computation,
    primal_id: CompId,
    policy: SavePolicy,
    values: RefCell<Vec<Option<Value<'b>>>>,
    residuals: RefCell<Vec<InstrId>>,
}

impl<'b> Tape<'b> {
    pub fn new(
        b: &'b Builder<'b>,
        vjps: &'b VjpTable,
        (primal_id, primal): (CompId, &'b Computation),
        policy: SavePolicy,
    ) -> Self {
        let mut values = vec![None; primal.instrs.len()];
        for id in primal.parameters() {
            values[id.index()] = Some(parameter_like(b, primal.instr(id)));
        }
        let (values, residuals) = (RefCell::new(values), RefCell::default());
        Self { b, vjps, primal, primal_id, policy, values, residuals }
    }

    /// The primal values that were read as residuals.
    pub fn into_residuals(self) -> Vec<InstrId> {
        self.residuals.into_inner()
    }

    /// The primal value of `id`.
    fn value(&self, id: InstrId) -> Value<'b> {
        let mut values = self.values.borrow_mut();
        // Operands are computed before their users with a stack, since a chain of them may be long.
        let mut pending = vec![id];
        while let Some(&next) = pending.last() {
            let instr = self.primal.instr(next);
            if values[next.index()].is_none() && self.policy.saves(self.b.module(), instr) {
                values[next.index()] = Some(parameter_like(self.b, instr));
                self.residuals.borrow_mut().push(next);
            }
            let missing = instr.operands.iter().copied().find(|operand| values[operand.index()].is_none());
            match (values[next.index()], missing) {
                (Some(value), _) if next == id => return value,
                (Some(_), _) => drop(pending.pop()),
                (None, Some(operand)) => pending.push(operand),
                (None, None) => {
                    let operands: Vec<Value<'b>> =
                        instr.operands.iter().filter_map(|operand| values[operand.index()]).collect();
                    let attrs = instr.attrs.clone();
                    let value = self.b.push(instr.opcode, &operands, attrs, Some(instr.shape.clone()));
                    let value = attributed_like(value.named(base_name(instr)), instr);
                    let annotations = self.b.module().annotations(self.primal_id, next);
                    values[next.index()] = Some(annotations.into_iter().fold(value, Value::annotate));
                }
            }
        }
        unreachable!("the first pending value is pushed above and leaves the loop when it is computed")
    }

    /// The cotangent of each active instruction that the result depends on.
    pub fn vjp(
        &self,
        cotangent: Value<'b>,
        active: &[bool],
    ) -> Result<Vec<Option<Value<'b>>>, AutodiffError> {
        let mut cotangents: Vec<Option<Value<'b>>> = vec![None; active.len()];
        if active[self.primal.root.index()] {
            cotangents[self.primal.root.index()] = Some(cotangent);
        }
        for (id, instr) in self.primal.iter().rev() {
            let (Some(cotangent), true) = (cotangents[id.index()], active[id.index()]) else { continue };
            if matches!(instr.attrs, Attrs::Parameter(_)) {
                continue;
            }
            // The cotangent has the annotations of the value, in the opposite order.
            let annotations = self.b.module().annotations(self.primal_id, id);
            let cotangent = annotations.into_iter().rev().fold(cotangent, Value::annotate);
            let wanted: Vec<bool> = instr.operands.iter().map(|operand| active[operand.index()]).collect();
            let step = Step { tape: self, id, instr, cotangent, wanted: &wanted };
            let parts = match rules::vjp(&step)? {
                rules::Vjp::NoGradient => continue,
                rules::Vjp::Rule(parts) => parts,
                rules::Vjp::Unsupported(reason) => return Err(self.no_rule(id, instr, reason)),
            };
            for ((operand, part), wanted) in instr.operands.iter().zip(parts).zip(wanted) {
                if let (Some(part), true) = (part, wanted) {
                    let slot = &mut cotangents[operand.index()];
                    *slot = Some(slot.map_or(part, |before| sum(before, part)));
                }
            }
        }
        Ok(cotangents)
    }

    fn no_rule(&self, id: InstrId, instr: &Instr, reason: &'static str) -> AutodiffError {
        let location = self.b.module().location(self.primal_id, id);
        AutodiffError::NoRule { location, opcode: instr.opcode, reason }
    }
}

/// A primal instruction with the cotangent of its result, the input of a rule.
pub(super) struct Step<'t, 'b> {
    pub tape: &'t Tape<'b>,
    id: InstrId,
    pub instr: &'t Instr,
    /// The cotangent of the result, in the shape of the result.
    pub cotangent: Value<'b>,
    /// For each operand, whether its cotangent is needed.
    pub wanted: &'t [bool],
}

impl<'b> Step<'_, 'b> {
    /// The builder of the backward computation.
    pub fn builder(&self) -> &'b Builder<'b> {
        self.tape.b
    }

    /// The primal value of operand `index`.
    pub fn operand(&self, index: usize) -> Value<'b> {
        self.tape.value(self.instr.operands[index])
    }

    /// The shape of operand `index`, for which nothing is computed.
    pub fn operand_shape(&self, index: usize) -> &Shape {
        &self.tape.primal.instr(self.instr.operands[index]).shape
    }

    /// The primal value of the instruction itself.
    pub fn result(&self) -> Value<'b> {
        self.tape.value(self.id)
    }

    /// The value of `part` if the cotangent of operand `index` is needed.
    pub fn when_wanted(&self, index: usize, part: impl FnOnce() -> Value<'b>) -> Option<Value<'b>> {
        self.wanted[index].then(part)
    }
}

/// A parameter of the backward computation for a value of the primal one.
fn parameter_like<'b>(b: &'b Builder<'b>, instr: &Instr) -> Value<'b> {
    b.parameter(base_name(instr), instr.shape.clone())
}

/// The value with the sharding and the frontend attributes of an instruction.
fn attributed_like<'b>(value: Value<'b>, instr: &Instr) -> Value<'b> {
    let sharded = instr.sharding.iter().fold(value, |value, sharding| value.with_sharding(sharding.clone()));
    let attributes = instr.frontend_attributes.iter();
    attributes.fold(sharded, |value, (key, text)| value.with_frontend_attribute(key, text.clone()))
}

/// The name of an instruction without the number that made it unique.
fn base_name(instr: &Instr) -> &str {
    match instr.name.rsplit_once('.') {
        Some((base, number)) if number.bytes().all(|c| c.is_ascii_digit()) => base,
        _ => &instr.name,
    }
}

/// Zeros of an array or a tuple shape.
pub(super) fn zeros<'b>(b: &'b Builder<'b>, shape: &Shape) -> Value<'b> {
    match shape {
        Shape::Array(array) => b.full(array.clone(), 0.0),
        Shape::Tuple(elements) => {
            let elements: Vec<Value<'b>> = elements.iter().map(|element| zeros(b, element)).collect();
            b.tuple(&elements)
        }
    }
}

fn sum<'b>(x: Value<'b>, y: Value<'b>) -> Value<'b> {
    match x.shape() {
        Shape::Array(_) => x + y,
        Shape::Tuple(_) => {
            let sums: Vec<Value<'b>> =
                x.elements().into_iter().zip(y.elements()).map(|(x, y)| sum(x, y)).collect();
            x.builder().tuple(&sums)
        }
    }
}
