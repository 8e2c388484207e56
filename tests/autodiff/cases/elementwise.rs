use hloom::{
    base::DType,
    hlo::{Attrs, ComparisonDirection, Opcode, Value},
};

use super::{Case, case, plain};
use crate::autodiff::Inputs;

pub fn unary() -> Vec<Case> {
    let everywhere = [
        Opcode::Abs,
        Opcode::Cosine,
        Opcode::Exponential,
        Opcode::ExponentialMinusOne,
        Opcode::Logistic,
        Opcode::Negate,
        Opcode::Sine,
        Opcode::Tanh,
    ];
    let positive = [Opcode::Log, Opcode::LogPlusOne, Opcode::Rsqrt, Opcode::Sqrt];
    let everywhere = everywhere.into_iter().map(|op| case(op, "", move |i| plain(op, &[i.any(&[2, 3])])));
    let positive = positive.into_iter().map(|op| case(op, "", move |i| plain(op, &[i.positive(&[2, 3])])));
    everywhere.chain(positive).collect()
}

pub fn binary() -> Vec<Case> {
    let everywhere = [Opcode::Add, Opcode::Subtract, Opcode::Multiply, Opcode::Maximum, Opcode::Minimum];
    let mut cases: Vec<Case> = everywhere
        .into_iter()
        .map(|op| case(op, "", move |i| plain(op, &[i.any(&[2, 3]), i.any(&[2, 3])])))
        .collect();
    for op in everywhere.into_iter().chain([Opcode::Divide, Opcode::Power]) {
        cases.push(case(op, "of itself", move |i| {
            let x = i.positive(&[3]);
            plain(op, &[x, x])
        }));
        cases.push(case(op, "by a constant", move |i| {
            let x = i.positive(&[3]);
            plain(op, &[x, i.b.full(x.array(), 1.25)])
        }));
        cases.push(case(op, "of a constant", move |i| {
            let x = i.positive(&[3]);
            plain(op, &[i.b.full(x.array(), 1.25), x])
        }));
    }
    cases.extend([
        case(Opcode::Divide, "", |i| i.any(&[3]) / i.positive(&[3])),
        case(Opcode::Divide, "by negative numbers", |i| i.any(&[3]) / i.within(-2.0, -0.5, &[3])),
        case(Opcode::Power, "", |i| i.positive(&[4]).pow(i.any(&[4]))),
        case(Opcode::Power, "of negative numbers", |i| {
            let x = i.within(-2.0, -0.5, &[3]);
            x.pow(i.b.full(x.array(), 3.0))
        }),
        case(Opcode::Remainder, "", |i| {
            plain(Opcode::Remainder, &[i.within(-9.0, 9.0, &[8]), i.positive(&[8])])
        }),
        case(Opcode::Remainder, "by negative numbers", |i| {
            plain(Opcode::Remainder, &[i.within(-9.0, 9.0, &[8]), i.within(-2.0, -0.5, &[8])])
        }),
    ]);
    cases
}

/// Factors without a derivative beside one with.
pub fn piecewise_constant() -> Vec<Case> {
    let steps = [Opcode::Ceil, Opcode::Floor, Opcode::RoundNearestEven, Opcode::Sign];
    let steps = steps.into_iter().map(|op| {
        case(op, "", move |i| {
            let x = i.any(&[5]);
            plain(op, &[x]) * x
        })
    });
    let of_bits = [Opcode::And, Opcode::Or, Opcode::Xor, Opcode::ShiftLeft, Opcode::ShiftRightLogical];
    let of_bits = of_bits.into_iter().map(|op| {
        case(op, "", move |i| {
            let x = i.within(1.0, 8.0, &[5]);
            let whole = x.convert(DType::S32);
            plain(op, &[whole, i.b.full(whole.array(), 3.0)]).convert(DType::F64) * x
        })
    });
    let others = [
        case(Opcode::Not, "", |i| {
            let x = i.any(&[5]);
            let negative = x.compare(ComparisonDirection::Lt, x * 0.0);
            plain(Opcode::Not, &[negative]).select(x * x, x)
        }),
        case(Opcode::IsFinite, "", |i| {
            let x = i.any(&[5]);
            i.b.push(Opcode::IsFinite, &[x], Attrs::Plain, None).select(x * x, x)
        }),
        case(Opcode::Compare, "", |i| {
            let (x, y) = (i.any(&[8]), i.any(&[8]));
            x.compare(ComparisonDirection::Gt, y).convert(DType::F64) * x * y
        }),
    ];
    steps.chain(of_bits).chain(others).collect()
}

pub fn choices() -> Vec<Case> {
    fn mask<'b>(i: &Inputs<'b>) -> Value<'b> {
        i.indices(2, &[6]).convert(DType::Pred)
    }
    vec![
        case(Opcode::Select, "", move |i| {
            let mask = mask(i);
            mask.select(i.any(&[6]), i.any(&[6]))
        }),
        case(Opcode::Select, "of one value twice", move |i| {
            let mask = mask(i);
            let x = i.any(&[6]);
            mask.select(x * x, x)
        }),
        case(Opcode::Clamp, "within scalars", |i| {
            let x = i.any(&[12]);
            plain(Opcode::Clamp, &[i.within(-1.0, -0.5, &[]), x * x - 1.5, i.within(0.5, 1.0, &[])])
        }),
        case(Opcode::Clamp, "within arrays", |i| {
            let x = i.any(&[12]);
            plain(Opcode::Clamp, &[i.within(-1.0, -0.5, &[12]), x, i.within(0.5, 1.0, &[12])])
        }),
        case(Opcode::Clamp, "of a scalar", |i| {
            plain(
                Opcode::Clamp,
                &[i.within(0.5, 1.0, &[]), i.within(-1.0, 0.0, &[]), i.within(1.5, 2.0, &[])],
            )
        }),
        case(Opcode::Clamp, "within constants", |i| {
            let x = i.any(&[12]);
            plain(Opcode::Clamp, &[i.b.scalar(DType::F64, -0.5), x, i.b.scalar(DType::F64, 1.0)])
        }),
    ]
}

pub fn conversions() -> Vec<Case> {
    vec![
        case(Opcode::Convert, "from f32 to f64", |i| {
            let x = i.float(DType::F32, -2.0, 2.0, &[5]).convert(DType::F64);
            x * x
        }),
        case(Opcode::Convert, "from f64 to f32 and back", |i| {
            let x = i.any(&[5]).convert(DType::F32).convert(DType::F64);
            x * x
        }),
        case(Opcode::Convert, "to whole numbers", |i| {
            let x = i.within(-4.0, 4.0, &[5]);
            x.convert(DType::S32).convert(DType::F64) * x
        }),
    ]
}
