//! The literals of constants: braces nested as deep as the shape has dimensions, with as many elements as it has.

use super::{
    cursor::{Cursor, Parsed, SyntaxError},
    primitive::PrimitiveType,
    shape::{Array, Shape, ShapeId, ShapeTable},
    value,
};

/// Skips a literal of this shape.
pub(super) fn skip(cursor: &mut Cursor<'_>, shapes: &ShapeTable, shape: ShapeId) -> Parsed<()> {
    cursor.skip_blank()?;
    match shapes.get(shape) {
        Shape::Array(array) => skip_array(cursor, array),
        Shape::Buffer(inner) => skip(cursor, shapes, *inner),
        Shape::Tuple(elements) => {
            cursor.expect(b'(')?;
            for (index, &element) in elements.iter().enumerate() {
                if index > 0 {
                    cursor.expect(b',')?;
                }
                skip(cursor, shapes, element)?;
            }
            cursor.expect(b')')
        }
    }
}

fn skip_array(cursor: &mut Cursor<'_>, array: &Array) -> Parsed<()> {
    let dims: Vec<u64> = array.dims.iter().map(|dim| dim.bound().unwrap_or(0)).collect();
    if dims.is_empty() || cursor.peek() != b'{' {
        // XLA reads a number in place of an array as its first element.
        return element(cursor, array.element);
    }
    rows(cursor, array.element, &dims, 0)
}

/// `{` rows or elements `}`
fn rows(cursor: &mut Cursor<'_>, element_type: PrimitiveType, dims: &[u64], depth: usize) -> Parsed<()> {
    cursor.expect(b'{')?;
    let at = cursor.at() - 1;
    let mut found = 0;
    loop {
        cursor.skip_blank()?;
        match cursor.peek() {
            b'}' => break,
            b',' => cursor.advance(1),
            b'.' if cursor.peek_at(1) == b'.' && cursor.peek_at(2) == b'.' => {
                if depth > 0 {
                    return Err(SyntaxError::new(cursor.at(), "expected `...` in the outermost braces only"));
                }
                cursor.advance(3);
                found = dims[0];
            }
            byte => {
                match (dims.len() > 1, byte == b'{') {
                    (true, true) => rows(cursor, element_type, &dims[1..], depth + 1)?,
                    (false, false) => element(cursor, element_type)?,
                    (true, false) => return Err(cursor.unexpected("`{`")),
                    (false, true) => return Err(cursor.unexpected("an element")),
                }
                found += 1;
            }
        }
    }
    cursor.advance(1);
    if found == dims[0] {
        return Ok(());
    }
    Err(SyntaxError::new(at, format!("expected {} elements or rows, found {found}", dims[0])))
}

/// One element, within the range of its type.
fn element(cursor: &mut Cursor<'_>, element_type: PrimitiveType) -> Parsed<()> {
    cursor.skip_blank()?;
    let is_complex = matches!(element_type, PrimitiveType::C64 | PrimitiveType::C128);
    if is_complex && cursor.peek() == b'(' {
        cursor.advance(1);
        value::element(cursor)?;
        cursor.expect(b',')?;
        value::element(cursor)?;
        return cursor.expect(b')');
    }
    let start = *cursor;
    value::element(cursor)?;
    let text = std::str::from_utf8(start.bytes(start.at()..cursor.at())).unwrap_or_default();
    if matches!(text, "nan" | "-nan") && cursor.peek() == b'(' {
        cursor.skip_group()?;
        return Ok(());
    }
    let is_valid = match text {
        "true" | "false" => element_type == PrimitiveType::Pred,
        _ => in_range(text, element_type),
    };
    if is_valid { Ok(()) } else { Err(start.unexpected(&format!("a value of {}", element_type.name()))) }
}

/// Whether a number is one of the element type.
fn in_range(text: &str, element_type: PrimitiveType) -> bool {
    let name = element_type.name();
    let bits = element_type.bits();
    match name.as_bytes()[0] {
        b's' => text.parse().is_ok_and(|value: i128| value >= -(1 << (bits - 1)) && value < 1 << (bits - 1)),
        // XLA reads negative numbers as those of 64 bits without a sign.
        b'u' if bits == 64 => text.parse().is_ok_and(|value: i128| (-(1 << 63)..1 << 64).contains(&value)),
        b'u' => text.parse().is_ok_and(|value: i128| value >= 0 && value < 1 << bits),
        b'p' => text.parse::<i64>().is_ok(),
        b'f' | b'b' | b'c' => text.parse::<f64>().is_ok_and(|value| fits(value, text, element_type)),
        _ => false,
    }
}

/// Whether a finite number is finite in the element type too.
fn fits(value: f64, text: &str, element_type: PrimitiveType) -> bool {
    let is_word = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
    let rounded = match element_type {
        PrimitiveType::F16 => half::f16::from_f64(value).to_f64(),
        PrimitiveType::BF16 => half::bf16::from_f64(value).to_f64(),
        PrimitiveType::F32 | PrimitiveType::C64 => f64::from(value as f32),
        _ => value,
    };
    is_word || rounded.is_finite()
}
