//! Result shapes. One function serves the builder, the parser and the verifier, so that they cannot disagree.
//! The rules are those of XLA's operation semantics and `shape_inference.cc`.

use super::{Attrs, CompId, Computation, DotDims, GatherDims, Opcode, PadDim, ScatterDims, ShapeRule};
use crate::base::{ArrayShape, DType, Shape};

/// The largest stride, and padding at an edge: XLA adds several of them in 64 bits and aborts where that overflows.
const MAX_STEP: usize = 1 << 60;

/// Arrays and tuples in one value; more are no use, and tuples of tuples grow without bound.
const MAX_PARTS: usize = 1 << 16;

/// The shape of the result of `opcode` applied to values of the shapes `operands`.
///
/// Some results cannot be known from the operands (parameters, `convert`, `reshape` ...): for those `declared` gives
/// the shape, and is checked as far as it can be. `computations` are those that `attrs` may refer to.
///
/// # Errors
/// A sentence that says what was found and what was expected.
pub fn infer(
    opcode: Opcode,
    operands: &[&Shape],
    attrs: &Attrs,
    declared: Option<&Shape>,
    computations: &[Computation],
) -> Result<Shape, String> {
    if attrs.attrs_kind() != opcode.attrs_kind() {
        return Err(format!(
            "expected attributes of the form {:?}, found {:?}",
            opcode.attrs_kind(),
            attrs.attrs_kind()
        ));
    }
    if let Some(arity) = opcode.arity()
        && arity != operands.len()
    {
        return Err(format!("expected {arity} operands, found {}", operands.len()));
    }
    match opcode.shape_rule() {
        ShapeRule::UnaryFloat => unary(operands, "a floating-point type", DType::is_float),
        ShapeRule::UnaryNumeric => unary(operands, "a numeric type", |t| t != DType::Pred),
        ShapeRule::UnaryLogical => unary(operands, "an integer or boolean type", |t| !t.is_float()),
        ShapeRule::BinaryAny => binary(operands, "any type", |_| true),
        ShapeRule::BinaryNumeric => binary(operands, "a numeric type", |t| t != DType::Pred),
        ShapeRule::BinaryLogical => binary(operands, "an integer or boolean type", |t| !t.is_float()),
        ShapeRule::Own => own(opcode, operands, attrs, declared, computations),
    }
}

