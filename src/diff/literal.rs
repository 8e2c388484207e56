//! The literals of constants in one spelling.

use std::{borrow::Cow, fmt::Write};

use super::attributes::without_blanks;
use crate::hlo::raw::{PrimitiveType, Shape};

/// Whether elements of a literal are left out: `{...}`.
pub(super) fn is_elided(literal: &str) -> bool {
    literal.contains("...")
}

/// The literal without blanks, and with numbers of floating-point types as the bits of their values: `1`, `1.0` and `1e0` are
/// one number.
pub(super) fn canonical<'m>(literal: &'m str, shape: &Shape) -> Cow<'m, str> {
    let compact = without_blanks(literal);
    let element = match shape {
        Shape::Array(array) => array.element,
        // The elements of a tuple have several types.
        Shape::Tuple(_) | Shape::Buffer(_) => return compact,
    };
    if !is_float(element) {
        return compact;
    }
    let mut text = String::with_capacity(compact.len());
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    let mut rest = &*compact;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        number(&mut text, word, element);
        let other = after.find(is_word).unwrap_or(after.len());
        text.push_str(&after[..other]);
        rest = &after[other..];
    }
    Cow::Owned(text)
}

/// Adds the bits of a finite number, and anything else as it is.
fn number(text: &mut String, word: &str, element: PrimitiveType) {
    let value = word.parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(value) = value else { return text.push_str(word) };
    let value = match element {
        PrimitiveType::F32 | PrimitiveType::C64 => f64::from(value as f32),
        PrimitiveType::BF16 => half::bf16::from_f64(value).to_f64(),
        PrimitiveType::F16 => half::f16::from_f64(value).to_f64(),
        _ => value,
    };
    let _ = write!(text, "{:x}", value.to_bits());
}

fn is_float(element: PrimitiveType) -> bool {
    matches!(element.name().as_bytes()[0], b'f' | b'b' | b'c')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::{Array, Dimension};

    fn of(literal: &str, element: PrimitiveType) -> String {
        let array = Array { element, dims: vec![Dimension::Static(2)], layout: None };
        canonical(literal, &Shape::Array(array)).into_owned()
    }

    #[test]
    fn numbers_of_one_value_are_equal() {
        let f32s = |literal| of(literal, PrimitiveType::F32);
        assert_eq!(f32s("{ 1, 0.1 }"), f32s("{1.0,1e-1}"));
        assert_eq!(f32s("{0.1,-inf}"), f32s("{0.100000001, -inf}"));
        assert_ne!(f32s("{0,1}"), f32s("{-0,1}"));
        assert_ne!(f32s("nan"), f32s("-nan"));
        assert_ne!(of("0.100000001", PrimitiveType::F64), of("0.1", PrimitiveType::F64));
        assert_eq!(of("{1, 2}", PrimitiveType::S32), "{1,2}");
        assert_ne!(of("{12,3}", PrimitiveType::F32), of("{1,23}", PrimitiveType::F32));
    }
}
