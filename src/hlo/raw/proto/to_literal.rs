//! Literals as messages.

use super::{
    messages_data::{LiteralProto, ShapeProto},
    number::Format,
    text_literal::dims_and_strides,
    text_shape::{TUPLE, element_type},
    to_shape::not_an_array,
    value::Value,
};
use crate::hlo::raw::{
    cursor::{Parsed, SyntaxError},
    primitive::PrimitiveType,
};

/// Maximum number of elements of an array of which the text has one.
const MAX_FILLED: usize = 1 << 20;

/// The literal here, of a known shape.
pub(super) fn literal(value: &mut Value<'_>, shape: &ShapeProto) -> Parsed<LiteralProto> {
    value.0.skip_blank()?;
    if shape.element_type == TUPLE {
        if value.next_is(b'{')? {
            return Err(elided(value));
        }
        value.expect(b'(')?;
        let mut elements = Vec::with_capacity(shape.tuple_shapes.len());
        for element in &shape.tuple_shapes {
            value.accept(b',')?;
            elements.push(literal(value, element)?);
        }
        value.expect(b')')?;
        return Ok(LiteralProto { tuple_literals: elements, ..empty(shape) });
    }
    let at = value.0.at();
    let element = element_type(shape.element_type).map_err(|_| not_an_array(at))?;
    let (dims, strides) = dims_and_strides(shape).map_err(|error| SyntaxError::new(at, error.message))?;
    let mut elements = Elements { element, bits: Vec::new(), offsets: Vec::new() };
    let count = dims.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    let is_filled = !dims.is_empty() && !value.next_is(b'{')?;
    if is_filled || dims.is_empty() {
        elements.read(value, 0)?;
    } else {
        elements.rows(value, &dims, &strides, 0)?;
    }
    let count = match count {
        Some(count) if count == elements.bits.len() || (is_filled && count <= MAX_FILLED) => count,
        _ if is_filled => {
            let message =
                format!("expected at most {MAX_FILLED} elements in an array of which the text has one");
            return Err(SyntaxError::new(at, message));
        }
        _ => {
            let message = format!("expected an element for each index, found {}", elements.bits.len());
            return Err(SyntaxError::new(at, message));
        }
    };
    Ok(elements.proto(shape, count))
}

/// `f32[2] {1, 2}`, or several in parentheses.
pub(super) fn with_shapes(value: &mut Value<'_>) -> Parsed<LiteralProto> {
    nested(value, 0)
}

fn nested(value: &mut Value<'_>, depth: usize) -> Parsed<LiteralProto> {
    if !value.next_is(b'(')? {
        let shape = super::to_shape::shape(value)?;
        return literal(value, &shape);
    }
    // The shape of the tuple may be in front of all elements instead.
    let mut shaped = *value;
    if let Ok(shape) = super::to_shape::shape(&mut shaped)
        && shaped.next_is(b'(')?
    {
        *value = shaped;
        return literal(value, &shape);
    }
    if depth > crate::hlo::limits::MAX_TUPLE_NESTING {
        return Err(value.error("fewer nested tuples"));
    }
    let elements = value.items(b'(', b')', |value| nested(value, depth + 1))?;
    let shapes = elements.iter().map(|element| element.shape.clone().unwrap_or_default());
    let shape = ShapeProto { element_type: TUPLE, tuple_shapes: shapes.collect(), ..ShapeProto::default() };
    Ok(LiteralProto { tuple_literals: elements, ..empty(&shape) })
}

fn empty(shape: &ShapeProto) -> LiteralProto {
    LiteralProto { shape: Some(shape.clone()), ..LiteralProto::default() }
}

fn elided(value: &Value<'_>) -> SyntaxError {
    SyntaxError::new(value.0.at(), "expected the elements of a constant, found `{...}`")
        .with_hint("print the module with large constants: `print_large_constants` in HloPrintOptions")
}

/// Elements as their bits, two for a complex number, and where each is in memory.
struct Elements {
    element: PrimitiveType,
    bits: Vec<[u64; 2]>,
    offsets: Vec<u32>,
}