fn own(
    opcode: Opcode,
    operands: &[&Shape],
    attrs: &Attrs,
    declared: Option<&Shape>,
    computations: &[Computation],
) -> Result<Shape, String> {
    let declared = || declared.cloned().ok_or_else(|| "the result shape must be declared".to_owned());
    match (opcode, attrs) {
        (Opcode::Parameter, _) => declared(),
        (_, Attrs::CustomCall(call)) => {
            let shape = declared()?;
            expect_known_call(&call.target, operands, &shape)?;
            Ok(shape)
        }
        (_, Attrs::Constant(literal)) => {
            let shape = literal.shape();
            let rows = shape.dims.iter().take_while(|&&size| size != 0);
            if shape.elements() == 0 && rows.fold(1, |n: usize, &size| n.saturating_mul(size)) > MAX_PARTS {
                return Err(format!(
                    "expected at most {MAX_PARTS} rows in a constant without elements: {shape}"
                ));
            }
            Ok(shape.clone().into())
        }
        (_, Attrs::Iota(dim)) => {
            let shape = array_of(&declared()?)?.clone();
            expect_type(&shape, "a numeric type", |t| t != DType::Pred)?;
            in_range(*dim, shape.rank())?;
            Ok(shape.into())
        }
        (Opcode::IsFinite, _) => {
            let x = array(operands, 0)?;
            expect_type(x, "a floating-point type", DType::is_float)?;
            Ok(x.with_dtype(DType::Pred).into())
        }
        (Opcode::Convert, _) => same_dims(array(operands, 0)?, declared()?),
        (Opcode::BitcastConvert, _) => {
            let x = array(operands, 0)?;
            let shape = same_dims(x, declared()?)?;
            let to = array_of(&shape)?.dtype;
            if to.bits() != x.dtype.bits() {
                return Err(format!("expected an element type of {} bits, found {to}", x.dtype.bits()));
            }
            Ok(shape)
        }
        (_, Attrs::Compare(_)) => {
            let (x, y) = (array(operands, 0)?, array(operands, 1)?);
            expect_equal("the second operand", y, x)?;
            Ok(x.with_dtype(DType::Pred).into())
        }
        (Opcode::Select, _) => {
            let (condition, x, y) = (array(operands, 0)?, array(operands, 1)?, array(operands, 2)?);
            expect_equal("the condition", condition, &x.with_dtype(DType::Pred))?;
            expect_equal("the third operand", y, x)?;
            Ok(x.clone().into())
        }
        (Opcode::Clamp, _) => {
            let (low, x, high) = (array(operands, 0)?, array(operands, 1)?, array(operands, 2)?);
            for bound in [low, high] {
                if bound.rank() != 0 || bound.dtype != x.dtype {
                    expect_equal("a bound", bound, x)?;
                }
            }
            Ok(x.clone().into())
        }
        (Opcode::Reshape, _) => {
            let x = array(operands, 0)?;
            let shape = declared()?;
            let to = array_of(&shape)?;
            if to.dtype != x.dtype || to.elements() != x.elements() {
                return Err(format!("cannot reshape {x} to {to}"));
            }
            Ok(shape)
        }
        (_, Attrs::Dims(dims)) => dims_op(opcode, operands, dims, declared),
        (_, Attrs::Slice(ranges)) => {
            let x = array(operands, 0)?;
            expect_len("slice ranges", ranges.len(), x.rank())?;
            let mut sizes = Vec::with_capacity(x.rank());
            for (range, &size) in ranges.iter().zip(&x.dims) {
                if !(1..=MAX_STEP).contains(&range.stride) || range.start > range.limit || range.limit > size
                {
                    return Err(format!(
                        "slice [{}:{}:{}] does not lie in a dimension of size {size}",
                        range.start, range.limit, range.stride
                    ));
                }
                sizes.push((range.limit - range.start).div_ceil(range.stride));
            }
            Ok(Shape::array(x.dtype, sizes))
        }
        (_, Attrs::DynamicSlice(sizes)) => {
            let x = array(operands, 0)?;
            expect_len("slice sizes", sizes.len(), x.rank())?;
            expect_starts(&operands[1..], x.rank())?;
            expect_fits("slice", sizes, &x.dims)?;
            Ok(Shape::array(x.dtype, sizes.clone()))
        }
        (Opcode::DynamicUpdateSlice, _) => {
            let (x, update) = (array(operands, 0)?, array(operands, 1)?);
            expect_len("update dimensions", update.rank(), x.rank())?;
            expect_starts(&operands[2..], x.rank())?;
            expect_fits("update", &update.dims, &x.dims)?;
            expect_equal("the element type of the update", update.dtype, x.dtype)?;
            Ok(x.clone().into())
        }
        (_, Attrs::Pad(edges)) => {
            let (x, value) = (array(operands, 0)?, array(operands, 1)?);
            expect_equal("the padding value", value, &ArrayShape::scalar(x.dtype))?;
            expect_len("padded dimensions", edges.len(), x.rank())?;
            // HLO text has no way to write the padding of a scalar.
            in_range(0, x.rank())?;
            let mut sizes = Vec::with_capacity(x.rank());
            for (edge, &size) in edges.iter().zip(&x.dims) {
                let PadDim { low, high, interior } = *edge;
                if low.unsigned_abs().max(high.unsigned_abs()) > MAX_STEP as u64 {
                    return Err(format!("expected padding of at most {MAX_STEP}, found {low}_{high}"));
                }
                if interior > u32::MAX as usize {
                    return Err(format!("expected interior padding below 2^32, found {interior}"));
                }
                let inner = size.saturating_sub(1).saturating_mul(edge.interior).saturating_add(size);
                let padded =
                    i64::try_from(inner).ok().and_then(|n| n.checked_add(edge.low)?.checked_add(edge.high));
                let padded = padded.and_then(|n| usize::try_from(n).ok());
                sizes.push(padded.ok_or_else(|| {
                    format!("padding {}_{} leaves nothing of a dimension of size {size}", edge.low, edge.high)
                })?);
            }
            Ok(Shape::array(x.dtype, sizes))
        }
        (_, Attrs::Reduce { dims, to_apply }) => {
            let (x, init) = (array(operands, 0)?, array(operands, 1)?);
            expect_equal("the initial value", init, &ArrayShape::scalar(x.dtype))?;
            expect_distinct(dims, x.rank())?;
            expect_reducer(called(computations, *to_apply)?, x.dtype)?;
            Ok(Shape::array(x.dtype, without(&x.dims, dims)))
        }
        (_, Attrs::Dot(dims)) => dot(array(operands, 0)?, array(operands, 1)?, dims, declared().ok()),
        (_, Attrs::Gather(dims)) => gather(array(operands, 0)?, array(operands, 1)?, dims),
        (_, Attrs::Scatter { dims, to_apply }) => {
            let (x, indices, updates) = (array(operands, 0)?, array(operands, 1)?, array(operands, 2)?);
            expect_reducer(called(computations, *to_apply)?, x.dtype)?;
            scatter(x, indices, updates, dims)
        }
        (Opcode::Tuple, _) if operands.iter().map(|shape| shape.parts()).sum::<usize>() > MAX_PARTS => {
            Err(format!("expected at most {MAX_PARTS} arrays and tuples in a tuple, found more"))
        }
        (Opcode::Tuple, _) => Ok(Shape::Tuple(operands.iter().map(|&shape| shape.clone()).collect())),
        (_, Attrs::TupleIndex(index)) => match operands[0].as_tuple() {
            Some(elements) => elements
                .get(*index)
                .cloned()
                .ok_or_else(|| format!("expected an index below {}, found {index}", elements.len())),
            None => Err(format!("expected a tuple, found {}", operands[0])),
        },
        (_, Attrs::Call(callee)) => {
            let callee = called(computations, *callee)?;
            expect_arguments(callee, operands)?;
            Ok(callee.result().clone())
        }
        (_, Attrs::While { condition, body }) => {
            let (condition, body) = (called(computations, *condition)?, called(computations, *body)?);
            expect_arguments(condition, operands)?;
            expect_arguments(body, operands)?;
            expect_equal("the result of the condition", condition.result(), &Shape::scalar(DType::Pred))?;
            expect_equal("the result of the body", body.result(), operands[0])?;
            Ok(operands[0].clone())
        }
        (Opcode::OptimizationBarrier, _) => Ok(operands[0].clone()),
        // Every other opcode has a class or an attribute form above.
        _ => Err(format!("no shape rule for {opcode}")),
    }
}

