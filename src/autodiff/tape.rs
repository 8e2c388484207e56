use std::cell::RefCell;

use super::save_policy::SavePolicy;
use crate::{
    base::Shape,
    hlo::{Builder, CompId, Computation, Instr, InstrId, Value},
};

/// The scope of primal values that are computed again, as JAX names it and XProf recognizes it.
pub const REMATTED: &str = "rematted_computation";

/// The primal computation inside the backward one: its values are residuals or computed again on demand.
pub(super) struct Tape<'b> {
    pub b: &'b Builder<'b>,
    pub primal: &'b Computation,
    pub primal_id: CompId,
    policy: SavePolicy,
    values: RefCell<Vec<Option<Value<'b>>>>,
    residuals: RefCell<Vec<InstrId>>,
}

impl<'b> Tape<'b> {
    pub(super) fn new(
        b: &'b Builder<'b>,
        (primal_id, primal): (CompId, &'b Computation),
        policy: SavePolicy,
    ) -> Self {
        let mut values = vec![None; primal.instrs.len()];
        for id in primal.parameters() {
            values[id.index()] = Some(parameter_like(b, primal.instr(id)));
        }
        let (values, residuals) = (RefCell::new(values), RefCell::default());
        Self { b, primal, primal_id, policy, values, residuals }
    }

    /// The primal values that were read as residuals.
    pub(super) fn into_residuals(self) -> Vec<InstrId> {
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
                    let metadata = self.b.module().metadata(self.primal_id, next).inside(REMATTED);
                    let value =
                        attributed_like(value.named(instr.base_name()).with_metadata(metadata), instr);
                    let annotations = self.b.module().annotations(self.primal_id, next);
                    values[next.index()] = Some(annotations.into_iter().fold(value, Value::annotate));
                }
            }
        }
        unreachable!("the first pending value is pushed above and leaves the loop when it is computed")
    }
}

/// The vector-Jacobian product of a called computation.
#[derive(Clone, Copy)]
pub(super) enum CalleeVjp {
    /// A custom one. Takes the arguments, the result and its cotangent; returns the cotangents of all floating-point
    /// arguments.
    Custom(CompId),
    /// A derived one. Takes the arguments and the cotangent of the result; returns the cotangents of the wanted arguments.
    Derived(CompId),
}

/// A primal instruction with the cotangent of its result, the input of a rule.
pub(super) struct Step<'t, 'b> {
    pub tape: &'t Tape<'b>,
    pub id: InstrId,
    pub instr: &'t Instr,
    /// The cotangent of the result, in the shape of the result.
    pub cotangent: Value<'b>,
    /// For each operand, whether its cotangent is needed.
    pub wanted: &'t [bool],
    /// Of a call: the VJP of its callee.
    pub callee: Option<CalleeVjp>,
}

impl<'b> Step<'_, 'b> {
    /// The builder of the backward computation.
    pub(super) fn builder(&self) -> &'b Builder<'b> {
        self.tape.b
    }

    /// The primal value of operand `index`.
    pub(super) fn operand(&self, index: usize) -> Value<'b> {
        self.tape.value(self.instr.operands[index])
    }

    /// The shape of operand `index`, for which nothing is computed.
    pub(super) fn operand_shape(&self, index: usize) -> &Shape {
        &self.tape.primal.instr(self.instr.operands[index]).shape
    }

    /// The primal value of the instruction itself.
    pub(super) fn result(&self) -> Value<'b> {
        self.tape.value(self.id)
    }

    /// The value of `part` if the cotangent of operand `index` is needed.
    pub(super) fn when_wanted(&self, index: usize, part: impl FnOnce() -> Value<'b>) -> Option<Value<'b>> {
        self.wanted[index].then(part)
    }
}

/// A parameter of the backward computation for a value of the primal one.
fn parameter_like<'b>(b: &'b Builder<'b>, instr: &Instr) -> Value<'b> {
    b.parameter(instr.base_name(), instr.shape.clone())
}

/// The value with the sharding and the frontend attributes of an instruction.
fn attributed_like<'b>(value: Value<'b>, instr: &Instr) -> Value<'b> {
    let sharded = instr.sharding.iter().fold(value, |value, sharding| value.with_sharding(sharding.clone()));
    let attributes = instr.frontend_attributes.iter();
    attributes.fold(sharded, |value, (key, text)| value.with_frontend_attribute(key, text.clone()))
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
