use super::{Operation, checks};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Shape},
    hlo::{Opcode, ShapeRule},
};

pub(super) fn infer(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    match op.opcode.shape_rule() {
        ShapeRule::UnaryFloat => unary(op, "a floating-point type", DType::is_float),
        ShapeRule::UnaryNumeric => unary(op, "a numeric type", |t| t != DType::Pred),
        ShapeRule::UnaryLogical => unary(op, "an integer or boolean type", |t| !t.is_float()),
        ShapeRule::BinaryAny => binary(op, "any type", |_| true),
        ShapeRule::BinaryNumeric => binary(op, "a numeric type", |t| t != DType::Pred),
        ShapeRule::BinaryLogical => binary(op, "an integer or boolean type", |t| !t.is_float()),
        ShapeRule::PerOpcode => match op.opcode {
            Opcode::IsFinite => is_finite(op.array(0)?),
            Opcode::Convert => same_dims(op.array(0)?, op.declared()?),
            Opcode::BitcastConvert => bitcast_convert(op.array(0)?, op.declared()?),
            Opcode::Compare => compare(op.array(0)?, op.array(1)?),
            Opcode::Select => select(op.array(0)?, op.array(1)?, op.array(2)?),
            Opcode::Clamp => clamp(op.array(0)?, op.array(1)?, op.array(2)?),
            _ => Err(op.no_rule()),
        },
    }
}

fn unary(op: &Operation<'_>, types: &str, accepts: impl Fn(DType) -> bool) -> Result<Shape, Diagnostic> {
    let x = op.array(0)?;
    checks::dtype(x, types, accepts)?;
    Ok(x.clone().into())
}

fn binary(op: &Operation<'_>, types: &str, accepts: impl Fn(DType) -> bool) -> Result<Shape, Diagnostic> {
    let (x, y) = (op.array(0)?, op.array(1)?);
    checks::dtype(x, types, accepts)?;
    checks::equal("the second operand", y, x)?;
    Ok(x.clone().into())
}

fn is_finite(x: &ArrayShape) -> Result<Shape, Diagnostic> {
    checks::dtype(x, "a floating-point type", DType::is_float)?;
    Ok(x.with_dtype(DType::Pred).into())
}

fn same_dims(x: &ArrayShape, declared: Shape) -> Result<Shape, Diagnostic> {
    let dtype = checks::array(&declared)?.dtype;
    checks::equal("the result", &declared, &x.with_dtype(dtype).into())?;
    Ok(declared)
}

fn bitcast_convert(x: &ArrayShape, declared: Shape) -> Result<Shape, Diagnostic> {
    let shape = same_dims(x, declared)?;
    let to = checks::array(&shape)?.dtype;
    if to.bits() != x.dtype.bits() {
        return Err(format!("expected an element type of {} bits, found {to}", x.dtype.bits()).into());
    }
    Ok(shape)
}

fn compare(x: &ArrayShape, y: &ArrayShape) -> Result<Shape, Diagnostic> {
    checks::equal("the second operand", y, x)?;
    Ok(x.with_dtype(DType::Pred).into())
}

fn select(predicate: &ArrayShape, x: &ArrayShape, y: &ArrayShape) -> Result<Shape, Diagnostic> {
    checks::equal("the predicate", predicate, &x.with_dtype(DType::Pred))?;
    checks::equal("the third operand", y, x)?;
    Ok(x.clone().into())
}

fn clamp(low: &ArrayShape, x: &ArrayShape, high: &ArrayShape) -> Result<Shape, Diagnostic> {
    for bound in [low, high] {
        if bound.rank() != 0 || bound.dtype != x.dtype {
            checks::equal("a bound", bound, x)?;
        }
    }
    Ok(x.clone().into())
}
