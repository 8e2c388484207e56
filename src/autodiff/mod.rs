//! Layer 2: reverse-mode differentiation of straight-line computations.
//!
//! [`backward`] writes, next to a computation, the one that carries a cotangent of its result back to chosen
//! parameters. Only paths that lead from those parameters to the result get cotangents: a frozen weight costs nothing.
//! Primal values are taken over or computed again, as [`SavePolicy`] says, each when first asked for.
//!
//! Loops are not differentiated: whoever writes a loop writes its backward loop too, from the backward computation of
//! the body. What is better differentiated by hand is a `call` whose gradient was set in the [`ModuleBuilder`].

mod rules;
mod save_policy;

use std::cell::RefCell;

pub use save_policy::{SavePolicy, forward_with_residuals};

use crate::{
    base::{Diagnostics, Location, Shape},
    hlo::{Attrs, Builder, CompId, Computation, Instr, InstrId, ModuleBuilder, Opcode, Value},
};

/// Why a computation cannot be differentiated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutodiffError {
    /// The path from the parameters to the result goes through an operation without a rule.
    #[error("{location}: cannot differentiate {opcode}: {why}")]
    NoRule {
        /// The instruction.
        location: Location,
        /// What it does.
        opcode: Opcode,
        /// Why there is no rule.
        why: &'static str,
    },
    /// The backward computation is ill-formed, which is a mistake in a rule or in a gradient set by hand.
    #[error(transparent)]
    Build(#[from] Diagnostics),
}

impl AutodiffError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRule { .. } => {
                Some("put it into a computation of its own and give that one a gradient".to_owned())
            }
            Self::Build(_) => None,
        }
    }
}

/// A computation that carries a cotangent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Takes the parameters of the primal computation, then the cotangent of its result (of the result's shape), then
    /// the residuals. Gives the tuple of the cotangents that were asked for.
    pub computation: CompId,
    /// The values of the primal computation that it takes over.
    pub residuals: Vec<InstrId>,
}

/// Adds the backward computation of `primal` to the module.
///
/// It gives the cotangents of the parameters numbered in `wrt`, in that order; a parameter that the result does not depend
/// on has zeros.
///
/// # Errors
/// If the way leads through an operation without a derivative.
///
/// # Panics
/// If `wrt` names a parameter that `primal` does not have.
pub fn backward(
    module: &ModuleBuilder,
    primal: CompId,
    wrt: &[usize],
    policy: SavePolicy,
) -> Result<Backward, AutodiffError> {
    let (id, primal) = (primal, module.get(primal));
    let parameters = primal.parameters();
    let wrt: Vec<InstrId> = wrt.iter().map(|&number| parameters[number]).collect();
    let active = active(&primal, &wrt);
    let mut residuals = Vec::new();
    let computation = module.try_define(&format!("{}.backward", primal.name), |b| {
        let tape = Tape::new(b, id, &primal, policy);
        let cotangent = b.parameter("cotangent", primal.result().clone());
        let found = tape.vjp(cotangent, &active)?;
        residuals = tape.residuals.into_inner();
        let results: Vec<Value<'_>> = wrt
            .iter()
            .map(|&id| found[id.index()].unwrap_or_else(|| zeros(b, &primal.instr(id).shape)))
            .collect();
        Ok::<_, AutodiffError>(b.tuple(&results))
    })?;
    Ok(Backward { computation, residuals })
}

/// Which instructions depend on `wrt` through values that can have a derivative.
fn active(primal: &Computation, wrt: &[InstrId]) -> Vec<bool> {
    let mut active = vec![false; primal.instrs.len()];
    for (id, instr) in primal.iter() {
        let reached = wrt.contains(&id) || instr.operands.iter().any(|operand| active[operand.index()]);
        active[id.index()] = reached && instr.shape.holds_float();
    }
    active
}

fn zeros<'b>(b: &'b Builder<'b>, shape: &Shape) -> Value<'b> {
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

/// The primal computation as the backward one sees it: values taken over, or computed again on demand.
struct Tape<'b> {
    b: &'b Builder<'b>,
    primal: &'b Computation,
    primal_id: CompId,
    policy: SavePolicy,
    values: RefCell<Vec<Option<Value<'b>>>>,
    residuals: RefCell<Vec<InstrId>>,
}

impl<'b> Tape<'b> {
    fn new(b: &'b Builder<'b>, primal_id: CompId, primal: &'b Computation, policy: SavePolicy) -> Self {
        let mut values = vec![None; primal.instrs.len()];
        for id in primal.parameters() {
            values[id.index()] = Some(parameter_like(b, primal.instr(id)));
        }
        Self { b, primal, primal_id, policy, values: RefCell::new(values), residuals: RefCell::default() }
    }

