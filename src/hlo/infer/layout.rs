//! Shapes of operations that copy or number elements.

use super::{Operation, checks};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Shape},
    hlo::{Attrs, Opcode, PadDim, SliceDim},
};

/// Maximum of a stride and of the padding at an edge. XLA adds several of them in 64 bits and aborts on overflow.
const MAX_STEP: usize = 1 << 60;

pub(super) fn infer(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    match (op.opcode, op.attrs) {
        (_, Attrs::Iota(dim)) => iota(*dim, op.declared()?),
        (Opcode::Reshape, _) => reshape(op.array(0)?, op.declared()?),
        (Opcode::Broadcast, Attrs::Dims(dims)) => broadcast(op.array(0)?, dims, op.declared()?),
        (Opcode::Transpose, Attrs::Dims(dims)) => transpose(op.array(0)?, dims),
        (Opcode::Reverse, Attrs::Dims(dims)) => reverse(op.array(0)?, dims),
        (Opcode::Concatenate, Attrs::Dims(dims)) => concatenate(op, dims),
        (_, Attrs::Slice(ranges)) => slice(op.array(0)?, ranges),
        (_, Attrs::DynamicSlice(sizes)) => dynamic_slice(op, sizes),
        (Opcode::DynamicUpdateSlice, _) => dynamic_update_slice(op),
        (_, Attrs::Pad(edges)) => pad(op.array(0)?, op.array(1)?, edges),
        _ => Err(op.no_rule()),
    }
}

fn iota(dim: usize, declared: Shape) -> Result<Shape, Diagnostic> {
    let array = checks::array(&declared)?;
    checks::dtype(array, "a numeric type", |t| t != DType::Pred)?;
    checks::dim(dim, array.rank())?;
    Ok(declared)
}

fn reshape(x: &ArrayShape, declared: Shape) -> Result<Shape, Diagnostic> {
    let to = checks::array(&declared)?;
    if to.dtype != x.dtype || to.elements() != x.elements() {
        return Err(format!("cannot reshape {x} to {to}").into());
    }
    Ok(declared)
}

fn broadcast(x: &ArrayShape, dims: &[usize], declared: Shape) -> Result<Shape, Diagnostic> {
    let to = checks::array(&declared)?;
    checks::len("broadcast dimensions", dims.len(), x.rank())?;
    checks::equal("the element type of the result", to.dtype, x.dtype)?;
    checks::ascending(dims, to.rank())?;
    if dims.iter().zip(&x.dims).any(|(&dim, &size)| to.dims[dim] != size) {
        return Err(format!("cannot broadcast {x} along {dims:?} to {to}").into());
    }
    Ok(declared)
}

fn transpose(x: &ArrayShape, permutation: &[usize]) -> Result<Shape, Diagnostic> {
    checks::len("permuted dimensions", permutation.len(), x.rank())?;
    checks::distinct(permutation, x.rank())?;
    Ok(Shape::array(x.dtype, permutation.iter().map(|&dim| x.dims[dim]).collect::<Vec<_>>()))
}

fn reverse(x: &ArrayShape, dims: &[usize]) -> Result<Shape, Diagnostic> {
    checks::distinct(dims, x.rank())?;
    Ok(x.clone().into())
}

fn concatenate(op: &Operation<'_>, dims: &[usize]) -> Result<Shape, Diagnostic> {
    let x = op.array(0)?;
    let &[dim] = dims else { return Err(format!("expected one dimension, found {dims:?}").into()) };
    checks::dim(dim, x.rank())?;
    let mut joined = x.clone();
    for index in 1..op.operands.len() {
        let operand = op.array(index)?;
        let mut expected = x.clone();
        if let Some(&size) = operand.dims.get(dim) {
            expected.dims[dim] = size;
            joined.dims[dim] = joined.dims[dim].saturating_add(size);
        }
        checks::equal(&format!("operand {index}"), operand, &expected)?;
    }
    Ok(joined.into())
}

fn slice(x: &ArrayShape, ranges: &[SliceDim]) -> Result<Shape, Diagnostic> {
    checks::len("slice ranges", ranges.len(), x.rank())?;
    let mut sizes = Vec::with_capacity(x.rank());
    for (&SliceDim { start, limit, stride }, &size) in ranges.iter().zip(&x.dims) {
        if !(1..=MAX_STEP).contains(&stride) || start > limit || limit > size {
            return Err(format!("slice [{start}:{limit}:{stride}] is out of bounds of size {size}").into());
        }
        sizes.push((limit - start).div_ceil(stride));
    }
    Ok(Shape::array(x.dtype, sizes))
}

fn dynamic_slice(op: &Operation<'_>, sizes: &[usize]) -> Result<Shape, Diagnostic> {
    let x = op.array(0)?;
    checks::len("slice sizes", sizes.len(), x.rank())?;
    checks::starts(&op.operands[1..], x.rank())?;
    checks::in_bounds("slice", sizes, &x.dims)?;
    Ok(Shape::array(x.dtype, sizes))
}

fn dynamic_update_slice(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    let (x, update) = (op.array(0)?, op.array(1)?);
    checks::len("update dimensions", update.rank(), x.rank())?;
    checks::starts(&op.operands[2..], x.rank())?;
    checks::in_bounds("update", &update.dims, &x.dims)?;
    checks::equal("the element type of the update", update.dtype, x.dtype)?;
    Ok(x.clone().into())
}

fn pad(x: &ArrayShape, value: &ArrayShape, edges: &[PadDim]) -> Result<Shape, Diagnostic> {
    checks::equal("the padding value", value, &ArrayShape::scalar(x.dtype))?;
    checks::len("padded dimensions", edges.len(), x.rank())?;
    // HLO text has no syntax for the padding of a scalar.
    checks::dim(0, x.rank())?;
    let sizes = edges.iter().zip(&x.dims).map(|(edge, &size)| padded_size(edge, size));
    Ok(Shape::array(x.dtype, sizes.collect::<Result<Vec<_>, _>>()?))
}

fn padded_size(&PadDim { low, high, interior }: &PadDim, size: usize) -> Result<usize, Diagnostic> {
    if low.unsigned_abs().max(high.unsigned_abs()) > MAX_STEP as u64 {
        return Err(format!("expected padding of at most {MAX_STEP}, found {low}_{high}").into());
    }
    if interior > u32::MAX as usize {
        return Err(format!("expected interior padding below 2^32, found {interior}").into());
    }
    let inner = size.saturating_sub(1).saturating_mul(interior).saturating_add(size);
    let padded = i64::try_from(inner).ok().and_then(|size| size.checked_add(low)?.checked_add(high));
    let padded = padded.and_then(|size| usize::try_from(size).ok());
    padded.ok_or_else(|| {
        format!("padding {low}_{high} makes the size of a dimension of size {size} negative").into()
    })
}
