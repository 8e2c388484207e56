//! Shapes that a text leaves out: those for which XLA's parser infers the shape from the operands.

use super::{
    access,
    attr::AttrName,
    opcode::Opcode,
    primitive::PrimitiveType,
    shape::{Array, Dimension, Layout, Shape, ShapeId, ShapeTable},
};

/// What the shape of an instruction follows from.
pub(super) struct Operation<'a> {
    pub opcode: Opcode,
    pub operands: &'a [ShapeId],
    /// The text of an attribute.
    pub attr: &'a dyn Fn(AttrName) -> Option<&'a str>,
    /// Shape of the root of the first called computation.
    pub callee: Option<ShapeId>,
}

/// The shape of an instruction without one; `None` if it does not follow.
pub(super) fn shape(operation: &Operation<'_>, shapes: &mut ShapeTable) -> Option<ShapeId> {
    let operands = operation.operands;
    let first = operands.first().copied();
    match operation.opcode {
        Opcode::Tuple => Some(shapes.intern(Shape::Tuple(operands.to_vec()))),
        Opcode::GetTupleElement => {
            let index: usize = (operation.attr)(AttrName::Index)?.parse().ok()?;
            match shapes.get(first?) {
                Shape::Tuple(elements) => elements.get(index).copied(),
                _ => None,
            }
        }
        Opcode::While | Opcode::AddDependency | Opcode::Domain => first,
        Opcode::Call | Opcode::Conditional => operation.callee,
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
        O::Select => {
            let predicate = operand(0)?;
            let value = operand(1)?;
            // The layout is that of an array of predicates.
            Some(if predicate.dims.is_empty() { value } else { Array { layout: predicate.layout, ..value } })
        }
        O::Clamp | O::TriangularSolve => operand(1),
        O::Broadcast => {
            let mut sizes: Vec<Dimension> = Vec::new();
            for size in ints(AttrName::Dimensions).unwrap_or_default() {
                sizes.push(Dimension::Static(u64::try_from(size).ok()?));
            }
            let operand = operand(0)?;
            sizes.extend(operand.dims);
            Some(dense(operand.element, sizes))
        }
        O::Dot | O::ScaledDot => dot(operation, &operand(0)?, &operand(1)?),
        O::Concatenate => concatenate(operation, shapes),
        O::Pad => pad(operation, operand(0)?),
        O::Transpose => {
            let operand = operand(0)?;
            let order = ints(AttrName::Dimensions)?;
            let dims = order.iter().map(|&dim| operand.dims.get(usize::try_from(dim).ok()?).copied());
            let dims: Vec<Dimension> = dims.collect::<Option<_>>()?;
            let layout = operand.layout.and_then(|layout| permuted(&layout, &order));
            (dims.len() == operand.dims.len()).then_some(Array { element: operand.element, dims, layout })
        }
        O::ReduceWindow => {
            let operand = operand(0)?;
            let window = access::window((operation.attr)(AttrName::Window)?)?;
            let dims = windowed(&operand.dims, &window)?;
            (operation.operands.len() == 2).then(|| dense(operand.element, dims))
        }
        O::Map => {
            let callee = array(shapes, operation.callee?)?;
            Some(Array { element: callee.element, ..operand(0)? })
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

/// The result of an elementwise opcode or another that keeps the shape of its operands.
fn same(operation: &Operation<'_>, shapes: &ShapeTable) -> Option<Array> {
    use Opcode as O;
    let operand = |index: usize| array(shapes, *operation.operands.get(index)?);
    match operation.opcode {
        O::Add
        | O::And
        | O::Atan2
        | O::Divide
        | O::Maximum
        | O::Minimum
        | O::Multiply
        | O::Or
        | O::Power
        | O::Remainder
        | O::ShiftLeft
        | O::ShiftRightArithmetic
        | O::ShiftRightLogical
        | O::Subtract
        | O::Xor => elementwise(&operand(0)?, &operand(1)?),
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
        | O::OptBarrier
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

/// The results of opcodes over several arrays: one array, or a tuple of them.
fn variadic(operation: &Operation<'_>, shapes: &mut ShapeTable) -> Option<ShapeId> {
    let operands = operation.operands;
    let results: Vec<ShapeId> = match operation.opcode {
        Opcode::Sort => operands.to_vec(),
        // Inputs, indices, updates.
        Opcode::Scatter => operands[..operands.len() / 2].to_vec(),
        _ => {
            let (inputs, initial) = operands.split_at(operands.len() / 2);
            let reduced = access::ints((operation.attr)(AttrName::Dimensions)?)?;
            let mut results = Vec::new();
            for (&input, &initial) in inputs.iter().zip(initial) {
                let element = array(shapes, initial)?.element;
                let dims = array(shapes, input)?.dims;
                let kept = dims.iter().enumerate().filter(|&(dim, _)| !reduced.contains(&(dim as i64)));
                let result = dense(element, kept.map(|(_, &size)| size).collect());
                results.push(shapes.intern(Shape::Array(result)));
            }
            results
        }
    };
    match results[..] {
        [] => None,
        [one] => Some(one),
        _ => Some(shapes.intern(Shape::Tuple(results))),
    }
}

fn array(shapes: &ShapeTable, id: ShapeId) -> Option<Array> {
    match shapes.get(id) {
        Shape::Array(array) => Some(array.clone()),
        _ => None,
    }
}

fn scalar(element: PrimitiveType) -> Array {
    dense(element, vec![])
}

/// An array with the default layout.
fn dense(element: PrimitiveType, dims: Vec<Dimension>) -> Array {
    Array { element, dims, layout: None }
}

/// The result of an elementwise opcode with two operands: sizes of one and scalars are broadcast.
fn elementwise(lhs: &Array, rhs: &Array) -> Option<Array> {
    let element = if rhs.element.bits() > lhs.element.bits() { rhs.element } else { lhs.element };
    match (lhs.dims.len(), rhs.dims.len()) {
        (_, 0) => return Some(Array { element, ..lhs.clone() }),
        (0, _) => return Some(Array { element, ..rhs.clone() }),
        (lhs, rhs) if lhs != rhs => return None,
        _ => {}
    }
    let dim = |(&lhs, &rhs): (&Dimension, &Dimension)| match (lhs.bound(), rhs.bound()) {
        (a, b) if a == b => Some(if matches!(rhs, Dimension::Bounded(_)) { rhs } else { lhs }),
        (_, Some(1)) => Some(lhs),
        (Some(1), _) => Some(rhs),
        _ => None,
    };
    let dims: Vec<Dimension> = lhs.dims.iter().zip(&rhs.dims).map(dim).collect::<Option<_>>()?;
    Some(Array { element, dims, layout: lhs.layout.clone() })
}

fn complex_of(element: PrimitiveType) -> Option<PrimitiveType> {
    match element {
        PrimitiveType::F32 => Some(PrimitiveType::C64),
        PrimitiveType::F64 => Some(PrimitiveType::C128),
        _ => None,
    }
}

fn real_of(element: PrimitiveType) -> PrimitiveType {
    match element {
        PrimitiveType::C64 => PrimitiveType::F32,
        PrimitiveType::C128 => PrimitiveType::F64,
        other => other,
    }
}

/// Batch dimensions, the rest of the left operand, the rest of the right one.
fn dot(operation: &Operation<'_>, lhs: &Array, rhs: &Array) -> Option<Array> {
    let ints = |name: AttrName| match (operation.attr)(name) {
        Some(text) => access::ints(text),
        None => Some(vec![]),
    };
    let rest = |array: &Array, batch: &[i64], contracting: &[i64]| {
        let kept = array.dims.iter().enumerate().filter(|(dim, _)| {
            let dim = *dim as i64;
            !batch.contains(&dim) && !contracting.contains(&dim)
        });
        kept.map(|(_, &size)| size).collect::<Vec<_>>()
    };
    let lhs_batch = ints(AttrName::LhsBatchDims)?;
    let batch = lhs_batch.iter().map(|&dim| lhs.dims.get(usize::try_from(dim).ok()?).copied());
    let mut dims: Vec<Dimension> = batch.collect::<Option<_>>()?;
    dims.extend(rest(lhs, &lhs_batch, &ints(AttrName::LhsContractingDims)?));
    dims.extend(rest(rhs, &ints(AttrName::RhsBatchDims)?, &ints(AttrName::RhsContractingDims)?));
    let element = if rhs.element.bits() > lhs.element.bits() { rhs.element } else { lhs.element };
    Some(dense(element, dims))
}

fn concatenate(operation: &Operation<'_>, shapes: &ShapeTable) -> Option<Array> {
    let dim = usize::try_from(*access::ints((operation.attr)(AttrName::Dimensions)?)?.first()?).ok()?;
    let (first, rest) = operation.operands.split_first()?;
    let mut result = array(shapes, *first)?;
    let mut size = result.dims.get(dim)?.bound()?;
    for &operand in rest {
        size = size.checked_add(array(shapes, operand)?.dims.get(dim)?.bound()?)?;
    }
    result.dims[dim] = Dimension::Static(size);
    Some(dense(result.element, result.dims))
}

fn pad(operation: &Operation<'_>, operand: Array) -> Option<Array> {
    let padding = access::padding((operation.attr)(AttrName::Padding)?)?;
    if padding.len() != operand.dims.len() {
        return None;
    }
    let size = |(dim, [low, high, interior]): (&Dimension, [i64; 3])| {
        let size = i64::try_from(dim.bound()?).ok()?;
        let gaps = interior.checked_mul((size - 1).max(0))?;
        let size = size.checked_add(low)?.checked_add(high)?.checked_add(gaps)?;
        Some(Dimension::Static(u64::try_from(size).ok()?))
    };
    let dims: Vec<Dimension> = operand.dims.iter().zip(padding).map(size).collect::<Option<_>>()?;
    Some(dense(operand.element, dims))
}

/// The layout of a transposed array: the elements stay where they are.
fn permuted(layout: &Layout, order: &[i64]) -> Option<Layout> {
    let moved = |&dim: &u32| order.iter().position(|&from| from == i64::from(dim)).map(|dim| dim as u32);
    let minor_to_major = layout.minor_to_major.iter().map(moved).collect::<Option<_>>()?;
    Some(Layout { minor_to_major, ..layout.clone() })
}

fn windowed(dims: &[Dimension], window: &[access::WindowDim]) -> Option<Vec<Dimension>> {
    if dims.len() != window.len() {
        return None;
    }
    let positions = |(dim, window): (&Dimension, &access::WindowDim)| {
        window.positions(dim.bound()?).map(Dimension::Static)
    };
    dims.iter().zip(window).map(positions).collect()
}

fn convolution(operation: &Operation<'_>, input: &Array, kernel: &Array) -> Option<Array> {
    let labels = access::dim_labels((operation.attr)(AttrName::DimLabels)?)?;
    let window = (operation.attr)(AttrName::Window).map_or(Some(vec![]), access::window)?;
    let groups: u64 =
        (operation.attr)(AttrName::BatchGroupCount).map_or(Some(1), |count| count.parse().ok())?;
    let spatial = |array: &Array, dims: &[usize]| {
        dims.iter().map(|&dim| array.dims.get(dim).copied()).collect::<Option<Vec<_>>>()
    };
    let spatial = windowed(&spatial(input, &labels.input.spatial)?, &window)?;
    let batch = input.dims.get(labels.input.batch)?.bound()?.checked_div(groups)?;
    let mut dims = vec![Dimension::Static(batch); 2 + spatial.len()];
    *dims.get_mut(labels.output.feature)? = *kernel.dims.get(labels.kernel.feature)?;
    for (&position, size) in labels.output.spatial.iter().zip(spatial) {
        *dims.get_mut(position)? = size;
    }
    Some(dense(input.element, dims))
}

fn gather(operation: &Operation<'_>, operand: &Array, indices: &Array) -> Option<Array> {
    let ints = |name: AttrName| (operation.attr)(name).map_or(Some(vec![]), access::ints);
    let (collapsed, batching) = (ints(AttrName::CollapsedSliceDims)?, ints(AttrName::OperandBatchingDims)?);
    let vector: usize = (operation.attr)(AttrName::IndexVectorDim)?.parse().ok()?;
    let sizes = ints(AttrName::SliceSizes)?.into_iter().enumerate();
    let offsets = ints(AttrName::OffsetDims)?;
    let mut window = sizes.filter(|(dim, _)| {
        let dim = *dim as i64;
        !collapsed.contains(&dim) && !batching.contains(&dim)
    });
    let mut batch = indices.dims.iter().enumerate().filter(|&(dim, _)| dim != vector);
    let rank = offsets.len() + indices.dims.len() - usize::from(vector < indices.dims.len());
    let size = |dim: usize| {
        if offsets.contains(&(dim as i64)) {
            window.next().and_then(|(_, size)| u64::try_from(size).ok()).map(Dimension::Static)
        } else {
            batch.next().map(|(_, &size)| size)
        }
    };
    Some(dense(operand.element, (0..rank).map(size).collect::<Option<_>>()?))
}

fn fft(operation: &Operation<'_>, mut operand: Array) -> Option<Array> {
    let length = access::ints((operation.attr)(AttrName::FftLength)?)?;
    let last = u64::try_from(*length.last()?).ok()?;
    match (operation.attr)(AttrName::FftType)? {
        // Of a real input the second half of the spectrum mirrors the first.
        "RFFT" => {
            operand.element = complex_of(operand.element)?;
            *operand.dims.last_mut()? = Dimension::Static(if last == 0 { 0 } else { last / 2 + 1 });
        }
        "IRFFT" => {
            operand.element = real_of(operand.element);
            *operand.dims.last_mut()? = Dimension::Static(last);
        }
        _ => {}
    }
    Some(operand)
}
