use super::vjp::Vjp;
use crate::{
    autodiff::tape::Step,
    hlo::{ComparisonDirection, Value},
};

/// The cotangent of a single operand.
pub(super) fn unary(part: Value<'_>) -> Vjp<'_> {
    Vjp::Rule(vec![Some(part)])
}

/// The cotangents of two operands, each computed only if it is needed.
pub(super) fn binary<'b>(
    step: &Step<'_, 'b>,
    x_cotangent: impl FnOnce() -> Value<'b>,
    y_cotangent: impl FnOnce() -> Value<'b>,
) -> Vjp<'b> {
    Vjp::Rule(vec![step.when_wanted(0, x_cotangent), step.when_wanted(1, y_cotangent)])
}

pub(super) fn logistic<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let y = step.result();
    unary(step.cotangent * (y * (-y + 1.0)))
}

pub(super) fn tanh<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let y = step.result();
    unary(step.cotangent * (-(y * y) + 1.0))
}

pub(super) fn convert<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    match step.operand_shape(0).as_array() {
        Some(shape) if shape.dtype.is_float() => unary(step.cotangent.convert(shape.dtype)),
        _ => Vjp::NoGradient,
    }
}

pub(super) fn maximum<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    extremum(step, ComparisonDirection::Gt)
}

pub(super) fn minimum<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    extremum(step, ComparisonDirection::Lt)
}

fn extremum<'b>(step: &Step<'_, 'b>, wins: ComparisonDirection) -> Vjp<'b> {
    let ct = step.cotangent;
    let (x, y) = (|| step.operand(0), || step.operand(1));
    binary(step, || ct * share(x(), y(), wins), || ct * share(y(), x(), wins))
}

pub(super) fn power<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let (x, y) = (|| step.operand(0), || step.operand(1));
    let zero = |value: Value<'b>| value.compare(ComparisonDirection::Eq, value * 0.0);
    let of_base = || {
        // x^0 is constant in x; the general rule would multiply with 0^-1.
        let exponent = zero(y()).select(y() * 0.0 + 1.0, y() - 1.0);
        ct * y() * x().pow(exponent)
    };
    // 0^y is constant in y for y > 0; the general rule would multiply with log 0.
    let of_exponent = || ct * step.result() * zero(x()).select(x() * 0.0, x().log());
    binary(step, of_base, of_exponent)
}

/// 1 where `x` wins against `y`, 0.5 where they tie, else 0.
fn share<'b>(x: Value<'b>, y: Value<'b>, wins: ComparisonDirection) -> Value<'b> {
    let number = |value: f64| x.builder().full(x.array(), value);
    let tie = x.compare(ComparisonDirection::Eq, y).select(number(0.5), number(0.0));
    x.compare(wins, y).select(number(1.0), tie)
}

/// The cotangent goes to the operand that was selected.
pub(super) fn select<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let zero = || step.builder().full(ct.array(), 0.0);
    Vjp::Rule(vec![
        None,
        step.when_wanted(1, || step.operand(0).select(ct, zero())),
        step.when_wanted(2, || step.operand(0).select(zero(), ct)),
    ])
}

/// The cotangent goes to the value within the bounds, and to the bound outside.
pub(super) fn clamp<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let zero = || step.builder().full(ct.array(), 0.0);
    let x = || step.operand(1);
    let bound = |index: usize| {
        let bound = step.operand(index);
        if bound.dims().is_empty() { bound.broadcast(&ct.dims(), &[]) } else { bound }
    };
    let towards = |index: usize, beyond: ComparisonDirection| {
        step.when_wanted(index, || {
            let part = x().compare(beyond, bound(index)).select(ct, zero());
            let to_scalar = step.operand(index).dims().is_empty();
            let all: Vec<usize> = (0..ct.dims().len()).collect();
            if to_scalar { part.sum(&all) } else { part }
        })
    };
    let inside = step.when_wanted(1, || {
        let above = x().compare(ComparisonDirection::Ge, bound(0)).select(ct, zero());
        x().compare(ComparisonDirection::Le, bound(2)).select(above, zero())
    });
    Vjp::Rule(vec![towards(0, ComparisonDirection::Lt), inside, towards(2, ComparisonDirection::Gt)])
}
