//! Digits of floats.

use super::error::{Error, Result};

/// The integer equal to a float, if there is one within 128 bits.
pub(super) fn exact_int(value: f64) -> Option<i128> {
    (value.fract() == 0.0 && value.abs() < 1e38).then_some(value as i128)
}

/// `int(value)` of a float, if it fits in 128 bits.
pub(super) fn truncated(value: f64) -> Option<i128> {
    exact_int(value.trunc())
}

/// `repr` of a float.
pub(super) fn repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Limit on digits after the decimal point.
const MAX_PRECISION: usize = 1_000;

/// The digits of a number that is not negative, by the conversions `e`, `f` and `g` of C.
pub(super) fn digits(number: f64, kind: char, precision: Option<usize>, alternate: bool) -> Result<String> {
    let precision = precision.unwrap_or(6);
    if precision > MAX_PRECISION {
        return Err(Error::new(format!("more than {MAX_PRECISION} digits after the decimal point")));
    }
    if !number.is_finite() {
        let digits = if number.is_nan() { "nan" } else { "inf" };
        return Ok(if kind.is_ascii_uppercase() { digits.to_uppercase() } else { digits.to_owned() });
    }
    let point = if alternate && precision == 0 { "." } else { "" };
    let text = match kind.to_ascii_lowercase() {
        'f' => format!("{number:.precision$}{point}"),
        'e' => exponential(number, precision, point),
        _ => general(number, precision.max(1), alternate),
    };
    Ok(if kind.is_ascii_uppercase() { text.to_uppercase() } else { text })
}

fn exponential(number: f64, precision: usize, point: &str) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}{point}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn general(number: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{number:.*e}", precision - 1);
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let limit = i32::try_from(precision).unwrap_or(i32::MAX);
    let trimmed = |digits: String| {
        if alternate || !digits.contains('.') {
            return digits;
        }
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if (-4..limit).contains(&exponent) {
        let places = usize::try_from(limit - 1 - exponent).unwrap_or(0);
        return trimmed(format!("{number:.places$}"));
    }
    let text = exponential(number, precision - 1, "");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    format!("{}e{exponent}", trimmed(digits.to_owned()))
}
