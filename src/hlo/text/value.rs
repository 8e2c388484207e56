//! Printing and parsing of literals.

use std::fmt;

use half::{bf16, f16};

use crate::base::{DType, Diagnostic, Literal};

/// Maximum number of empty braces printed for a constant without elements; the verifier refuses more.
const MAX_EMPTY_ROWS: usize = 1 << 16;

/// A literal as in `constant(...)`: a scalar, or nested braces for the dimensions.
pub(super) struct LiteralText<'a>(pub &'a Literal);

impl fmt::Display for LiteralText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.0.shape();
        let rows = shape.dims.iter().take_while(|&&size| size != 0);
        if shape.elements() == 0 && rows.fold(1, |n: usize, &size| n.saturating_mul(size)) > MAX_EMPTY_ROWS {
            return f.write_str("{...}");
        }
        // No element is taken below a dimension of size zero.
        let mut elements = self.0.bytes().chunks_exact(shape.dtype.bytes());
        array(f, shape.dtype, &shape.dims, &mut elements)
    }
}

fn array<'a>(
    f: &mut fmt::Formatter<'_>,
    dtype: DType,
    dims: &[usize],
    elements: &mut impl Iterator<Item = &'a [u8]>,
) -> fmt::Result {
    let Some((&size, inner)) = dims.split_first() else {
        return element(f, dtype, elements.next().unwrap_or_default());
    };
    f.write_str("{")?;
    for index in 0..size {
        f.write_str(if index == 0 { "" } else { ", " })?;
        array(f, dtype, inner, elements)?;
    }
    f.write_str("}")
}

fn element(f: &mut fmt::Formatter<'_>, dtype: DType, bytes: &[u8]) -> fmt::Result {
    match dtype {
        DType::Pred => write!(f, "{}", le(bytes) != 0),
        DType::S8 => write!(f, "{}", le(bytes) as i8),
        DType::S16 => write!(f, "{}", le(bytes) as i16),
        DType::S32 => write!(f, "{}", le(bytes) as i32),
        DType::S64 => write!(f, "{}", le(bytes) as i64),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => write!(f, "{}", le(bytes)),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => float(f, dtype, le(bytes)),
    }
}

/// Writes the fewest digits that are parsed as the same value of `dtype`.
fn float(f: &mut fmt::Formatter<'_>, dtype: DType, bits: u64) -> fmt::Result {
    let value = match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    };
    if !value.is_finite() {
        return f.write_str(if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        });
    }
    // XLA's lexer takes `-0` for the integer zero.
    if value == 0.0 {
        return f.write_str(if value.is_sign_negative() { "-0.0" } else { "0" });
    }
    let short = shortest(dtype, value, bits);
    if (1e-5..1e16).contains(&short.abs()) { write!(f, "{short}") } else { write!(f, "{short:e}") }
}

/// The float64 with the fewest digits that XLA rounds to `bits`. XLA parses a float64 and then narrows it.
fn shortest(dtype: DType, value: f64, bits: u64) -> f64 {
    let survives = |candidate: &f64| narrow(dtype, *candidate) == bits;
    let candidates: &mut dyn Iterator<Item = String> = match dtype {
        DType::F64 => return value,
        DType::F32 => &mut std::iter::once((value as f32).to_string()),
        _ => &mut (0..9_usize).map(|digits| format!("{value:.digits$e}")),
    };
    candidates.filter_map(|text| text.parse().ok()).find(survives).unwrap_or(value)
}

/// The bits of `value` in a floating-point type, rounded through float32 as XLA does.
fn narrow(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16::from_f32(value as f32).to_bits()),
        DType::BF16 => u64::from(bf16::from_f32(value as f32).to_bits()),
        DType::F32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

