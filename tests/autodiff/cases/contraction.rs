use hloom::{
    base::DType,
    hlo::{DotDims, Opcode},
};

use super::{Case, case, contract};
use crate::support::Random;

pub fn reductions() -> Vec<Case> {
    let folds = [(Opcode::Add, 0.0), (Opcode::Maximum, f64::NEG_INFINITY), (Opcode::Minimum, f64::INFINITY)];
    let dims: [&[usize]; 5] = [&[0], &[1], &[2, 0], &[0, 1, 2], &[]];
    let mut cases = Vec::new();
    for (fold, init) in folds {
        for dims in dims {
            cases.push(case(Opcode::Reduce, format!("{fold} over {dims:?}"), move |i| {
                i.any(&[2, 3, 4]).reduce(fold, init, dims)
            }));
        }
    }
    cases.extend([
        case(Opcode::Reduce, "add from a number", |i| i.any(&[2, 3]).reduce(Opcode::Add, 5.0, &[1])),
        case(Opcode::Reduce, "maximum from a number that wins", |i| {
            i.within(-2.0, -1.0, &[2, 3]).reduce(Opcode::Maximum, 0.0, &[1])
        }),
        case(Opcode::Reduce, "minimum from a number that may win", |i| {
            i.any(&[3, 2]).reduce(Opcode::Minimum, -0.25, &[1])
        }),
    ]);
    cases
}

pub fn dots() -> Vec<Case> {
    let bilinear = |what: &str, lhs: &'static [usize], rhs: &'static [usize], dims: DotDims| {
        case(Opcode::Dot, what, move |i| i.any(lhs).dot(i.any(rhs), dims))
    };
    vec![
        bilinear("of vectors", &[3], &[3], contract(0, 0)),
        bilinear("without contraction", &[2], &[3], DotDims::default()),
        bilinear("of scalars", &[], &[], DotDims::default()),
        bilinear("with nothing free on the left", &[3], &[3, 4], contract(0, 0)),
        bilinear("with nothing free on the right", &[2, 3], &[3], contract(1, 0)),
        bilinear(
            "of batches alone",
            &[2, 3],
            &[3, 2],
            DotDims { lhs_batch: vec![0, 1], rhs_batch: vec![1, 0], ..DotDims::default() },
        ),
        bilinear("with two free on each side", &[2, 3, 2], &[2, 2, 3], contract(1, 2)),
        case(Opcode::Dot, "with itself", |i| {
            let x = i.any(&[3, 3]);
            x.dot(x, contract(0, 1))
        }),
        case(Opcode::Dot, "accumulated in a wider type", |i| {
            let (x, y) = (i.float(DType::F32, -1.0, 1.0, &[2, 3]), i.float(DType::F32, -1.0, 1.0, &[3, 2]));
            x.dot_in(y, contract(1, 0), DType::F64)
        }),
    ]
}

/// What a dimension of a dot is for; two of the same are paired.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Batch(usize),
    Contracting(usize),
    Free,
}

/// Every order of one batch, one contracting and one free dimension on both sides, and random orders of more.
pub fn all_dot_orders() -> Vec<Case> {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let parts = [Part::Batch(0), Part::Contracting(0), Part::Free];
    let of = |order: [usize; 3]| order.map(|at| parts[at]).to_vec();
    let mut cases = Vec::new();
    for lhs in orders {
        cases.extend(orders.map(|rhs| dot_case(of(lhs), of(rhs), &[0], &[0])));
    }
    let mut random = Random::named("dot");
    let parts = [Part::Batch(0), Part::Batch(1), Part::Contracting(0), Part::Contracting(1), Part::Free];
    for _ in 0..16 {
        let (lhs, rhs) = (random.shuffled(&parts), random.shuffled(&parts));
        cases.push(dot_case(lhs, rhs, &random.shuffled(&[0, 1]), &random.shuffled(&[0, 1])));
    }
    cases
}

fn dot_case(lhs: Vec<Part>, rhs: Vec<Part>, batch: &[usize], contracting: &[usize]) -> Case {
    let places = |parts: &[Part], wanted: &dyn Fn(usize) -> Part, order: &[usize]| -> Vec<usize> {
        order.iter().filter_map(|&nth| parts.iter().position(|&part| part == wanted(nth))).collect()
    };
    let dims = DotDims {
        lhs_batch: places(&lhs, &Part::Batch, batch),
        rhs_batch: places(&rhs, &Part::Batch, batch),
        lhs_contracting: places(&lhs, &Part::Contracting, contracting),
        rhs_contracting: places(&rhs, &Part::Contracting, contracting),
    };
    let sizes = |parts: &[Part], free: usize| -> Vec<usize> {
        let size = |part: &Part| match part {
            Part::Batch(nth) => 2 + nth,
            Part::Contracting(nth) => 3 - nth,
            Part::Free => free,
        };
        parts.iter().map(size).collect()
    };
    let (lhs, rhs) = (sizes(&lhs, 2), sizes(&rhs, 1));
    case(Opcode::Dot, format!("{lhs:?} {rhs:?} {dims:?}"), move |i| i.any(&lhs).dot(i.any(&rhs), dims))
}
