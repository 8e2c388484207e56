use super::vjp::{INVALID_ATTRS, Vjp};
use crate::{
    autodiff::tape::Step,
    hlo::{Attrs, ComparisonDirection, DotDims, Opcode, Value},
};

/// The cotangent of one operand is the other operand contracted with the cotangent of the result.
pub(super) fn dot<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Dot(dims) = &step.instr.attrs else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    let rank = |index: usize| step.operand_shape(index).as_array().map_or(0, |array| array.rank());
    let lhs = DotOperand { batch: &dims.lhs_batch, contracting: &dims.lhs_contracting, rank: rank(0) };
    let rhs = DotOperand { batch: &dims.rhs_batch, contracting: &dims.rhs_contracting, rank: rank(1) };
    let batch = dims.lhs_batch.len();
    // Dimensions of the result: batch, free of the left operand, free of the right operand.
    let lhs_free: Vec<usize> = (batch..batch + lhs.free().len()).collect();
    let rhs_free: Vec<usize> = (batch + lhs_free.len()..step.cotangent.dims().len()).collect();
    Vjp::Rule(vec![
        step.when_wanted(0, || side(step, 0, &lhs, &rhs, &lhs_free, &rhs_free)),
        step.when_wanted(1, || side(step, 1, &rhs, &lhs, &rhs_free, &lhs_free)),
    ])
}

/// One operand of a dot.
struct DotOperand<'a> {
    batch: &'a [usize],
    contracting: &'a [usize],
    rank: usize,
}

impl DotOperand<'_> {
    fn free(&self) -> Vec<usize> {
        (0..self.rank).filter(|dim| !self.batch.contains(dim) && !self.contracting.contains(dim)).collect()
    }
}

/// The cotangent of operand `index` (`this`), from `other` and the cotangent of the result, in which the free dimensions
/// of the two are `this_free` and `other_free`.
fn side<'b>(
    step: &Step<'_, 'b>,
    index: usize,
    this: &DotOperand<'_>,
    other: &DotOperand<'_>,
    this_free: &[usize],
    other_free: &[usize],
) -> Value<'b> {
    let other_operand = step.operand(1 - index);
    let dtype = other_operand.dtype();
    let ct = step.cotangent.convert(dtype);
    let result_batch: Vec<usize> = (0..this.batch.len()).collect();

    // The dimensions of `this` that pair with those which remain of `other` once its free dimensions are contracted.
    let mut rest: Vec<usize> = other.contracting.to_vec();
    rest.sort_unstable();
    let paired = |dim: &usize| {
        let at = other.contracting.iter().position(|d| d == dim);
        this.contracting[at.unwrap_or_default()]
    };
    let rest: Vec<usize> = rest.iter().map(paired).collect();

    // The operand order that yields the dimensions in the order of `this` is preferred: a transposed copy of a thin product
    // costs more than the product.
    debug_assert_eq!(this.free().len(), this_free.len());
    let ct_first = [this.batch, &this.free(), &rest].concat();
    let other_first = [this.batch, &rest, &this.free()].concat();
    let (product, order) = if !is_sorted(&ct_first) && is_sorted(&other_first) {
        let dims = DotDims {
            lhs_batch: other.batch.to_vec(),
            rhs_batch: result_batch,
            lhs_contracting: other.free(),
            rhs_contracting: other_free.to_vec(),
        };
        (other_operand.dot(ct, dims), other_first)
    } else {
        let dims = DotDims {
            lhs_batch: result_batch,
            rhs_batch: other.batch.to_vec(),
            lhs_contracting: other_free.to_vec(),
            rhs_contracting: other.free(),
        };
        (ct.dot(other_operand, dims), ct_first)
    };
    let mut permutation = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &dim)| permutation[dim] = i);
    product.transpose(&permutation)
}

fn is_sorted(dims: &[usize]) -> bool {
    dims.windows(2).all(|pair| pair[0] < pair[1])
}

/// The cotangent of a sum goes to all elements, that of a maximum or minimum to the elements that attain it, in equal
/// shares.
pub(super) fn reduce<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Reduce { dims, to_apply } = &step.instr.attrs else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    if step.wanted[1] {
        return Vjp::Unsupported("the initial value must not depend on a differentiated parameter");
    }
    let reducer = step.builder().module().get(*to_apply);
    let Some(shape) = step.operand_shape(0).as_array() else { return Vjp::NoGradient };
    let kept: Vec<usize> = (0..shape.rank()).filter(|dim| !dims.contains(dim)).collect();
    let spread = |value: Value<'b>| value.broadcast(&shape.dims, &kept);
    let part = match reducer.reducer_opcode() {
        Some(Opcode::Add) => spread(step.cotangent),
        Some(Opcode::Maximum | Opcode::Minimum) => {
            let x = step.operand(0);
            let (one, zero) = (step.builder().full(x.array(), 1.0), step.builder().full(x.array(), 0.0));
            let attains = x.compare(ComparisonDirection::Eq, spread(step.result())).select(one, zero);
            // If the initial value wins, no element attains it.
            let count = attains.sum(dims);
            let count = count.max(step.builder().full(count.array(), 1.0));
            spread(step.cotangent / count) * attains
        }
        _ => return Vjp::Unsupported("only sums, maxima and minima have a rule"),
    };
    Vjp::Rule(vec![Some(part), None])
}
