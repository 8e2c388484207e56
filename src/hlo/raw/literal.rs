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
    let part = match element_type {
        PrimitiveType::C64 => PrimitiveType::F32,
        PrimitiveType::C128 => PrimitiveType::F64,
        _ => return number(cursor, element_type),
    };
    cursor.expect(b'(')?;
    number(cursor, part)?;
    cursor.expect(b',')?;
    number(cursor, part)?;
    cursor.expect(b')')
}

fn number(cursor: &mut Cursor<'_>, element_type: PrimitiveType) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = *cursor;
    value::element(cursor)?;
    let text = std::str::from_utf8(start.bytes(start.at()..cursor.at())).unwrap_or_default();
    if matches!(text, "nan" | "-nan") && cursor.peek() == b'(' {
        return nan_payload(cursor, element_type);
    }
    let is_valid = match text {
        "true" | "false" => element_type == PrimitiveType::Pred,
        _ => in_range(text, element_type),
    };
    if is_valid { Ok(()) } else { Err(start.unexpected(&format!("a value of {}", element_type.name()))) }
}

/// `(0x400)`: the mantissa of a NaN.
fn nan_payload(cursor: &mut Cursor<'_>, element_type: PrimitiveType) -> Parsed<()> {
    let at = cursor.at();
    let (bits, _) = float_format(element_type);
    cursor.skip_group()?;
    let text = std::str::from_utf8(cursor.bytes(at + 1..cursor.at() - 1)).unwrap_or_default();
    let payload = text.trim().strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let valid = payload.is_some_and(|payload| payload > 0 && payload < 1 << bits);
    if valid {
        return Ok(());
    }
    let name = element_type.name();
    let expected = match bits {
        0 => format!("no payload, as {name} has one NaN"),
        _ => format!("a payload of {name} from 0x1 to {:#x}", (1_u64 << bits) - 1),
    };
    Err(SyntaxError::new(at, format!("expected {expected}, found `{}`", text.trim())))
}

/// Bits of the payload of a NaN, and the smallest magnitude that is out of range: it rounds to infinity or to NaN.
fn float_format(element_type: PrimitiveType) -> (u32, f64) {
    match element_type {
        PrimitiveType::F64 => (52, f64::INFINITY),
        PrimitiveType::F32 => (23, 3.402_823_567_797_336_6e38),
        PrimitiveType::BF16 => (7, 3.396_177_529_230_46e38),
        PrimitiveType::F16 => (10, 65520.0),
        PrimitiveType::F8E5M2 => (2, 61440.0),
        PrimitiveType::F8E4M3 => (3, 248.0),
        PrimitiveType::F8E3M4 => (4, 15.75),
        // A tie rounds to the even 448.
        PrimitiveType::F8E4M3FN => (0, 464.0_f64.next_up()),
        PrimitiveType::F8E4M3FNUZ => (0, 248.0),
        PrimitiveType::F8E4M3B11FNUZ => (0, 31.0),
        PrimitiveType::F8E5M2FNUZ => (0, 61440.0),
        PrimitiveType::F8E8M0FNU => (0, 1.5 * 2_f64.powi(127)),
        // XLA takes the largest value for a larger one.
        _ => (0, f64::INFINITY),
    }
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
        b'f' | b'b' => {
            // XLA's numbers begin with a digit, or with `-` and a digit or a point.
            !text.starts_with(['+', '.'])
                && text.parse::<f64>().is_ok_and(|value| fits(value, text, element_type))
        }
        _ => false,
    }
}

/// Whether a finite number is finite in the element type too.
fn fits(value: f64, text: &str, element_type: PrimitiveType) -> bool {
    if value.is_nan() || value.is_infinite() {
        return matches!(text, "nan" | "-nan" | "inf" | "-inf");
    }
    let (_, limit) = float_format(element_type);
    let is_positive = element_type != PrimitiveType::F8E8M0FNU || value >= 0.0;
    is_positive && value.abs() < limit
}