/// Parses an element of type `dtype` and appends its bytes.
///
/// # Errors
/// If the text is no value of the type, or out of its range.
pub(super) fn read_element(bytes: &mut Vec<u8>, dtype: DType, text: &str) -> Result<(), Diagnostic> {
    let bits = match dtype {
        DType::Pred => match text {
            "true" | "1" => 1,
            "false" | "0" => 0,
            _ => return Err(format!("expected true or false, found {text}").into()),
        },
        _ if dtype.is_float() => read_float(dtype, text)?,
        _ => read_integer(dtype, text)?,
    };
    bytes.extend(&bits.to_le_bytes()[..dtype.bytes()]);
    Ok(())
}

fn read_integer(dtype: DType, text: &str) -> Result<u64, Diagnostic> {
    let value: i128 =
        text.parse().map_err(|_| Diagnostic::from(format!("expected an integer, found {text}")))?;
    let bits = dtype.bits();
    let (low, high) = if dtype.is_signed() {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    if value < low || value > high {
        return Err(format!("out of range of {dtype}: {text}").into());
    }
    Ok(value as u64)
}

fn read_float(dtype: DType, text: &str) -> Result<u64, Diagnostic> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned == "nan" {
        return Ok(narrow(dtype, f64::NAN));
    }
    let value: f64 =
        text.parse().map_err(|_| Diagnostic::from(format!("expected a number, found {text}")))?;
    let bits = narrow(dtype, value);
    if unsigned != "inf" && bits & narrow(dtype, f64::INFINITY) == narrow(dtype, f64::INFINITY) {
        return Err(format!("out of range of {dtype}: {text}").into());
    }
    Ok(bits)
}

/// Up to eight little-endian bytes as an integer.
fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ArrayShape;

    fn check(literal: Literal, expect: &str) {
        assert_eq!(LiteralText(&literal).to_string(), expect);
    }

    #[test]
    fn arrays_print_one_pair_of_braces_for_each_dimension() {
        let special = [1.0, 2.5, 3.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        check(Literal::f32s([2, 3], &special), "{{1, 2.5, 3}, {nan, inf, -inf}}");
        check(Literal::f32s([3, 0], &[]), "{{}, {}, {}}");
        check(Literal::f32s([0], &[]), "{}");
        check(Literal::f32s([1 << 62, 0], &[]), "{...}");
        check(Literal::s32s([2], &[i32::MIN, 7]), "{-2147483648, 7}");
        check(Literal::from_f64s(ArrayShape::new(DType::Pred, [2]), [1.0, 0.0]), "{true, false}");
    }

    #[test]
    fn floats_print_the_fewest_digits_that_round_trip() {
        let check = |dtype, value, expect: &str| check(Literal::scalar(dtype, value), expect);
        check(DType::BF16, 0.1, "0.1");
        check(DType::F16, 65504.0, "65500");
        check(DType::F16, 6e-8, "6e-8");
        check(DType::F32, 0.1, "0.1");
        check(DType::F32, -1e-6, "-1e-6");
        check(DType::F32, 3.402_823_466e38, "3.4028235e38");
        check(DType::F64, 1.0 / 3.0, "0.3333333333333333");
        check(DType::F64, -0.0, "-0.0");
    }

    #[test]
    fn every_half_reads_back() {
        for dtype in [DType::F16, DType::BF16] {
            for bits in 0..=u16::MAX {
                let literal = Literal::from_bytes(ArrayShape::scalar(dtype), bits.to_le_bytes().to_vec());
                let text = LiteralText(&literal).to_string();
                let mut bytes = Vec::new();
                read_element(&mut bytes, dtype, &text).unwrap();
                assert!(text == "nan" || bytes == literal.bytes(), "{dtype} {bits:#x}: {text}");
            }
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let check = |dtype, text, expect: &str| {
            assert_eq!(read_element(&mut Vec::new(), dtype, text).unwrap_err().message, expect);
        };
        check(DType::S8, "300", "out of range of s8: 300");
        check(DType::U64, "-1", "out of range of u64: -1");
        check(DType::F32, "1e39", "out of range of f32: 1e39");
        check(DType::F32, "one", "expected a number, found one");
        check(DType::S32, "1.5", "expected an integer, found 1.5");
        check(DType::Pred, "2", "expected true or false, found 2");
    }
}
