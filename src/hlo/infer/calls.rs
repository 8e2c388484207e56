//! Shapes of parameters, constants and tuples, and of what runs other computations.

use super::{MAX_SUBSHAPES, Operation, checks};
use crate::{
    base::{DType, Diagnostic, Literal, Shape},
    hlo::{Attrs, CompId, Opcode},
};

pub(super) fn infer(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    match (op.opcode, op.attrs) {
        (Opcode::Parameter, _) => op.declared(),
        (_, Attrs::Constant(literal)) => constant(literal),
        (Opcode::Tuple, _) => tuple(op.operands),
        (_, Attrs::TupleIndex(index)) => tuple_element(op.operands[0], *index),
        (Opcode::OptimizationBarrier, _) => Ok(op.operands[0].clone()),
        (_, Attrs::Call(callee)) => {
            let callee = op.callee(*callee)?;
            checks::arguments(callee, op.operands)?;
            Ok(callee.result().clone())
        }
        (_, Attrs::While { condition, body }) => while_loop(op, *condition, *body),
        (_, Attrs::CustomCall(call)) => {
            let shape = op.declared()?;
            check_known_target(&call.target, op.operands, &shape)?;
            Ok(shape)
        }
        _ => Err(op.no_rule()),
    }
}

fn constant(literal: &Literal) -> Result<Shape, Diagnostic> {
    let shape = literal.shape();
    let rows = shape.dims.iter().take_while(|&&size| size != 0);
    if shape.elements() == 0 && rows.fold(1, |n: usize, &size| n.saturating_mul(size)) > MAX_SUBSHAPES {
        return Err(format!(
            "expected at most {MAX_SUBSHAPES} rows in a constant without elements, found {shape}"
        )
        .into());
    }
    Ok(shape.clone().into())
}

fn tuple(elements: &[&Shape]) -> Result<Shape, Diagnostic> {
    if elements.iter().map(|shape| shape.num_subshapes()).sum::<usize>() > MAX_SUBSHAPES {
        return Err(
            format!("expected at most {MAX_SUBSHAPES} arrays and tuples in a tuple, found more").into()
        );
    }
    Ok(Shape::Tuple(elements.iter().map(|&shape| shape.clone()).collect()))
}

fn tuple_element(tuple: &Shape, index: usize) -> Result<Shape, Diagnostic> {
    let Some(elements) = tuple.as_tuple() else {
        return Err(format!("expected a tuple, found {tuple}").into());
    };
    let element = elements.get(index).cloned();
    element.ok_or_else(|| format!("expected an index below {}, found {index}", elements.len()).into())
}

fn while_loop(op: &Operation<'_>, condition: CompId, body: CompId) -> Result<Shape, Diagnostic> {
    let (condition, body) = (op.callee(condition)?, op.callee(body)?);
    checks::arguments(condition, op.operands)?;
    checks::arguments(body, op.operands)?;
    checks::equal("the result of the condition", condition.result(), &Shape::scalar(DType::Pred))?;
    checks::equal("the result of the body", body.result(), op.operands[0])?;
    Ok(op.operands[0].clone())
}

/// Checks a call of a target that XLA's passes expand: XLA aborts on other operands or results.
fn check_known_target(target: &str, operands: &[&Shape], result: &Shape) -> Result<(), Diagnostic> {
    let expected = match target {
        "PadToStatic" | "SliceToDynamic" => {
            return Err(format!("unsupported target {target}: expected static sizes").into());
        }
        "Eigh"
        | "LayoutConstraint"
        | "Qr"
        | "SPMDFullToShardShape"
        | "SPMDShardToFullShape"
        | "Sharding"
        | "TopK"
        | "xla.sdy.FuncResultSharding" => 1,
        "ProductOfElementaryHouseholderReflectors" => 2,
        _ if target.starts_with("__onednn$") => {
            return Err(format!("unsupported target {target}: only XLA itself makes such calls").into());
        }
        _ => return Ok(()),
    };
    checks::len("operands", operands.len(), expected)?;
    match target {
        "LayoutConstraint" => checks::array(operands[0]).and(checks::array(result)).map(drop),
        "TopK" if result.as_tuple().is_none_or(|elements| elements.len() != 2) => {
            Err(format!("expected values and indices as the result, found {result}").into())
        }
        _ => Ok(()),
    }
}