fn dims_op(
    opcode: Opcode,
    operands: &[&Shape],
    dims: &[usize],
    declared: impl Fn() -> Result<Shape, String>,
) -> Result<Shape, String> {
    let x = array(operands, 0)?;
    match opcode {
        Opcode::Broadcast => {
            let shape = declared()?;
            let to = array_of(&shape)?;
            expect_len("broadcast dimensions", dims.len(), x.rank())?;
            expect_equal("the element type of the result", to.dtype, x.dtype)?;
            expect_ascending(dims, to.rank())?;
            for (pair, &dim) in dims.iter().enumerate() {
                if to.dims[dim] != x.dims[pair] {
                    return Err(format!("cannot broadcast {x} along {dims:?} to {to}"));
                }
            }
            Ok(shape)
        }
        Opcode::Transpose => {
            expect_len("permuted dimensions", dims.len(), x.rank())?;
            expect_distinct(dims, x.rank())?;
            Ok(Shape::array(x.dtype, dims.iter().map(|&dim| x.dims[dim]).collect::<Vec<_>>()))
        }
        Opcode::Concatenate => {
            let &[dim] = dims else { return Err(format!("expected one dimension, found {dims:?}")) };
            in_range(dim, x.rank())?;
            let mut joined = x.clone();
            joined.dims[dim] = 0;
            for index in 0..operands.len() {
                let mut part = array(operands, index)?.clone();
                let size = part.dims.get_mut(dim).map(std::mem::take);
                let empty = ArrayShape { dtype: joined.dtype, dims: zero_at(&joined.dims, dim) };
                expect_equal("a part, but for the joined dimension,", &part, &empty)?;
                joined.dims[dim] = joined.dims[dim].saturating_add(size.unwrap_or(0));
            }
            Ok(joined.into())
        }
        _ => {
            expect_distinct(dims, x.rank())?;
            Ok(x.clone().into())
        }
    }
}

