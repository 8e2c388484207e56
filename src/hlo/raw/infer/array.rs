//! Shapes of arrays, and which of them go together.

use crate::hlo::raw::{
    access,
    primitive::PrimitiveType,
    shape::{Array, Dimension, Shape, ShapeId, ShapeTable},
};

pub(super) fn array(shapes: &ShapeTable, id: ShapeId) -> Option<Array> {
    match shapes.get(id) {
        Shape::Array(array) => Some(array.clone()),
        _ => None,
    }
}

pub(super) fn scalar(element: PrimitiveType) -> Array {
    dense(element, vec![])
}

/// An array with the default layout.
pub(super) fn dense(element: PrimitiveType, dims: Vec<Dimension>) -> Array {
    Array { element, dims, layout: None }
}

/// The sizes of the dimensions, or their bounds.
pub(super) fn bounds(array: &Array) -> Vec<Option<u64>> {
    array.dims.iter().map(|dim| dim.bound()).collect()
}

pub(super) fn is_scalar_of(shapes: &ShapeTable, shape: ShapeId, element: PrimitiveType) -> bool {
    array(shapes, shape).is_some_and(|array| array.element == element && array.dims.is_empty())
}

/// Whether XLA lets an opcode have operands of both types: equal ones, or two of floating point.
pub(super) fn mixable(lhs: &Array, rhs: &Array) -> bool {
    lhs.element == rhs.element || (lhs.element.is_float() && rhs.element.is_float())
}

/// The result of an elementwise opcode with two operands: sizes of one and scalars are broadcast.
pub(super) fn elementwise(lhs: &Array, rhs: &Array) -> Option<Array> {
    if !mixable(lhs, rhs) {
        return None;
    }
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

pub(super) fn complex_of(element: PrimitiveType) -> Option<PrimitiveType> {
    match element {
        PrimitiveType::F32 => Some(PrimitiveType::C64),
        PrimitiveType::F64 => Some(PrimitiveType::C128),
        _ => None,
    }
}

pub(super) fn real_of(element: PrimitiveType) -> PrimitiveType {
    match element {
        PrimitiveType::C64 => PrimitiveType::F32,
        PrimitiveType::C128 => PrimitiveType::F64,
        other => other,
    }
}

pub(super) fn windowed(dims: &[Dimension], window: &[access::WindowDim]) -> Option<Vec<Dimension>> {
    if dims.len() != window.len() {
        return None;
    }
    let positions = |(dim, window): (&Dimension, &access::WindowDim)| {
        window.positions(dim.bound()?).map(Dimension::Static)
    };
    dims.iter().zip(window).map(positions).collect()
}
