//! The result of each opcode.

use super::{
    array::{array, bounds, complex_of, dense, elementwise, is_scalar_of, real_of, scalar, windowed},
    moved::{concatenate, default_layout, fft, gather, pad, permuted},
    operation::Operation,
    product::{convolution, dot, ragged_dot},
    several::{scan, variadic},
};
use crate::hlo::raw::{
    access,
    attr::AttrName,
    module::Computation,
    opcode::Opcode,
    primitive::PrimitiveType,
    shape::{Array, Dimension, Shape, ShapeId, ShapeTable},
};

/// Maximum number of bytes of the text of a tuple shape that is inferred.
const MAX_INFERRED: usize = 1 << 20;

/// The shape of an instruction without one; `None` if it does not follow.
pub(crate) fn shape(operation: &Operation<'_>, shapes: &mut ShapeTable) -> Option<ShapeId> {
    let operands = operation.operands;
    let first = operands.first().copied();
    match operation.opcode {
        Opcode::Tuple => {
            // A tuple of the same tuple twice doubles the text, so that few lines could exhaust memory.
            let bytes: usize = operands.iter().map(|&operand| shapes.text(operand).len()).sum();
            (bytes <= MAX_INFERRED).then(|| shapes.intern(Shape::Tuple(operands.to_vec())))
        }
        Opcode::GetTupleElement => {
            let index: usize = (operation.attr)(AttrName::Index)?.parse().ok()?;
            match shapes.get(first?) {
                Shape::Tuple(elements) => elements.get(index).copied(),
                _ => None,
            }
        }
        Opcode::AddDependency | Opcode::Domain => first,
        Opcode::While => {
            for &(attr, computation) in operation.called {
                let result = operation.result_for(computation, operands, shapes)?;
                let valid = match attr {
                    AttrName::Condition => is_scalar_of(shapes, result, PrimitiveType::Pred),
                    _ => shapes.compatible(result, first?),
                };
                if !valid {
                    return None;
                }
            }
            first
        }
        Opcode::Call => operation.result_for(operation.called.first()?.1, operands, shapes),
        Opcode::Conditional => {
            let branches = operation.called.iter().zip(operands.get(1..)?);
            let result = |((_, branch), argument): (&(_, &Computation), &ShapeId)| {
                operation.result_for(branch, std::slice::from_ref(argument), shapes)
            };
            let results: Vec<ShapeId> = branches.map(result).collect::<Option<_>>()?;
            let first = *results.first()?;
            results.iter().all(|&result| shapes.compatible(first, result)).then_some(first)
        }
        Opcode::Scan => scan(operation, shapes),
        Opcode::Sort | Opcode::Scatter | Opcode::Reduce => variadic(operation, shapes),
        Opcode::BatchNormTraining | Opcode::BatchNormGrad => {
            let scale = *operands.get(1)?;
            Some(shapes.intern(Shape::Tuple(vec![first?, scale, scale])))
        }
        Opcode::Topk => {
            let mut values = array(shapes, first?)?;
            *values.dims.last_mut()? = Dimension::Static((operation.attr)(AttrName::K)?.parse().ok()?);
            let indices = Array { element: PrimitiveType::S32, ..values.clone() };
            let elements = [values, indices].map(|array| shapes.intern(Shape::Array(array)));
            Some(shapes.intern(Shape::Tuple(elements.to_vec())))
        }
        _ => {
            let array = array_result(operation, shapes)?;
            Some(shapes.intern(Shape::Array(array)))
        }
    }
}