    /// The primal value of `id`.
    fn value(&self, id: InstrId) -> Value<'b> {
        let mut values = self.values.borrow_mut();
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
                    let again =
                        self.b.push(instr.opcode, &operands, instr.attrs.clone(), Some(instr.shape.clone()));
                    let again = attributed_like(again.named(base_name(instr)), instr);
                    let annotations = self.b.module().annotations(self.primal_id, next);
                    values[next.index()] = Some(annotations.into_iter().fold(again, Value::annotate));
                }
            }
        }
        zeros(self.b, &self.primal.instr(id).shape)
    }

    /// The cotangent of every active instruction that the result depends on.
    fn vjp(&self, cotangent: Value<'b>, active: &[bool]) -> Result<Vec<Option<Value<'b>>>, AutodiffError> {
        let mut cotangents: Vec<Option<Value<'b>>> = vec![None; active.len()];
        if active[self.primal.root.index()] {
            cotangents[self.primal.root.index()] = Some(cotangent);
        }
        for (id, instr) in self.primal.iter().rev() {
            let (Some(cotangent), true) = (cotangents[id.index()], active[id.index()]) else { continue };
            if matches!(instr.attrs, Attrs::Parameter(_)) {
                continue;
            }
            // A cotangent has the annotations of its value, in the opposite order.
            let annotations = self.b.module().annotations(self.primal_id, id);
            let cotangent = annotations.into_iter().rev().fold(cotangent, Value::annotate);
            let wanted: Vec<bool> = instr.operands.iter().map(|operand| active[operand.index()]).collect();
            let step = Step { tape: self, id, instr, cotangent, wanted: &wanted };
            let parts = match rules::vjp(&step)? {
                rules::Vjp::NoGradient => continue,
                rules::Vjp::Rule(parts) => parts,
                rules::Vjp::Unsupported(why) => return Err(self.no_rule(id, instr, why)),
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

    fn no_rule(&self, id: InstrId, instr: &Instr, why: &'static str) -> AutodiffError {
        let location = self.b.module().location(self.primal_id, id);
        AutodiffError::NoRule { location, opcode: instr.opcode, why }
    }
}

/// A parameter of the backward computation for a value of the primal one.
fn parameter_like<'b>(b: &'b Builder<'b>, instr: &Instr) -> Value<'b> {
    b.parameter(base_name(instr), instr.shape.clone())
}

/// The value with the sharding and the frontend attributes of the instruction that it repeats.
fn attributed_like<'b>(value: Value<'b>, instr: &Instr) -> Value<'b> {
    let sharded = instr.sharding.iter().fold(value, |value, sharding| value.with_sharding(sharding.clone()));
    let attributes = instr.frontend_attributes.iter();
    attributes.fold(sharded, |value, (key, text)| value.with_frontend_attribute(key, text.clone()))
}

/// The name without the number that made it unique.
fn base_name(instr: &Instr) -> &str {
    match instr.name.rsplit_once('.') {
        Some((base, number)) if number.bytes().all(|c| c.is_ascii_digit()) => base,
        _ => &instr.name,
    }
}

/// One instruction on the way back: what a rule may look at.
struct Step<'t, 'b> {
    tape: &'t Tape<'b>,
    id: InstrId,
    instr: &'t Instr,
    /// Of the shape of the instruction's value.
    cotangent: Value<'b>,
    /// For each operand, whether its cotangent is of use.
    wanted: &'t [bool],
}

impl<'b> Step<'_, 'b> {
    /// The builder of the backward computation.
    fn builder(&self) -> &'b Builder<'b> {
        self.tape.b
    }

    /// The primal value of operand `index`.
    fn operand(&self, index: usize) -> Value<'b> {
        self.tape.value(self.instr.operands[index])
    }

    /// The shape of operand `index`; asking for it computes nothing.
    fn operand_shape(&self, index: usize) -> &Shape {
        &self.tape.primal.instr(self.instr.operands[index]).shape
    }

    /// The primal value of the instruction itself.
    fn result(&self) -> Value<'b> {
        self.tape.value(self.id)
    }

    /// What `part` gives where operand `index` wants a cotangent.
    fn when_wanted(&self, index: usize, part: impl FnOnce() -> Value<'b>) -> Option<Value<'b>> {
        self.wanted[index].then(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{MAX_CALL_DEPTH, nested_calls, text};

    #[test]
    fn the_deepest_calls_are_differentiated() {
        let located = text::parse_located(&nested_calls(MAX_CALL_DEPTH), "t.hlo").unwrap();
        let module = ModuleBuilder::new();
        let primal = module.import(&located, "t.hlo");
        let found = backward(&module, primal, &[0], SavePolicy::Nothing).unwrap();
        assert_eq!(module.get(found.computation).parameters().len(), 2);
    }
}
