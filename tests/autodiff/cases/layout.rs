use std::iter::once;

use hloom::{
    base::{ArrayShape, DType, Shape},
    hlo::{Attrs, Opcode, PadDim, SliceDim},
};

use super::{Case, case};

pub fn layout() -> Vec<Case> {
    let broadcasts: [(&str, [&[usize]; 3]); 5] = [
        ("of a scalar", [&[], &[2, 3], &[]]),
        ("before", [&[3], &[2, 3], &[1]]),
        ("after", [&[3], &[3, 2], &[0]]),
        ("between", [&[2, 3], &[2, 4, 3], &[0, 2]]),
        ("of size one", [&[1, 2], &[1, 3, 2, 2], &[0, 2]]),
    ];
    let broadcasts = broadcasts.into_iter().map(|(what, [from, to, mapping])| {
        case(Opcode::Broadcast, what, move |i| i.any(from).broadcast(to, mapping))
    });
    let same_rank = case(Opcode::Broadcast, "to the same sizes", |i| {
        let shape = Shape::array(DType::F64, [2, 3]);
        i.b.push(Opcode::Broadcast, &[i.any(&[2, 3])], Attrs::Dims(vec![0, 1]), Some(shape))
    });
    let reshapes: [(&[usize], &[usize]); 4] =
        [(&[2, 3], &[6]), (&[6], &[3, 1, 2]), (&[1], &[]), (&[2, 3, 2], &[4, 3])];
    let reshapes = reshapes.into_iter().map(|(from, to)| {
        case(Opcode::Reshape, format!("{from:?} to {to:?}"), move |i| i.any(from).reshape(to))
    });
    let permutations = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let transposes = permutations.into_iter().map(|permutation| {
        case(Opcode::Transpose, format!("{permutation:?}"), move |i| {
            i.any(&[2, 3, 4]).transpose(&permutation)
        })
    });
    let reverses: [&[usize]; 4] = [&[0], &[2], &[0, 1], &[2, 0, 1]];
    let reverses = reverses
        .into_iter()
        .map(|dims| case(Opcode::Reverse, format!("{dims:?}"), move |i| i.any(&[2, 3, 2]).reverse(dims)));
    let concatenates = [
        case(Opcode::Concatenate, "of three", |i| {
            i.any(&[2, 1]).concatenate(&[i.any(&[2, 3]), i.any(&[2, 2])], 1)
        }),
        case(Opcode::Concatenate, "of one value twice", |i| {
            let x = i.any(&[2, 3]);
            x.concatenate(&[x * x], 0)
        }),
        case(Opcode::Concatenate, "with a constant", |i| {
            let zeros = i.b.full(ArrayShape::new(DType::F64, [1, 3]), 0.0);
            zeros.concatenate(&[i.any(&[2, 3]), zeros], 0)
        }),
        case(Opcode::Concatenate, "of one", |i| i.any(&[2]).concatenate(&[], 0)),
    ];
    let cases = broadcasts.chain(once(same_rank)).chain(reshapes).chain(transposes).chain(reverses);
    cases.chain(concatenates).collect()
}

pub fn windows() -> Vec<Case> {
    let range = |start, limit, stride| SliceDim { start, limit, stride };
    let slices = [
        ("of a box", [range(1, 3, 1), range(0, 4, 1)]),
        ("with strides", [range(0, 4, 3), range(1, 7, 2)]),
        ("with a stride past the end", [range(1, 4, 5), range(0, 6, 4)]),
        ("of nothing", [range(2, 2, 1), range(0, 7, 1)]),
        ("of everything", [range(0, 4, 1), range(0, 7, 1)]),
    ];
    let slices = slices.into_iter().map(|(what, ranges)| {
        case(Opcode::Slice, what, move |i| {
            let x = i.any(&[4, 7]);
            (x * x).slice(&ranges)
        })
    });
    let edge = |low, high, interior| PadDim { low, high, interior };
    let pads = [
        ("", [edge(1, 2, 0), edge(0, 1, 0)]),
        ("with negative edges", [edge(-1, 0, 0), edge(-1, -2, 0)]),
        ("of one negative edge and one positive", [edge(-1, 2, 0), edge(1, -1, 0)]),
        ("between", [edge(0, 0, 1), edge(0, 0, 2)]),
        ("everywhere", [edge(1, 2, 1), edge(2, 1, 2)]),
        ("between, with negative edges", [edge(-1, -1, 1), edge(-2, 3, 2)]),
        ("between, with negative edges that cut padding", [edge(-2, 1, 2), edge(-3, -4, 3)]),
        ("that leaves padding alone", [edge(-3, 2, 0), edge(0, 0, 0)]),
    ];
    let pads = pads
        .into_iter()
        .map(|(what, edges)| case(Opcode::Pad, what, move |i| i.any(&[3, 4]).pad(i.any(&[]), &edges)));
    let constant = case(Opcode::Pad, "with a constant", |i| {
        i.any(&[3]).pad(i.b.scalar(DType::F64, 7.0), &[PadDim { low: 1, high: -1, interior: 1 }])
    });
    slices.chain(pads).chain([constant]).collect()
}