/// The result of an opcode that returns one array.
fn array_result(operation: &Operation<'_>, shapes: &ShapeTable) -> Option<Array> {
    use Opcode as O;
    let operand = |index: usize| array(shapes, *operation.operands.get(index)?);
    let ints = |name: AttrName| access::ints((operation.attr)(name)?);
    match operation.opcode {
        O::AfterAll => Some(scalar(PrimitiveType::Token)),
        O::ReplicaId | O::PartitionId => Some(scalar(PrimitiveType::U32)),
        O::GetDimensionSize => Some(scalar(PrimitiveType::S32)),
        O::Compare => {
            Some(Array { element: PrimitiveType::Pred, ..elementwise(&operand(0)?, &operand(1)?)? })
        }
        O::IsFinite => Some(Array { element: PrimitiveType::Pred, ..operand(0)? }),
        O::Complex => {
            let parts = elementwise(&operand(0)?, &operand(1)?)?;
            Some(Array { element: complex_of(parts.element)?, ..parts })
        }
        O::Abs | O::Real | O::Imag => {
            operand(0).map(|array| Array { element: real_of(array.element), ..array })
        }
        O::Select => select(operand(0)?, operand(1)?, &operand(2)?),
        O::Clamp => clamp(&operand(0)?, operand(1)?, &operand(2)?),
        O::TriangularSolve => operand(1),
        O::Broadcast => {
            let mut sizes: Vec<Dimension> = Vec::new();
            for size in ints(AttrName::Dimensions).unwrap_or_default() {
                sizes.push(Dimension::Static(u64::try_from(size).ok()?));
            }
            let operand = operand(0)?;
            sizes.extend(operand.dims);
            Some(dense(operand.element, sizes))
        }
        O::Dot => dot(operation, &operand(0)?, &operand(1)?),
        // Each operand is followed by its scales.
        O::ScaledDot => dot(operation, &operand(0)?, &operand(2)?),
        O::RaggedDot => ragged_dot(operation, &operand(0)?, &operand(1)?, &operand(2)?),
        O::Concatenate => concatenate(operation, shapes),
        O::Pad => pad(operation, operand(0)?),
        O::Transpose => {
            let operand = operand(0)?;
            let order = ints(AttrName::Dimensions)?;
            let dims = order.iter().map(|&dim| operand.dims.get(usize::try_from(dim).ok()?).copied());
            let dims: Vec<Dimension> = dims.collect::<Option<_>>()?;
            let layout = operand.layout.unwrap_or_else(|| default_layout(operand.dims.len()));
            let layout = permuted(&layout, &order);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let is_permutation = sorted.iter().copied().eq(0..operand.dims.len() as i64);
            is_permutation.then_some(Array { element: operand.element, dims, layout })
        }
        O::ReduceWindow => {
            let operand = operand(0)?;
            let window = access::window((operation.attr)(AttrName::Window)?)?;
            let dims = windowed(&operand.dims, &window)?;
            (operation.operands.len() == 2).then(|| dense(operand.element, dims))
        }
        O::Map => {
            let result = array(shapes, operation.result()?)?;
            let operand = operand(0)?;
            let all = ints(AttrName::Dimensions)?.into_iter().eq(0..operand.dims.len() as i64);
            all.then_some(Array { element: result.element, ..operand })
        }
        O::Convolution => convolution(operation, &operand(0)?, &operand(1)?),
        O::Gather => gather(operation, &operand(0)?, &operand(1)?),
        O::Fft => fft(operation, operand(0)?),
        O::SetDimensionSize => {
            let mut operand = operand(0)?;
            for dim in ints(AttrName::Dimensions)? {
                let dim = operand.dims.get_mut(usize::try_from(dim).ok()?)?;
                *dim = Dimension::Bounded(dim.bound()?);
            }
            Some(operand)
        }
        O::SelectAndScatter | O::BatchNormInference => operand(0),
        _ => same(operation, shapes),
    }
}

fn select(predicate: Array, on_true: Array, on_false: &Array) -> Option<Array> {
    let is_scalar = predicate.dims.is_empty();
    let fits = is_scalar || bounds(&predicate) == bounds(&on_true);
    if predicate.element != PrimitiveType::Pred || !fits || bounds(&on_true) != bounds(on_false) {
        return None;
    }
    // The layout is that of an array of predicates.
    Some(if is_scalar { on_true } else { Array { layout: predicate.layout, ..on_true } })
}

fn clamp(min: &Array, value: Array, max: &Array) -> Option<Array> {
    let fits = |bound: &Array| {
        bound.element == value.element && (bound.dims.is_empty() || bounds(bound) == bounds(&value))
    };
    (fits(min) && fits(max)).then_some(value)
}

/// The result of an elementwise opcode or another that keeps the shape of its operands.
fn same(operation: &Operation<'_>, shapes: &ShapeTable) -> Option<Array> {
    use Opcode as O;
    let operand = |index: usize| array(shapes, *operation.operands.get(index)?);
    match operation.opcode {
        O::And | O::Or | O::Xor | O::ShiftLeft | O::ShiftRightArithmetic | O::ShiftRightLogical => {
            let result = elementwise(&operand(0)?, &operand(1)?)?;
            let is_shift = !matches!(operation.opcode, O::And | O::Or | O::Xor);
            let valid = result.element.is_integer() || (!is_shift && result.element == PrimitiveType::Pred);
            valid.then_some(result)
        }
        O::Add
        | O::Atan2
        | O::Divide
        | O::Maximum
        | O::Minimum
        | O::Mulhi
        | O::Multiply
        | O::Power
        | O::Remainder
        | O::Subtract => elementwise(&operand(0)?, &operand(1)?),
        O::Acos
        | O::Acosh
        | O::Asin
        | O::Asinh
        | O::Atanh
        | O::Cbrt
        | O::Ceil
        | O::Cholesky
        | O::Copy
        | O::Cosine
        | O::Cosh
        | O::CountLeadingZeros
        | O::Erf
        | O::Exponential
        | O::ExponentialMinusOne
        | O::Floor
        | O::Log
        | O::LogPlusOne
        | O::Logistic
        | O::Negate
        | O::Not
        | O::Popcnt
        | O::Reverse
        | O::RoundNearestAfz
        | O::RoundNearestEven
        | O::Rsqrt
        | O::Sign
        | O::Sine
        | O::Sinh
        | O::Sqrt
        | O::Tan
        | O::Tanh => operand(0),
        _ => None,
    }
}
