use super::Vjp;
use crate::{
    autodiff::Step,
    hlo::{ComparisonDirection, Opcode, Value},
};

/// Operations on one floating-point array.
pub fn unary<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let x = || step.operand(0);
    let y = || step.result();
    let part = match step.instr.opcode {
        Opcode::Abs => ct * x().sign(),
        Opcode::Cosine => -(ct * x().sin()),
        Opcode::Exponential => ct * y(),
        Opcode::ExponentialMinusOne => ct * (y() + 1.0),
        Opcode::Log => ct / x(),
        Opcode::LogPlusOne => ct / (x() + 1.0),
        Opcode::Logistic => {
            let y = y();
            ct * (y * (-y + 1.0))
        }
        Opcode::Negate => -ct,
        Opcode::Rsqrt => ct * (y() / x() * -0.5),
        Opcode::Sine => ct * x().cos(),
        Opcode::Sqrt => ct / (y() * 2.0),
        Opcode::Tanh => {
            let y = y();
            ct * (-(y * y) + 1.0)
        }
        Opcode::Convert => match step.operand_shape(0).as_array() {
            Some(shape) if shape.dtype.is_float() => ct.convert(shape.dtype),
            _ => return Vjp::NoGradient,
        },
        _ => return Vjp::Unsupported("it is not an operation on one array"),
    };
    Vjp::Rule(vec![Some(part)])
}

/// Operations on two floating-point arrays of one shape.
pub fn binary<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let x = || step.operand(0);
    let y = || step.operand(1);
    let both = |dx: &dyn Fn() -> Value<'b>, dy: &dyn Fn() -> Value<'b>| {
        Vjp::Rule(vec![step.when_wanted(0, dx), step.when_wanted(1, dy)])
    };
    match step.instr.opcode {
        Opcode::Add => both(&|| ct, &|| ct),
        Opcode::Subtract => both(&|| ct, &|| -ct),
        Opcode::Multiply => both(&|| ct * y(), &|| ct * x()),
        Opcode::Divide => both(&|| ct / y(), &|| -(ct * step.result() / y())),
        Opcode::Maximum => both(&|| ct * share(x(), y(), ComparisonDirection::Gt), &|| {
            ct * share(y(), x(), ComparisonDirection::Gt)
        }),
        Opcode::Minimum => both(&|| ct * share(x(), y(), ComparisonDirection::Lt), &|| {
            ct * share(y(), x(), ComparisonDirection::Lt)
        }),
        Opcode::Power => {
            let zero = |value: Value<'b>| value.compare(ComparisonDirection::Eq, value * 0.0);
            let power = || {
                // x^0 is constant in x, where 0^-1 would make it NaN.
                let exponent = zero(y()).select(y() * 0.0 + 1.0, y() - 1.0);
                ct * y() * x().pow(exponent)
            };
            // 0^y is constant in y for y > 0, where log 0 would make it NaN.
            both(&power, &|| ct * step.result() * zero(x()).select(x() * 0.0, x().log()))
        }
        // x rem y = x - trunc(x / y) y, and x - (x rem y) is that multiple of y.
        Opcode::Remainder => both(&|| ct, &|| -(ct * ((x() - step.result()) / y()))),
        _ => Vjp::Unsupported("it is not an operation on two arrays"),
    }
}

/// One where `x` wins against `y`, a half where they tie, else zero.
fn share<'b>(x: Value<'b>, y: Value<'b>, wins: ComparisonDirection) -> Value<'b> {
    let number = |value: f64| x.builder().full(x.array(), value);
    let tie = x.compare(ComparisonDirection::Eq, y).select(number(0.5), number(0.0));
    x.compare(wins, y).select(number(1.0), tie)
}

/// `select`: the cotangent goes the way the value came.
pub fn select<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let zero = || step.builder().full(ct.array(), 0.0);
    Vjp::Rule(vec![
        None,
        step.when_wanted(1, || step.operand(0).select(ct, zero())),
        step.when_wanted(2, || step.operand(0).select(zero(), ct)),
    ])
}

/// `clamp`: inside the bounds to the value, outside to the bound.
pub fn clamp<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
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
