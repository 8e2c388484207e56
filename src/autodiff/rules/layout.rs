use super::{
    elementwise::unary,
    vjp::{INVALID_ATTRS, Vjp},
};
use crate::{
    autodiff::tape::{Step, zeros},
    hlo::{Attrs, PadDim, SliceDim},
};

/// The cotangents of the copies of an element are summed.
pub(super) fn broadcast<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(mapping) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let rank = step.cotangent.dims().len();
    let added: Vec<usize> = (0..rank).filter(|dim| !mapping.contains(dim)).collect();
    unary(step.cotangent.sum(&added))
}

pub(super) fn reshape<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    unary(step.cotangent.reshape(&sizes(step, 0)))
}

pub(super) fn transpose<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(permutation) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let mut inverse = vec![0; permutation.len()];
    permutation.iter().enumerate().for_each(|(i, &dim)| inverse[dim] = i);
    unary(step.cotangent.transpose(&inverse))
}

pub(super) fn reverse<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(dims) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    unary(step.cotangent.reverse(dims))
}

/// Each operand gets its slice of the cotangent.
pub(super) fn concatenate<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(dims) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let dims_of_result = step.cotangent.dims();
    let mut start = 0;
    let parts = (0..step.instr.operands.len()).map(|index| {
        let size = sizes(step, index)[dims[0]];
        let range = |dim| if dim == dims[0] { (start, start + size) } else { (0, dims_of_result[dim]) };
        let ranges: Vec<SliceDim> = (0..dims_of_result.len())
            .map(range)
            .map(|(start, limit)| SliceDim { start, limit, stride: 1 })
            .collect();
        start += size;
        step.when_wanted(index, || step.cotangent.slice(&ranges))
    });
    Vjp::Rule(parts.collect())
}

/// Elements outside of the slice have a zero cotangent.
pub(super) fn slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Slice(ranges) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let taken = step.cotangent.array();
    if taken.elements() == 0 {
        return unary(zeros(step.builder(), step.operand_shape(0)));
    }
    let edges: Vec<PadDim> = ranges
        .iter()
        .zip(sizes(step, 0))
        .zip(&taken.dims)
        .map(|((range, size), &taken)| {
            let last = range.start + (taken - 1) * range.stride;
            PadDim { low: range.start as i64, high: (size - 1 - last) as i64, interior: range.stride - 1 }
        })
        .collect();
    unary(step.cotangent.pad(step.builder().scalar(taken.dtype, 0.0), &edges))
}

/// The operand gets the cotangents of its elements, the padding value the sum of all others.
pub(super) fn pad<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Pad(edges) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let ct = step.cotangent;
    let own = || {
        let cut: Vec<PadDim> =
            edges.iter().map(|edge| PadDim { low: -edge.low, high: -edge.high, interior: 0 }).collect();
        let inner = ct.pad(step.builder().scalar(ct.dtype(), 0.0), &cut);
        let ranges: Vec<SliceDim> = edges
            .iter()
            .zip(inner.dims())
            .map(|(edge, limit)| SliceDim { start: 0, limit, stride: edge.interior + 1 })
            .collect();
        inner.slice(&ranges)
    };
    let all: Vec<usize> = (0..ct.dims().len()).collect();
    let value = step.when_wanted(1, || ct.sum(&all) - own().sum(&all));
    Vjp::Rule(vec![step.when_wanted(0, own), value])
}

fn sizes(step: &Step<'_, '_>, operand: usize) -> Vec<usize> {
    let shape = step.operand_shape(operand).as_array();
    shape.expect("shape inference refuses a tuple as an operand of these opcodes").dims.clone()
}