fn dot(x: &ArrayShape, y: &ArrayShape, dims: &DotDims, declared: Option<Shape>) -> Result<Shape, String> {
    expect_len("right batch dimensions", dims.rhs_batch.len(), dims.lhs_batch.len())?;
    expect_len("right contracting dimensions", dims.rhs_contracting.len(), dims.lhs_contracting.len())?;
    let bound = |batch: &[usize], contracting: &[usize]| [batch, contracting].concat();
    let lhs_bound = bound(&dims.lhs_batch, &dims.lhs_contracting);
    let rhs_bound = bound(&dims.rhs_batch, &dims.rhs_contracting);
    expect_distinct(&lhs_bound, x.rank())?;
    expect_distinct(&rhs_bound, y.rank())?;
    for (&i, &j) in lhs_bound.iter().zip(&rhs_bound) {
        if x.dims[i] != y.dims[j] {
            return Err(format!("cannot pair dimension {i} of {x} with dimension {j} of {y}"));
        }
    }
    let batch = dims.lhs_batch.iter().map(|&dim| x.dims[dim]);
    let free = without(&x.dims, &lhs_bound).into_iter().chain(without(&y.dims, &rhs_bound));
    let result = ArrayShape::new(x.dtype, batch.chain(free).collect::<Vec<_>>());
    // A wider result type asks for accumulation in that type; nothing else may differ.
    let dtype = match declared {
        Some(shape) => array_of(&shape)?.dtype,
        None => x.dtype,
    };
    let wider = dtype.bits() > x.dtype.bits()
        && dtype.is_float() == x.dtype.is_float()
        && dtype.is_signed() == x.dtype.is_signed();
    if dtype != x.dtype && !wider {
        return Err(format!("cannot accumulate products of {} in {dtype}", x.dtype));
    }
    expect_equal("the element type of the right operand", y.dtype, x.dtype)?;
    Ok(result.with_dtype(dtype).into())
}

fn gather(x: &ArrayShape, indices: &ArrayShape, dims: &GatherDims) -> Result<Shape, String> {
    expect_type(indices, "an integer type", DType::is_integer)?;
    expect_len("slice sizes", dims.slice_sizes.len(), x.rank())?;
    expect_fits("slice", &dims.slice_sizes, &x.dims)?;
    expect_ascending(&dims.collapsed_slice_dims, x.rank())?;
    expect_distinct(&dims.start_index_map, x.rank())?;
    if let Some(dim) = dims.collapsed_slice_dims.iter().find(|&&dim| dims.slice_sizes[dim] != 1) {
        return Err(format!("expected a slice of size 1 along collapsed dimension {dim}"));
    }
    let batch = index_batch(indices, dims.index_vector_dim, dims.start_index_map.len())?;
    let window = without(&dims.slice_sizes, &dims.collapsed_slice_dims);
    expect_len("offset dimensions", dims.offset_dims.len(), window.len())?;
    let rank = batch.len() + window.len();
    expect_ascending(&dims.offset_dims, rank)?;
    let (mut batch, mut window) = (batch.into_iter(), window.into_iter());
    let sizes = (0..rank)
        .filter_map(|dim| if dims.offset_dims.contains(&dim) { window.next() } else { batch.next() });
    Ok(Shape::array(x.dtype, sizes.collect::<Vec<_>>()))
}