impl Elements {
    fn rows(
        &mut self,
        value: &mut Value<'_>,
        dims: &[usize],
        strides: &[usize],
        offset: usize,
    ) -> Parsed<()> {
        value.expect(b'{')?;
        for position in 0..dims[0] {
            while value.accept(b',')? {}
            value.0.skip_blank()?;
            if value.0.peek() == b'.' && value.0.peek_at(1) == b'.' {
                return Err(elided(value));
            }
            let offset = offset.saturating_add(position.saturating_mul(strides[0]));
            if dims.len() > 1 {
                self.rows(value, &dims[1..], &strides[1..], offset)?;
            } else {
                self.read(value, offset)?;
            }
        }
        while value.accept(b',')? {}
        if value.next_is(b'.')? {
            return Err(elided(value));
        }
        value.expect(b'}')
    }

    fn read(&mut self, value: &mut Value<'_>, offset: usize) -> Parsed<()> {
        value.0.skip_blank()?;
        let at = *value;
        let part = match self.element {
            PrimitiveType::C64 => Some(PrimitiveType::F32),
            PrimitiveType::C128 => Some(PrimitiveType::F64),
            _ => None,
        };
        let bits = match part {
            None => [self.bits_of(value, self.element)?, 0],
            Some(part) if value.accept(b'(')? => {
                let real = self.bits_of(value, part)?;
                value.expect(b',')?;
                let imag = self.bits_of(value, part)?;
                value.expect(b')')?;
                [real, imag]
            }
            Some(part) => [self.bits_of(value, part)?, 0],
        };
        if self.element.bits() == 0 {
            return Err(at.error("a type with elements"));
        }
        self.bits.push(bits);
        // An array has at most as many elements as its text has bytes.
        self.offsets.push(u32::try_from(offset).unwrap_or(u32::MAX));
        Ok(())
    }

    fn bits_of(&self, value: &mut Value<'_>, element: PrimitiveType) -> Parsed<u64> {
        value.0.skip_blank()?;
        let at = *value;
        let token = value.token();
        let is_nan = matches!(token, "nan" | "-nan") && value.0.peek() == b'(';
        if is_nan {
            value.0.skip_group()?;
        }
        let text = std::str::from_utf8(value.0.bytes(at.0.at()..value.0.at())).unwrap_or_default();
        let wrong = || at.error(&format!("a value of {}", element.name()));
        if let Some(format) = Format::of(element) {
            return format.bits(text).ok_or_else(wrong);
        }
        match (element, text) {
            (PrimitiveType::Pred, "true") => Ok(1),
            (PrimitiveType::Pred, "false") => Ok(0),
            (PrimitiveType::Pred, _) => {
                text.parse::<i64>().map(|number| u64::from(number != 0)).map_err(|_| wrong())
            }
            _ => text.parse::<i128>().map(|number| number as u64).map_err(|_| wrong()),
        }
    }

    /// The message of an array with so many elements. Those that were not read are zero.
    fn proto(self, shape: &ShapeProto, count: usize) -> LiteralProto {
        use PrimitiveType as P;
        let mut bits = self.bits;
        let is_in_order = (0..).zip(&self.offsets).all(|(position, &offset)| position == offset);
        if !is_in_order {
            let read = bits.clone();
            for (&offset, element) in self.offsets.iter().zip(read) {
                if let Some(place) = bits.get_mut(offset as usize) {
                    *place = element;
                }
            }
        }
        bits.resize(count, [0; 2]);
        let mut proto = empty(shape);
        let single = |bits: u64| f32::from_bits(bits as u32);
        match self.element {
            P::Pred => proto.preds = bits.iter().map(|bits| bits[0] != 0).collect(),
            P::S32 => proto.s32s = bits.iter().map(|bits| bits[0] as i32).collect(),
            P::S64 => proto.s64s = bits.iter().map(|bits| bits[0] as i64).collect(),
            P::U32 => proto.u32s = bits.iter().map(|bits| bits[0] as u32).collect(),
            P::U64 => proto.u64s = bits.iter().map(|bits| bits[0]).collect(),
            P::F32 => proto.f32s = bits.iter().map(|bits| single(bits[0])).collect(),
            P::F64 => proto.f64s = bits.iter().map(|bits| f64::from_bits(bits[0])).collect(),
            P::C64 => proto.c64s = bits.iter().flatten().map(|&bits| single(bits)).collect(),
            P::C128 => proto.c128s = bits.iter().flatten().map(|&bits| f64::from_bits(bits)).collect(),
            element => {
                let width = element.bits();
                let bytes = bits.iter().flat_map(|bits| {
                    let bits = bits[0] & (u64::MAX >> (64 - width.max(1)));
                    bits.to_le_bytes().into_iter().take(width.div_ceil(8) as usize)
                });
                proto.set_bytes(element, bytes.collect());
            }
        }
        proto
    }
}
