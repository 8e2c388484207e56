//! Arithmetic on numbers.

use super::{
    ast::BinaryOp,
    error::{Error, Result},
    float::exact_int,
    undefined::defined,
    value::PyValue,
};

/// A number: `int` and `bool`, or `float`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The number of a value, if it is one.
    pub(super) fn of(value: &PyValue) -> Option<Self> {
        match value {
            PyValue::Float(value) => Some(Self::Float(*value)),
            _ => value.as_int().map(Self::Int),
        }
    }

    /// As a float.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

fn too_large() -> Error {
    Error::unsupported("an integer beyond 128 bits")
}

/// An operator applied to two numbers.
pub(super) fn arithmetic(operator: BinaryOp, left: Number, right: Number) -> Result<PyValue> {
    let (Number::Int(a), Number::Int(b)) = (left, right) else {
        return float_arithmetic(operator, left.to_f64(), right.to_f64());
    };
    let result = match operator {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide => return divide(a, b),
        BinaryOp::FloorDivide if b == 0 => return Err(Error::new("integer division or modulo by zero")),
        BinaryOp::Modulo if b == 0 => return Err(Error::new("integer modulo by zero")),
        BinaryOp::FloorDivide => a.checked_div_euclid(b).map(|quotient| {
            // Euclidean division rounds towards the sign of the divisor.
            if b < 0 && a.rem_euclid(b) != 0 { quotient - 1 } else { quotient }
        }),
        BinaryOp::Modulo => {
            a.checked_rem_euclid(b).map(|rest| if b < 0 && rest != 0 { rest + b } else { rest })
        }
        BinaryOp::Power if b < 0 => return float_arithmetic(operator, a as f64, b as f64),
        BinaryOp::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    result.map(PyValue::Int).ok_or_else(too_large)
}

fn divide(a: i128, b: i128) -> Result<PyValue> {
    const EXACT: u128 = 1 << 53;
    if b == 0 {
        return Err(Error::new("division by zero"));
    }
    if a.unsigned_abs() <= EXACT && b.unsigned_abs() <= EXACT {
        return Ok(PyValue::Float(a as f64 / b as f64));
    }
    if let (Some(0), Some(quotient)) = (a.checked_rem(b), a.checked_div(b)) {
        return Ok(PyValue::Float(quotient as f64));
    }
    Err(Error::unsupported("division of integers beyond 53 bits"))
}

fn float_arithmetic(operator: BinaryOp, a: f64, b: f64) -> Result<PyValue> {
    let result = match operator {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide if b == 0.0 => return Err(Error::new("float division by zero")),
        BinaryOp::Divide => a / b,
        BinaryOp::FloorDivide if b == 0.0 => return Err(Error::new("float floor division by zero")),
        BinaryOp::Modulo if b == 0.0 => return Err(Error::new("float modulo")),
        BinaryOp::FloorDivide => floor_divide(a, b).0,
        BinaryOp::Modulo => floor_divide(a, b).1,
        BinaryOp::Power if a == 0.0 && b < 0.0 => {
            return Err(Error::new("0.0 cannot be raised to a negative power"));
        }
        BinaryOp::Power => {
            let result = a.powf(b);
            if a < 0.0 && b.fract() != 0.0 {
                return Err(Error::unsupported("complex numbers"));
            }
            if result.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(Error::new("(34, 'Numerical result out of range')"));
            }
            result
        }
    };
    Ok(PyValue::Float(result))
}

/// Python's `divmod` of floats.
fn floor_divide(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(b);
    } else if (b < 0.0) != (rest < 0.0) {
        rest += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

/// `-value`.
pub(super) fn negative(value: &PyValue) -> Result<PyValue> {
    unary("-", value, |number| match number {
        Number::Int(value) => value.checked_neg().map(PyValue::Int),
        Number::Float(value) => Some(PyValue::Float(-value)),
    })
}

/// `+value`.
pub(super) fn positive(value: &PyValue) -> Result<PyValue> {
    unary("+", value, |number| match number {
        Number::Int(value) => Some(PyValue::Int(value)),
        Number::Float(value) => Some(PyValue::Float(value)),
    })
}

fn unary(symbol: &str, value: &PyValue, apply: impl Fn(Number) -> Option<PyValue>) -> Result<PyValue> {
    defined(value)?;
    let bad = || Error::new(format!("bad operand type for unary {symbol}: '{}'", value.type_name()));
    apply(Number::of(value).ok_or_else(bad)?).ok_or_else(too_large)
}

/// `abs(value)`.
pub(super) fn absolute(value: &PyValue) -> Result<PyValue> {
    defined(value)?;
    match Number::of(value) {
        Some(Number::Int(value)) => value.checked_abs().map(PyValue::Int).ok_or_else(too_large),
        Some(Number::Float(value)) => Ok(PyValue::Float(value.abs())),
        None => Err(Error::new(format!("bad operand type for abs(): '{}'", value.type_name()))),
    }
}

/// `round(value, precision)`.
pub(super) fn round(value: &PyValue, precision: i128) -> Result<PyValue> {
    defined(value)?;
    match Number::of(value) {
        Some(Number::Int(int)) if precision >= 0 => Ok(PyValue::Int(int)),
        Some(Number::Int(int)) => {
            let Some(unit) = power_of_ten(precision) else { return Ok(PyValue::Int(0)) };
            let (floor, rest) = (int.div_euclid(unit), int.rem_euclid(unit));
            let up = match rest.cmp(&(unit - rest)) {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => floor % 2 != 0,
                std::cmp::Ordering::Greater => true,
            };
            (floor + i128::from(up)).checked_mul(unit).map(PyValue::Int).ok_or_else(too_large)
        }
        Some(Number::Float(float)) => round_float(float, precision).map(PyValue::Float),
        None => Err(Error::new(format!("type {} doesn't define __round__ method", value.type_name()))),
    }
}

fn round_float(value: f64, precision: i128) -> Result<f64> {
    if !value.is_finite() || precision > 323 {
        return Ok(value);
    }
    if precision >= 0 {
        // The decimal expansion of a float is exact, and Rust rounds it half to even, as Python does.
        let digits = precision as usize;
        return format!("{value:.digits$}").parse().map_err(|_| Error::new("unrepresentable number"));
    }
    let Some(int) = exact_int(value.trunc()) else {
        return Err(Error::unsupported("rounding so large a number"));
    };
    let Some(unit) = power_of_ten(precision) else { return Ok(0.0_f64.copysign(value)) };
    let (size, fraction) = (int.abs(), value.fract().abs());
    let (whole, rest) = (size / unit, size % unit);
    let up = match rest.cmp(&(unit - rest)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => fraction > 0.0 || whole % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    let rounded = (whole + i128::from(up)).checked_mul(unit).ok_or_else(too_large)?;
    Ok((rounded as f64).copysign(value))
}

/// Ten to the power of `-precision`.
fn power_of_ten(precision: i128) -> Option<i128> {
    u32::try_from(precision.unsigned_abs()).ok().and_then(|digits| 10_i128.checked_pow(digits))
}
