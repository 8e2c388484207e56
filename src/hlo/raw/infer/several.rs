//! Opcodes that work on several arrays at once.

use super::{
    array::{array, dense},
    operation::Operation,
};
use crate::hlo::raw::{
    access,
    attr::AttrName,
    opcode::Opcode,
    shape::{Shape, ShapeId, ShapeTable},
};

/// The results of opcodes over several arrays: one array, or a tuple of them.
pub(super) fn variadic(operation: &Operation<'_>, shapes: &mut ShapeTable) -> Option<ShapeId> {
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
                if reduced.iter().any(|&dim| dim < 0 || dim >= dims.len() as i64) {
                    return None;
                }
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

/// What each step returns, stacked along the dimension, and then the carries.
pub(super) fn scan(operation: &Operation<'_>, shapes: &mut ShapeTable) -> Option<ShapeId> {
    let dim = usize::try_from(*access::ints((operation.attr)(AttrName::Dimensions)?)?.first()?).ok()?;
    let carries: usize = (operation.attr)(AttrName::NumCarries)?.parse().ok()?;
    let inputs = operation.operands.len().checked_sub(carries)?;
    let length = *array(shapes, *operation.operands[..inputs].first()?)?.dims.get(dim)?;
    let result = operation.result()?;
    let (mut results, is_tuple) = match shapes.get(result) {
        Shape::Tuple(elements) => (elements.clone(), true),
        _ => (vec![result], false),
    };
    let outputs = results.len().checked_sub(carries)?;
    for output in &mut results[..outputs] {
        let mut stacked = array(shapes, *output)?;
        if dim > stacked.dims.len() {
            return None;
        }
        stacked.dims.insert(dim, length);
        stacked.layout = None;
        *output = shapes.intern(Shape::Array(stacked));
    }
    if is_tuple { Some(shapes.intern(Shape::Tuple(results))) } else { results.first().copied() }
}