fn scatter(
    x: &ArrayShape,
    indices: &ArrayShape,
    updates: &ArrayShape,
    dims: &ScatterDims,
) -> Result<Shape, String> {
    expect_type(indices, "an integer type", DType::is_integer)?;
    expect_equal("the element type of the updates", updates.dtype, x.dtype)?;
    expect_ascending(&dims.inserted_window_dims, x.rank())?;
    expect_distinct(&dims.scatter_dims_to_operand_dims, x.rank())?;
    expect_ascending(&dims.update_window_dims, updates.rank())?;
    let window = without(&x.dims, &dims.inserted_window_dims);
    expect_len("window dimensions", dims.update_window_dims.len(), window.len())?;
    let sizes: Vec<usize> = dims.update_window_dims.iter().map(|&dim| updates.dims[dim]).collect();
    expect_fits("window", &sizes, &window)?;
    let batch = index_batch(indices, dims.index_vector_dim, dims.scatter_dims_to_operand_dims.len())?;
    let scattered = without(&updates.dims, &dims.update_window_dims);
    if scattered != batch {
        return Err(format!("expected updates over {batch:?}, found {scattered:?}"));
    }
    Ok(x.clone().into())
}

/// The sizes of the indices without the dimension that holds the `components` of one index.
fn index_batch(indices: &ArrayShape, vector_dim: usize, components: usize) -> Result<Vec<usize>, String> {
    let held = if vector_dim == indices.rank() {
        1
    } else {
        in_range(vector_dim, indices.rank())?;
        indices.dims[vector_dim]
    };
    if held != components {
        return Err(format!("expected {components} components in an index, found {held}"));
    }
    Ok(without(&indices.dims, &[vector_dim]))
}

fn unary(operands: &[&Shape], kind: &str, accepts: impl Fn(DType) -> bool) -> Result<Shape, String> {
    let x = array(operands, 0)?;
    expect_type(x, kind, accepts)?;
    Ok(x.clone().into())
}

fn binary(operands: &[&Shape], kind: &str, accepts: impl Fn(DType) -> bool) -> Result<Shape, String> {
    let (x, y) = (array(operands, 0)?, array(operands, 1)?);
    expect_type(x, kind, accepts)?;
    expect_equal("the second operand", y, x)?;
    Ok(x.clone().into())
}

fn array_of(shape: &Shape) -> Result<&ArrayShape, String> {
    shape.as_array().ok_or_else(|| format!("expected an array, found {shape}"))
}

fn array<'a>(operands: &[&'a Shape], index: usize) -> Result<&'a ArrayShape, String> {
    let shape = operands.get(index).ok_or_else(|| format!("operand {index} is missing"))?;
    array_of(shape)
}

fn called(computations: &[Computation], id: CompId) -> Result<&Computation, String> {
    computations.get(id.index()).ok_or_else(|| format!("calls {id:?}, which does not come earlier"))
}

fn expect_equal<T: PartialEq + std::fmt::Display>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {what} to be {expected}, found {found}")) }
}

fn expect_len(what: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected} {what}, found {found}")) }
}

fn expect_type(x: &ArrayShape, kind: &str, accepts: impl Fn(DType) -> bool) -> Result<(), String> {
    if accepts(x.dtype) { Ok(()) } else { Err(format!("expected {kind}, found {}", x.dtype)) }
}

fn expect_fits(what: &str, sizes: &[usize], bounds: &[usize]) -> Result<(), String> {
    if sizes.iter().zip(bounds).all(|(size, bound)| size <= bound) {
        return Ok(());
    }
    Err(format!("a {what} of sizes {sizes:?} does not fit into {bounds:?}"))
}

