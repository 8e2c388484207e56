//! Constants. Every text is parsed to the same bits.

use std::fmt::Write;

use half::{bf16, f16};

use crate::base::{DType, Literal};

/// Constants with more elements are written as one string of hexadecimal digits.
const MAX_LISTED: usize = 64;

/// `dense<[1, 2]>`, without the type.
pub(super) fn dense(literal: &Literal) -> String {
    let shape = literal.shape();
    let width = shape.dtype.bytes();
    let mut elements = literal.bytes().chunks_exact(width);
    let Some(first) = elements.next() else { return "dense<>".to_owned() };
    if elements.clone().all(|element| element == first) {
        return format!("dense<{}>", element(shape.dtype, first));
    }
    // MLIR's versions differ in the bytes of booleans.
    if shape.elements() > MAX_LISTED && shape.dtype != DType::Pred {
        return format!("dense<\"0x{}\">", hex(literal.bytes().iter()));
    }
    let mut text = String::from("dense<");
    nested(&mut text, shape.dtype, &shape.dims, &mut literal.bytes().chunks_exact(width));
    text.push('>');
    text
}

fn hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        // A string has room for every text.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

fn nested<'a>(
    text: &mut String,
    dtype: DType,
    dims: &[usize],
    elements: &mut impl Iterator<Item = &'a [u8]>,
) {
    let Some((&size, inner)) = dims.split_first() else {
        return text.push_str(&element(dtype, elements.next().unwrap_or_default()));
    };
    text.push('[');
    for index in 0..size {
        text.push_str(if index == 0 { "" } else { ", " });
        nested(text, dtype, inner, elements);
    }
    text.push(']');
}

fn element(dtype: DType, bytes: &[u8]) -> String {
    let bits = bytes.iter().rev().fold(0, |bits: u64, &byte| bits << 8 | u64::from(byte));
    match dtype {
        DType::Pred => (bits != 0).to_string(),
        DType::S8 => (bits as i8).to_string(),
        DType::S16 => (bits as i16).to_string(),
        DType::S32 => (bits as i32).to_string(),
        DType::S64 => (bits as i64).to_string(),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => bits.to_string(),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
            decimal(dtype, bits).unwrap_or_else(|| format!("0x{}", hex(bytes.iter().rev())))
        }
    }
}

/// A decimal number of a few digits, if it is parsed to these bits: MLIR parses a float64 and then narrows it.
fn decimal(dtype: DType, bits: u64) -> Option<String> {
    let (shortest, value) = match dtype {
        DType::F16 => shortest(f16::from_bits(bits as u16).to_f32()),
        DType::BF16 => shortest(bf16::from_bits(bits as u16).to_f32()),
        DType::F32 => shortest(f32::from_bits(bits as u32)),
        _ => (format!("{:?}", f64::from_bits(bits)), f64::from_bits(bits)),
    };
    let narrowed = match dtype {
        DType::F16 => f16::from_f64(value).to_bits().into(),
        DType::BF16 => bf16::from_f64(value).to_bits().into(),
        DType::F32 => (value as f32).to_bits().into(),
        _ => value.to_bits(),
    };
    let exact = value.is_finite() && narrowed == bits;
    exact.then(|| match shortest.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => shortest,
    })
}

/// The fewest digits of a float32, and the float64 that they are parsed to.
fn shortest(value: f32) -> (String, f64) {
    let text = format!("{value:?}");
    let parsed = text.parse().unwrap_or(f64::NAN);
    (text, parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ArrayShape;

    fn check(literal: Literal, expect: &str) {
        assert_eq!(dense(&literal), format!("dense<{expect}>"));
    }

    #[test]
    fn elements_are_decimal_where_that_is_exact() {
        check(Literal::f32s([], &[0.1]), "0.1");
        check(Literal::f32s([3], &[1e-45, -0.0, 3.4028235e38]), "[1.0e-45, -0.0, 3.4028235e38]");
        check(Literal::scalar(DType::BF16, 0.1), "0.100097656");
        check(Literal::scalar(DType::F64, 1.0 / 3.0), "0.3333333333333333");
        check(Literal::from_f64s(ArrayShape::new(DType::Pred, [2]), [1.0, 0.0]), "[true, false]");
        check(Literal::s32s([2, 2], &[i32::MIN, 7, 8, 9]), "[[-2147483648, 7], [8, 9]]");
    }

    #[test]
    fn infinities_and_nans_keep_their_bits() {
        check(Literal::f32s([], &[f32::INFINITY]), "0x7F800000");
        let nan = Literal::from_bytes(ArrayShape::scalar(DType::BF16), vec![0x81, 0xff]);
        check(nan, "0xFF81");
        check(Literal::scalar(DType::F16, f64::NEG_INFINITY), "0xFC00");
    }

    #[test]
    fn equal_elements_are_written_once_and_many_others_as_bytes() {
        check(Literal::f32s([2, 3], &[1.0; 6]), "1.0");
        check(Literal::f32s([3, 0], &[]), "");
        let count = MAX_LISTED + 1;
        let counting = Literal::from_f64s(ArrayShape::new(DType::S16, [count]), (0..count).map(|n| n as f64));
        let text = dense(&counting);
        assert!(text.starts_with("dense<\"0x000001000200") && text.ends_with("4000\">"), "{text}");
    }
}
