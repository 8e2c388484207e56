use super::{
    error::AutodiffError,
    rules::{self, Vjp},
    save_policy::SavePolicy,
    tape::{CalleeVjp, Step, Tape, zeros},
    vjp_table::VjpTable,
};
use crate::{
    base::Shape,
    hlo::{Attrs, CompId, Computation, InstrId, ModuleBuilder, Value},
};

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
        let tape = Tape::new(b, (id, &primal), policy);
        let cotangent = b.parameter("cotangent", primal.result().clone());
        let cotangents = cotangents(&tape, vjps, cotangent, &active)?;
        residuals = tape.into_residuals();
        let results: Vec<Value<'_>> = wrt
            .iter()
            .map(|&id| cotangents[id.index()].unwrap_or_else(|| zeros(b, &primal.instr(id).shape)))
            .collect();
        Ok::<_, AutodiffError>(b.tuple(&results))
    })?;
    Ok(Backward { computation, residuals })
}

/// The cotangent of each active instruction that the result depends on.
fn cotangents<'b>(
    tape: &Tape<'b>,
    vjps: &VjpTable,
    cotangent: Value<'b>,
    active: &[bool],
) -> Result<Vec<Option<Value<'b>>>, AutodiffError> {
    let Tape { b, primal, primal_id, .. } = *tape;
    let mut cotangents: Vec<Option<Value<'b>>> = vec![None; active.len()];
    if active[primal.root.index()] {
        cotangents[primal.root.index()] = Some(cotangent);
    }
    for (id, instr) in primal.iter().rev() {
        let (Some(cotangent), true) = (cotangents[id.index()], active[id.index()]) else { continue };
        if matches!(instr.attrs, Attrs::Parameter(_)) {
            continue;
        }
        let scope = b.module().metadata(primal_id, id);
        // The cotangent has the annotations of the value, in the opposite order.
        let annotations = b.module().annotations(primal_id, id);
        let cotangent = annotations.into_iter().rev().fold(cotangent, Value::annotate);
        let wanted: Vec<bool> = instr.operands.iter().map(|operand| active[operand.index()]).collect();
        let callee = match instr.attrs {
            Attrs::Call(callee) => Some(callee_vjp(b.module(), vjps, callee, &wanted)?),
            _ => None,
        };
        let step = Step { tape, id, instr, cotangent, wanted: &wanted, callee };
        let parts = match b.in_scope(scope.clone(), || rules::vjp(&step)) {
            Vjp::NoGradient => continue,
            Vjp::Rule(parts) => parts,
            Vjp::Unsupported(reason) => {
                let location = b.module().location(primal_id, id);
                return Err(AutodiffError::NoRule { location, opcode: instr.opcode, reason });
            }
        };
        for ((operand, part), &wanted) in instr.operands.iter().zip(parts).zip(&wanted) {
            if let (Some(part), true) = (part, wanted) {
                let slot = &mut cotangents[operand.index()];
                *slot = Some(slot.map_or(part, |before| b.in_scope(scope.clone(), || sum(before, part))));
            }
        }
    }
    Ok(cotangents)
}

/// The VJP of a called computation: the custom one, else one that is derived once for all its calls.
fn callee_vjp(
    module: &ModuleBuilder,
    vjps: &VjpTable,
    callee: CompId,
    wanted: &[bool],
) -> Result<CalleeVjp, AutodiffError> {
    if let Some(vjp) = vjps.custom(callee) {
        return Ok(CalleeVjp::Custom(vjp));
    }
    let wanted: Vec<usize> = (0..wanted.len()).filter(|&index| wanted[index]).collect();
    let derive = |wanted: &[usize]| {
        backward(module, vjps, callee, wanted, SavePolicy::Nothing).map(|found| found.computation)
    };
    Ok(CalleeVjp::Derived(vjps.derived(callee, wanted, derive)?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{MAX_CALL_DEPTH, testing::nested_calls, text};

    #[test]
    fn the_deepest_calls_are_differentiated() {
        let located = text::parse_located(&nested_calls(MAX_CALL_DEPTH), "t.hlo").unwrap();
        let module = ModuleBuilder::new();
        let primal = module.import(&located, "t.hlo", "t.hlo");
        let found = backward(&module, &VjpTable::default(), primal, &[0], SavePolicy::Nothing).unwrap();
        assert_eq!(module.get(found.computation).parameters().len(), 2);
    }
}
