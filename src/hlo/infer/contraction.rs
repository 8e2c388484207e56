use super::{Operation, checks};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Shape},
    hlo::{Attrs, Computation, DotDims, Opcode},
};

pub(super) fn infer(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    match op.attrs {
        Attrs::Dot(dims) => dot(op.array(0)?, op.array(1)?, dims, op.declared),
        Attrs::Reduce { dims, to_apply } => reduce(op.array(0)?, op.array(1)?, dims, op.callee(*to_apply)?),
        _ => Err(op.no_rule()),
    }
}

fn dot(
    x: &ArrayShape,
    y: &ArrayShape,
    dims: &DotDims,
    declared: Option<&Shape>,
) -> Result<Shape, Diagnostic> {
    checks::len("right batch dimensions", dims.rhs_batch.len(), dims.lhs_batch.len())?;
    checks::len("right contracting dimensions", dims.rhs_contracting.len(), dims.lhs_contracting.len())?;
    let lhs_bound = [&dims.lhs_batch[..], &dims.lhs_contracting].concat();
    let rhs_bound = [&dims.rhs_batch[..], &dims.rhs_contracting].concat();
    checks::distinct(&lhs_bound, x.rank())?;
    checks::distinct(&rhs_bound, y.rank())?;
    for (&i, &j) in lhs_bound.iter().zip(&rhs_bound) {
        if x.dims[i] != y.dims[j] {
            return Err(format!("cannot pair dimension {i} of {x} with dimension {j} of {y}").into());
        }
    }
    let batch = dims.lhs_batch.iter().map(|&dim| x.dims[dim]);
    let free = checks::without(&x.dims, &lhs_bound).into_iter().chain(checks::without(&y.dims, &rhs_bound));
    let result = ArrayShape::new(x.dtype, batch.chain(free).collect::<Vec<_>>());
    let dtype = accumulation_type(x.dtype, declared)?;
    checks::equal("the element type of the right operand", y.dtype, x.dtype)?;
    Ok(result.with_dtype(dtype).into())
}

/// The element type of a dot's result. A wider declared type of the same kind requests accumulation in that type.
fn accumulation_type(operand: DType, declared: Option<&Shape>) -> Result<DType, Diagnostic> {
    let Some(declared) = declared else { return Ok(operand) };
    let dtype = checks::array(declared)?.dtype;
    let wider = dtype.bits() > operand.bits()
        && dtype.is_float() == operand.is_float()
        && dtype.is_signed() == operand.is_signed();
    if dtype != operand && !wider {
        return Err(format!("cannot accumulate products of {operand} in {dtype}").into());
    }
    Ok(dtype)
}

fn reduce(
    x: &ArrayShape,
    init: &ArrayShape,
    dims: &[usize],
    reducer: &Computation,
) -> Result<Shape, Diagnostic> {
    checks::equal("the initial value", init, &ArrayShape::scalar(x.dtype))?;
    checks::distinct(dims, x.rank())?;
    check_reducer(reducer, x.dtype)?;
    Ok(Shape::array(x.dtype, checks::without(&x.dims, dims)))
}

/// A reducer takes two scalars of the element type and returns one.
pub(super) fn check_reducer(reducer: &Computation, dtype: DType) -> Result<(), Diagnostic> {
    // XLA's CPU compiler aborts on custom calls here, and refuses loops.
    let unsupported = |opcode: Opcode| matches!(opcode, Opcode::CustomCall | Opcode::While);
    if let Some(instr) = reducer.instrs.iter().find(|instr| unsupported(instr.opcode)) {
        return Err(format!("expected no {} in a reducer, found `{}`", instr.opcode, instr.name).into());
    }
    let scalar = Shape::scalar(dtype);
    checks::arguments(reducer, &[&scalar, &scalar])?;
    checks::equal("the result of the reducer", reducer.result(), &scalar)
}
