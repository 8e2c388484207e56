use super::{MISMATCH, Vjp};
use crate::{
    autodiff::{Step, zeros},
    hlo::{Attrs, PadDim, SliceDim, Value},
};

/// Repeated elements gather the sum of their copies' cotangents.
pub fn broadcast<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(mapping) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let rank = step.cotangent.dims().len();
    let added: Vec<usize> = (0..rank).filter(|dim| !mapping.contains(dim)).collect();
    one(step.cotangent.sum(&added))
}

pub fn reshape<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    one(step.cotangent.reshape(&sizes(step, 0)))
}

pub fn transpose<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(permutation) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let mut inverse = vec![0; permutation.len()];
    permutation.iter().enumerate().for_each(|(i, &dim)| inverse[dim] = i);
    one(step.cotangent.transpose(&inverse))
}

pub fn reverse<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(dims) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    one(step.cotangent.reverse(dims))
}

/// Each part gets its own stretch of the cotangent.
pub fn concatenate<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dims(dims) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let whole = step.cotangent.dims();
    let mut start = 0;
    let parts = (0..step.instr.operands.len()).map(|index| {
        let size = sizes(step, index)[dims[0]];
        let range = |dim| if dim == dims[0] { (start, start + size) } else { (0, whole[dim]) };
        let ranges: Vec<SliceDim> =
            (0..whole.len()).map(range).map(|(start, limit)| SliceDim { start, limit, stride: 1 }).collect();
        start += size;
        step.when_wanted(index, || step.cotangent.slice(&ranges))
    });
    Vjp::Rule(parts.collect())
}

/// Elements that were left out get zeros.
pub fn slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Slice(ranges) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let taken = step.cotangent.array();
    if taken.elements() == 0 {
        return one(zeros(step.builder(), step.operand_shape(0)));
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
    one(step.cotangent.pad(step.builder().scalar(taken.dtype, 0.0), &edges))
}

/// The operand gets the cotangents of its own places, the padding value the sum of all others.
pub fn pad<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Pad(edges) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
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

fn one(part: Value<'_>) -> Vjp<'_> {
    Vjp::Rule(vec![Some(part)])
}

fn sizes(step: &Step<'_, '_>, operand: usize) -> Vec<usize> {
    step.operand_shape(operand).as_array().map(|array| array.dims.clone()).unwrap_or_default()
}