fn expect_starts(starts: &[&Shape], rank: usize) -> Result<(), String> {
    expect_len("start indices", starts.len(), rank)?;
    let is_index = |shape: &Shape| shape.as_array().is_some_and(|s| s.rank() == 0 && s.dtype.is_integer());
    if let Some(start) = starts.iter().find(|shape| !is_index(shape)) {
        return Err(format!("expected an integer scalar as a start index, found {start}"));
    }
    match starts.iter().find(|&&start| start != starts[0]) {
        Some(start) => Err(format!("expected start indices of one type, found {} and {start}", starts[0])),
        None => Ok(()),
    }
}

fn expect_distinct(dims: &[usize], rank: usize) -> Result<(), String> {
    for (i, &dim) in dims.iter().enumerate() {
        in_range(dim, rank)?;
        if dims[..i].contains(&dim) {
            return Err(format!("dimension {dim} is named twice: {dims:?}"));
        }
    }
    Ok(())
}

fn expect_ascending(dims: &[usize], rank: usize) -> Result<(), String> {
    expect_distinct(dims, rank)?;
    if dims.is_sorted() { Ok(()) } else { Err(format!("expected ascending dimensions, found {dims:?}")) }
}

fn expect_reducer(fold: &Computation, dtype: DType) -> Result<(), String> {
    // XLA's CPU compiler aborts on calls into a platform's own operations here, and refuses loops.
    let own = |opcode: Opcode| matches!(opcode, Opcode::CustomCall | Opcode::While);
    if let Some(instr) = fold.instrs.iter().find(|instr| own(instr.opcode)) {
        return Err(format!(
            "expected no {} in the folding computation, found `{}`",
            instr.opcode, instr.name
        ));
    }
    let scalar = Shape::scalar(dtype);
    expect_arguments(fold, &[&scalar, &scalar])?;
    expect_equal("the result of the folding computation", fold.result(), &scalar)
}

/// Custom calls that XLA's own passes take apart; it aborts on those with other operands or results.
fn expect_known_call(target: &str, operands: &[&Shape], result: &Shape) -> Result<(), String> {
    let wanted = match target {
        "PadToStatic" | "SliceToDynamic" => {
            return Err("only sizes known when the module is built are supported".to_owned());
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
            return Err(format!("expected no call that only XLA itself makes, found {target}"));
        }
        _ => return Ok(()),
    };
    expect_len("operands", operands.len(), wanted)?;
    match target {
        "LayoutConstraint" => array_of(operands[0]).and(array_of(result)).map(drop),
        "TopK" if result.as_tuple().is_none_or(|elements| elements.len() != 2) => {
            Err(format!("expected values and indices as the result, found {result}"))
        }
        _ => Ok(()),
    }
}

fn expect_arguments(callee: &Computation, operands: &[&Shape]) -> Result<(), String> {
    let parameters = callee.parameter_shapes();
    if parameters.len() != operands.len() {
        let (name, wanted) = (&callee.name, parameters.len());
        return Err(format!("`{name}` takes {wanted} arguments, found {}", operands.len()));
    }
    for (number, (&found, &wanted)) in operands.iter().zip(&parameters).enumerate() {
        if found != wanted {
            return Err(format!("argument {number} of `{}` is {wanted}, found {found}", callee.name));
        }
    }
    Ok(())
}

fn in_range(dim: usize, rank: usize) -> Result<(), String> {
    if dim < rank { Ok(()) } else { Err(format!("expected a dimension below {rank}, found {dim}")) }
}

fn same_dims(x: &ArrayShape, declared: Shape) -> Result<Shape, String> {
    let dtype = array_of(&declared)?.dtype;
    expect_equal("the result", &declared, &x.with_dtype(dtype).into())?;
    Ok(declared)
}

fn without(dims: &[usize], removed: &[usize]) -> Vec<usize> {
    dims.iter().enumerate().filter(|(i, _)| !removed.contains(i)).map(|(_, &dim)| dim).collect()
}

fn zero_at(dims: &[usize], dim: usize) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims[dim] = 0;
    dims
}
