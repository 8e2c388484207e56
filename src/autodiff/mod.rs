//! Layer 2: reverse-mode differentiation of straight-line computations.
//!
//! [`backward`] adds the backward computation of a computation, from the cotangent of its result to those of chosen
//! parameters. Only values on paths from these parameters to the result get cotangents, so that frozen weights cost
//! nothing. Primal values are residuals or are computed again, by the [`SavePolicy`].
//!
//! Loops are not differentiated: a backward loop is written by hand around the backward computation of its body. A
//! `call` may have a custom derivative, from the [`VjpTable`].

mod rules;
mod save_policy;
mod tape;
mod vjp_table;

pub use save_policy::{SavePolicy, forward_with_residuals};
pub use vjp_table::VjpTable;

use tape::{Tape, zeros};

use crate::{
    base::{Diagnostics, Location},
    hlo::{CompId, Computation, InstrId, ModuleBuilder, Opcode, Value},
};

/// An error of differentiation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutodiffError {
    /// A path from the parameters to the result has an operation without a derivative rule.
    #[error("{location}: cannot differentiate {opcode}: {reason}")]
    NoRule {
        /// The instruction.
        location: Location,
        /// Its opcode.
        opcode: Opcode,
        /// Why there is no rule.
        reason: &'static str,
    },
    /// The backward computation is invalid, which is an error in a rule or in a custom VJP.
    #[error(transparent)]
    Build(#[from] Diagnostics),
}

impl AutodiffError {
    /// An action that fixes the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRule { .. } => {
                Some("put it into a computation of its own with a custom gradient".to_owned())
            }
            Self::Build(_) => None,
        }
    }
}

/// A backward computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Takes the parameters of the primal computation, the cotangent of its result (in the shape of the result), and the
    /// residuals. Returns a tuple of the requested cotangents.
    pub computation: CompId,
    /// The values of the primal computation that it takes.
    pub residuals: Vec<InstrId>,
}

/// Adds the backward computation of `primal` to the module.
///
/// It returns the cotangents of the parameters with the numbers `wrt`, in that order. The cotangent of a parameter that
/// the result does not depend on is zero.
///
/// # Errors
/// [`AutodiffError::NoRule`] if a path from the parameters to the result has an operation without a derivative.
///
/// # Panics
/// If `primal` has no parameter with a number in `wrt`.
pub fn backward(
    module: &ModuleBuilder,
    vjps: &VjpTable,
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
        let tape = Tape::new(b, vjps, (id, &primal), policy);
        let cotangent = b.parameter("cotangent", primal.result().clone());
        let cotangents = tape.vjp(cotangent, &active)?;
        residuals = tape.into_residuals();
        let results: Vec<Value<'_>> = wrt
            .iter()
            .map(|&id| cotangents[id.index()].unwrap_or_else(|| zeros(b, &primal.instr(id).shape)))
            .collect();
        Ok::<_, AutodiffError>(b.tuple(&results))
    })?;
    Ok(Backward { computation, residuals })
}

/// For each instruction, whether it depends on `wrt` through floating-point values.
fn active(primal: &Computation, wrt: &[InstrId]) -> Vec<bool> {
    let mut active = vec![false; primal.instrs.len()];
    for (id, instr) in primal.iter() {
        let reached = wrt.contains(&id) || instr.operands.iter().any(|operand| active[operand.index()]);
        active[id.index()] = reached && instr.shape.holds_float();
    }
    active
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{MAX_CALL_DEPTH, testing::nested_calls, text};

    #[test]
    fn the_deepest_calls_are_differentiated() {
        let located = text::parse_located(&nested_calls(MAX_CALL_DEPTH), "t.hlo").unwrap();
        let module = ModuleBuilder::new();
        let primal = module.import(&located, "t.hlo");
        let found = backward(&module, &VjpTable::default(), primal, &[0], SavePolicy::Nothing).unwrap();
        assert_eq!(module.get(found.computation).parameters().len(), 2);
    }
}
