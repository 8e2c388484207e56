use hloom::{
    base::{ArrayShape, DType, Shape},
    hlo::{CompId, Opcode},
};

use super::{Case, case, plain};
use crate::autodiff::Inputs;

pub fn tuples() -> Vec<Case> {
    vec![
        case(Opcode::Tuple, "as the result", |i| {
            let (x, y) = (i.any(&[2]), i.any(&[3]));
            i.b.tuple(&[x * x, y, x])
        }),
        case(Opcode::Tuple, "in a tuple", |i| {
            let (x, y) = (i.any(&[3]), i.any(&[3]));
            let inner = i.b.tuple(&[x * y, y]);
            let outer = i.b.tuple(&[inner, x]);
            outer.get(0).get(0) * outer.get(1) + outer.get(0).get(1)
        }),
        case(Opcode::GetTupleElement, "of one twice", |i| {
            let (x, y) = (i.any(&[3]), i.any(&[3]));
            let pair = i.b.tuple(&[x, y]);
            pair.get(0) * pair.get(1) * pair.get(0)
        }),
        case(Opcode::GetTupleElement, "beside whole numbers", |i| {
            let (x, whole) = (i.any(&[3]), i.indices(5, &[3]));
            let pair = i.b.tuple(&[whole, x * x]);
            pair.get(0).convert(DType::F64) * pair.get(1)
        }),
        case(Opcode::OptimizationBarrier, "of an array", |i| {
            let x = i.any(&[3]);
            plain(Opcode::OptimizationBarrier, &[x * x])
        }),
        case(Opcode::OptimizationBarrier, "of a tuple", |i| {
            let (x, y) = (i.any(&[3]), i.any(&[3]));
            let pair = plain(Opcode::OptimizationBarrier, &[i.b.tuple(&[x * y, y])]);
            pair.get(0) * pair.get(1)
        }),
    ]
}

pub fn calls() -> Vec<Case> {
    fn vector() -> ArrayShape {
        ArrayShape::new(DType::F64, [3])
    }
    /// The product of the first argument's square with the last; between them stand whole numbers.
    fn product(i: &Inputs<'_>) -> CompId {
        let defined = i.b.module().define("product", |b| {
            let x = b.parameter("x", vector());
            let whole = b.parameter("whole", ArrayShape::new(DType::S32, [3]));
            x * x * b.parameter("y", vector()) * whole.convert(DType::F64)
        });
        defined.unwrap()
    }
    /// As [`product`], with its gradient written by hand.
    fn product_with_gradient(i: &Inputs<'_>) -> CompId {
        let primal = product(i);
        let gradient = i.b.module().define("product.grad", |b| {
            let x = b.parameter("x", vector());
            let whole = b.parameter("whole", ArrayShape::new(DType::S32, [3]));
            let (y, result) = (b.parameter("y", vector()), b.parameter("result", vector()));
            let cotangent = b.parameter("cotangent", vector());
            let _ = whole;
            b.tuple(&[cotangent * result * 2.0 / x, cotangent * result / y])
        });
        i.vjps.set_custom(primal, gradient.unwrap());
        primal
    }
    vec![
        case(Opcode::Call, "", |i| {
            let callee = product(i);
            let (x, whole, y) = (i.any(&[3]), i.indices(5, &[3]), i.any(&[3]));
            i.b.call(callee, &[x, whole, y])
        }),
        case(Opcode::Call, "of a callee with a gradient", |i| {
            let callee = product_with_gradient(i);
            let (x, whole, y) = (i.any(&[3]), i.indices(5, &[3]), i.any(&[3]));
            i.b.call(callee, &[x * x, whole, y])
        }),
        case(Opcode::Call, "where only the last argument depends", |i| {
            let callee = product_with_gradient(i);
            let whole = i.indices(5, &[3]);
            i.b.call(callee, &[i.b.full(vector(), 2.0), whole, i.any(&[3])])
        }),
        case(Opcode::Call, "twice, one within the other", |i| {
            let callee = product(i);
            let (x, whole, y) = (i.any(&[3]), i.indices(5, &[3]), i.any(&[3]));
            let inner = i.b.call(callee, &[x, whole, y]);
            i.b.call(callee, &[y, whole, inner])
        }),
        case(Opcode::Call, "of a callee that calls", |i| {
            let callee = product_with_gradient(i);
            let outer = i.b.module().define("outer", |b| {
                let (x, y) = (b.parameter("x", vector()), b.parameter("y", vector()));
                let whole = b.parameter("whole", ArrayShape::new(DType::S32, [3]));
                b.call(callee, &[x, whole, y]) + x
            });
            let (x, y, whole) = (i.any(&[3]), i.any(&[3]), i.indices(5, &[3]));
            i.b.call(outer.unwrap(), &[x, y, whole])
        }),
        case(Opcode::Call, "with tuples in and out", |i| {
            let pair = Shape::Tuple(vec![vector().into(), vector().into()]);
            let swap = i.b.module().define("swap", |b| {
                let pair = b.parameter("pair", pair);
                b.tuple(&[pair.get(1), pair.get(0) * pair.get(1)])
            });
            let pair = i.b.tuple(&[i.any(&[3]), i.any(&[3])]);
            let swapped = i.b.call(swap.unwrap(), &[pair]);
            swapped.get(0) * swapped.get(1)
        }),
    ]
}
