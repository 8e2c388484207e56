//! Opcodes that move elements: concatenate, pad, transpose, gather; and the transform of them, fft.

use super::{
    array::{array, complex_of, dense, mixable, real_of},
    operation::Operation,
};
use crate::hlo::raw::{
    access,
    attr::AttrName,
    shape::{Array, Dimension, Layout, ShapeTable},
};

pub(super) fn concatenate(operation: &Operation<'_>, shapes: &ShapeTable) -> Option<Array> {
    let dim = usize::try_from(*access::ints((operation.attr)(AttrName::Dimensions)?)?.first()?).ok()?;
    let (first, rest) = operation.operands.split_first()?;
    let mut result = array(shapes, *first)?;
    let mut size = result.dims.get(dim)?.bound()?;
    for &operand in rest {
        let operand = array(shapes, operand)?;
        let differs = |(at, (a, b)): (usize, (&Dimension, &Dimension))| at != dim && a.bound() != b.bound();
        let mut dims = result.dims.iter().zip(&operand.dims).enumerate();
        if operand.dims.len() != result.dims.len() || dims.any(differs) || !mixable(&result, &operand) {
            return None;
        }
        size = size.checked_add(operand.dims[dim].bound()?)?;
    }
    result.dims[dim] = Dimension::Static(size);
    Some(dense(result.element, result.dims))
}

pub(super) fn pad(operation: &Operation<'_>, operand: Array) -> Option<Array> {
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

/// Row-major.
pub(super) fn default_layout(rank: usize) -> Layout {
    Layout { minor_to_major: (0..rank as u32).rev().collect(), ..Layout::default() }
}

/// The layout of a transposed array: the elements stay where they are.
pub(super) fn permuted(layout: &Layout, order: &[i64]) -> Option<Layout> {
    let moved = |&dim: &u32| order.iter().position(|&from| from == i64::from(dim)).map(|dim| dim as u32);
    let minor_to_major = layout.minor_to_major.iter().map(moved).collect::<Option<_>>()?;
    Some(Layout { minor_to_major, ..layout.clone() })
}

pub(super) fn gather(operation: &Operation<'_>, operand: &Array, indices: &Array) -> Option<Array> {
    let ints = |name: AttrName| (operation.attr)(name).map_or(Some(vec![]), access::ints);
    let (collapsed, batching) = (ints(AttrName::CollapsedSliceDims)?, ints(AttrName::OperandBatchingDims)?);
    let vector: usize = (operation.attr)(AttrName::IndexVectorDim)?.parse().ok()?;
    let sizes = ints(AttrName::SliceSizes)?;
    let fits =
        |(&size, dim): (&i64, &Dimension)| size >= 0 && dim.bound().is_none_or(|bound| size as u64 <= bound);
    if sizes.len() != operand.dims.len() || !sizes.iter().zip(&operand.dims).all(fits) {
        return None;
    }
    let sizes = sizes.into_iter().enumerate();
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

pub(super) fn fft(operation: &Operation<'_>, mut operand: Array) -> Option<Array> {
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
