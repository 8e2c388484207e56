//! Conditions that several shape rules share. Each error says what was expected and what was found.

use std::fmt::Display;

use crate::{
    base::{ArrayShape, DType, Diagnostic, Shape},
    hlo::Computation,
};

pub(super) fn array(shape: &Shape) -> Result<&ArrayShape, Diagnostic> {
    shape.as_array().ok_or_else(|| format!("expected an array, found {shape}").into())
}

pub(super) fn equal<T: PartialEq + Display>(what: &str, found: T, expected: T) -> Result<(), Diagnostic> {
    if found == expected {
        return Ok(());
    }
    Err(format!("expected {what} to be {expected}, found {found}").into())
}

pub(super) fn len(what: &str, found: usize, expected: usize) -> Result<(), Diagnostic> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected} {what}, found {found}").into()) }
}

pub(super) fn dtype(
    shape: &ArrayShape,
    what: &str,
    accepts: impl Fn(DType) -> bool,
) -> Result<(), Diagnostic> {
    if accepts(shape.dtype) { Ok(()) } else { Err(format!("expected {what}, found {}", shape.dtype).into()) }
}

pub(super) fn in_bounds(what: &str, sizes: &[usize], bounds: &[usize]) -> Result<(), Diagnostic> {
    if sizes.iter().zip(bounds).all(|(size, bound)| size <= bound) {
        return Ok(());
    }
    Err(format!("expected {what} sizes of at most {bounds:?}, found {sizes:?}").into())
}

pub(super) fn dim(dim: usize, rank: usize) -> Result<(), Diagnostic> {
    if dim < rank { Ok(()) } else { Err(format!("expected a dimension below {rank}, found {dim}").into()) }
}

pub(super) fn distinct(dims: &[usize], rank: usize) -> Result<(), Diagnostic> {
    for (i, &found) in dims.iter().enumerate() {
        dim(found, rank)?;
        if dims[..i].contains(&found) {
            return Err(format!("duplicate dimension {found} in {dims:?}").into());
        }
    }
    Ok(())
}

pub(super) fn ascending(dims: &[usize], rank: usize) -> Result<(), Diagnostic> {
    distinct(dims, rank)?;
    if dims.is_sorted() {
        return Ok(());
    }
    Err(format!("expected ascending dimensions, found {dims:?}").into())
}

/// Start indices are integer scalars of one type.
pub(super) fn starts(starts: &[&Shape], rank: usize) -> Result<(), Diagnostic> {
    len("start indices", starts.len(), rank)?;
    let is_index = |shape: &Shape| shape.as_array().is_some_and(|s| s.rank() == 0 && s.dtype.is_integer());
    if let Some(start) = starts.iter().find(|shape| !is_index(shape)) {
        return Err(format!("expected an integer scalar as a start index, found {start}").into());
    }
    match starts.iter().find(|&&start| start != starts[0]) {
        Some(start) => {
            Err(format!("expected start indices of one type, found {} and {start}", starts[0]).into())
        }
        None => Ok(()),
    }
}

/// The shapes of a call's operands are those of the callee's parameters.
pub(super) fn arguments(callee: &Computation, operands: &[&Shape]) -> Result<(), Diagnostic> {
    let (name, parameters) = (&callee.name, callee.parameter_shapes());
    if parameters.len() != operands.len() {
        let (expected, found) = (parameters.len(), operands.len());
        return Err(format!("expected {expected} operands for `{name}`, found {found}").into());
    }
    for (number, (&found, &expected)) in operands.iter().zip(&parameters).enumerate() {
        if found != expected {
            return Err(
                format!("expected {expected} for parameter {number} of `{name}`, found {found}").into()
            );
        }
    }
    Ok(())
}

/// The dimension sizes without those of the dimensions `removed`.
pub(super) fn without(dims: &[usize], removed: &[usize]) -> Vec<usize> {
    dims.iter().enumerate().filter(|(i, _)| !removed.contains(i)).map(|(_, &dim)| dim).collect()
}
