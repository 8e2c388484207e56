//! Literals as text, and where a message keeps their elements.

use std::fmt::Write;

use super::{
    messages_data::{LiteralProto, ShapeProto},
    number::Format,
    text_shape::{TUPLE, element_type, push_shape},
};
use crate::{
    base::Diagnostic,
    hlo::{limits::MAX_DIMS, raw::primitive::PrimitiveType},
};

/// Maximum number of rows that a literal without elements prints.
const MAX_EMPTY_ROWS: usize = 1 << 16;

/// Appends a literal, without its shape or with the shapes of the arrays in it.
pub(super) fn push_literal(
    out: &mut String,
    literal: &LiteralProto,
    with_shapes: bool,
) -> Result<(), Diagnostic> {
    let shape = literal.shape.as_ref().ok_or("missing shape of the literal")?;
    if shape.element_type == TUPLE {
        if literal.tuple_literals.len() != shape.tuple_shapes.len() {
            let (expected, found) = (shape.tuple_shapes.len(), literal.tuple_literals.len());
            return Err(format!("expected {expected} elements of a literal, found {found}").into());
        }
        out.push_str("( ");
        for (index, element) in literal.tuple_literals.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { ", " });
            push_literal(out, element, with_shapes)?;
        }
        out.push_str(" )");
        return Ok(());
    }
    if with_shapes {
        push_shape(out, shape)?;
        out.push(' ');
    }
    let elements = Elements::new(literal, shape)?;
    if elements.dims.is_empty() {
        elements.push(out, 0);
        return Ok(());
    }
    let mut rows = elements.dims.iter().take_while(|&&size| size > 0);
    let rows = rows.try_fold(1_usize, |rows, &size| rows.checked_mul(size));
    if elements.dims.contains(&0) && rows.is_none_or(|rows| rows > MAX_EMPTY_ROWS) {
        return Err(format!("expected at most {MAX_EMPTY_ROWS} rows without elements, found more").into());
    }
    elements.rows(out, &mut Vec::new(), 0);
    Ok(())
}

/// The elements of an array, by their position in memory.
struct Elements<'l> {
    literal: &'l LiteralProto,
    element: PrimitiveType,
    dims: Vec<usize>,
    strides: Vec<usize>,
}

impl<'l> Elements<'l> {
    fn new(literal: &'l LiteralProto, shape: &ShapeProto) -> Result<Self, Diagnostic> {
        let element = element_type(shape.element_type)?;
        let (dims, strides) = dims_and_strides(shape)?;
        let expected = dims.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
        let expected = expected.ok_or("expected fewer elements of a literal")?;
        let found = literal.count(element);
        if found != expected {
            return Err(format!("expected {expected} elements of {}, found {found}", element.name()).into());
        }
        Ok(Self { literal, element, dims, strides })
    }

    fn rows(&self, out: &mut String, index: &mut Vec<usize>, offset: usize) {
        let rank = self.dims.len();
        let depth = index.len();
        let size = self.dims[depth];
        let is_innermost = depth + 1 == rank;
        let is_tight = rank == 1 || (is_innermost && size <= 1);
        out.push('{');
        if !is_innermost && rank > 3 && depth > 0 {
            let _ = write!(out, " /*i{}={}*/", depth - 1, index[depth - 1]);
        }
        out.push_str(if is_tight { "" } else { " " });
        for position in 0..size {
            out.push_str(if position == 0 { "" } else { ", " });
            let offset = offset + position * self.strides[depth];
            if is_innermost {
                self.push(out, offset);
            } else {
                index.push(position);
                self.rows(out, index, offset);
                index.pop();
            }
        }
        out.push_str(if is_tight { "}" } else { " }" });
    }

    fn push(&self, out: &mut String, at: usize) {
        use PrimitiveType as P;
        let literal = self.literal;
        let _ = match self.element {
            P::Pred if self.dims.is_empty() => write!(out, "{}", literal.preds[at]),
            P::Pred => write!(out, "{}", u8::from(literal.preds[at])),
            P::S32 => write!(out, "{}", literal.s32s[at]),
            P::S64 => write!(out, "{}", literal.s64s[at]),
            P::U32 => write!(out, "{}", literal.u32s[at]),
            P::U64 => write!(out, "{}", literal.u64s[at]),
            P::C64 | P::C128 => {
                let part = |at: usize| match self.element {
                    P::C64 => float(P::F32, u64::from(literal.c64s[at].to_bits())),
                    _ => float(P::F64, literal.c128s[at].to_bits()),
                };
                write!(out, "({}, {})", part(2 * at), part(2 * at + 1))
            }
            P::F32 => write!(out, "{}", float(P::F32, u64::from(literal.f32s[at].to_bits()))),
            P::F64 => write!(out, "{}", float(P::F64, literal.f64s[at].to_bits())),
            element => {
                let bits = bits_at(literal.bytes(element), element.bits(), at);
                match (element.name().as_bytes()[0], element.bits()) {
                    (b's', width) => write!(out, "{}", (bits << (64 - width)) as i64 >> (64 - width)),
                    (b'u', _) => write!(out, "{bits}"),
                    _ => write!(out, "{}", float(element, bits)),
                }
            }
        };
    }
}

fn float(element: PrimitiveType, bits: u64) -> String {
    Format::of(element).map_or_else(String::new, |format| format.text(bits))
}

/// The bits of an element in bytes: two of them, little-endian, or the low bits of one.
fn bits_at(bytes: &[u8], width: u64, at: usize) -> u64 {
    match width {
        16 => u64::from(u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]])),
        width => u64::from(bytes[at]) & ((1 << width) - 1),
    }
}

/// Sizes of an array and the distances in memory between elements along each dimension.
pub(super) fn dims_and_strides(shape: &ShapeProto) -> Result<(Vec<usize>, Vec<usize>), Diagnostic> {
    let dims: Option<Vec<usize>> = shape.dimensions.iter().map(|&size| usize::try_from(size).ok()).collect();
    let dims = dims.ok_or("expected a literal of known size")?;
    if dims.len() > MAX_DIMS {
        return Err(format!("expected at most {MAX_DIMS} dimensions, found {}", dims.len()).into());
    }
    let order: Vec<usize> = match &shape.layout {
        Some(layout) if !layout.minor_to_major.is_empty() => {
            let order = layout.minor_to_major.iter().map(|&dim| usize::try_from(dim).ok());
            order.collect::<Option<_>>().ok_or("expected dimensions in a layout")?
        }
        _ => (0..dims.len()).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..dims.len()) {
        return Err(format!("expected a layout of {} dimensions, found {order:?}", dims.len()).into());
    }
    let mut strides = vec![0; dims.len()];
    let mut stride = 1_usize;
    for dim in order {
        strides[dim] = stride;
        stride = stride.saturating_mul(dims[dim]);
    }
    Ok((dims, strides))
}

impl LiteralProto {
    /// The number of elements in the field of an element type.
    fn count(&self, element: PrimitiveType) -> usize {
        use PrimitiveType as P;
        match element {
            P::Pred => self.preds.len(),
            P::S32 => self.s32s.len(),
            P::S64 => self.s64s.len(),
            P::U32 => self.u32s.len(),
            P::U64 => self.u64s.len(),
            P::F32 => self.f32s.len(),
            P::F64 => self.f64s.len(),
            P::C64 => self.c64s.len() / 2,
            P::C128 => self.c128s.len() / 2,
            P::Token | P::Opaque => 0,
            _ => self.bytes(element).len() / element.bits().div_ceil(8) as usize,
        }
    }

    /// The field of an element type whose elements are bytes.
    fn bytes(&self, element: PrimitiveType) -> &[u8] {
        let mut found: &[u8] = &[];
        for (this, bytes) in self.byte_fields() {
            if this == element {
                found = bytes;
            }
        }
        found
    }

    fn byte_fields(&self) -> [(PrimitiveType, &[u8]); 21] {
        use PrimitiveType as P;
        [
            (P::S1, &self.s1s),
            (P::S2, &self.s2s),
            (P::S4, &self.s4s),
            (P::S8, &self.s8s),
            (P::S16, &self.s16s),
            (P::U1, &self.u1s),
            (P::U2, &self.u2s),
            (P::U4, &self.u4s),
            (P::U8, &self.u8s),
            (P::U16, &self.u16s),
            (P::F16, &self.f16s),
            (P::BF16, &self.bf16s),
            (P::F4E2M1FN, &self.f4e2m1fns),
            (P::F8E3M4, &self.f8e3m4s),
            (P::F8E4M3B11FNUZ, &self.f8e4m3b11fnuzs),
            (P::F8E4M3FN, &self.f8e4m3fns),
            (P::F8E4M3FNUZ, &self.f8e4m3fnuzs),
            (P::F8E4M3, &self.f8e4m3s),
            (P::F8E5M2FNUZ, &self.f8e5m2fnuzs),
            (P::F8E5M2, &self.f8e5m2s),
            (P::F8E8M0FNU, &self.f8e8m0fnus),
        ]
    }

    /// Sets the field of an element type whose elements are bytes.
    pub(super) fn set_bytes(&mut self, element: PrimitiveType, bytes: Vec<u8>) {
        use PrimitiveType as P;
        let field = match element {
            P::S1 => &mut self.s1s,
            P::S2 => &mut self.s2s,
            P::S4 => &mut self.s4s,
            P::S8 => &mut self.s8s,
            P::S16 => &mut self.s16s,
            P::U1 => &mut self.u1s,
            P::U2 => &mut self.u2s,
            P::U4 => &mut self.u4s,
            P::U8 => &mut self.u8s,
            P::U16 => &mut self.u16s,
            P::F16 => &mut self.f16s,
            P::BF16 => &mut self.bf16s,
            P::F4E2M1FN => &mut self.f4e2m1fns,
            P::F8E3M4 => &mut self.f8e3m4s,
            P::F8E4M3B11FNUZ => &mut self.f8e4m3b11fnuzs,
            P::F8E4M3FN => &mut self.f8e4m3fns,
            P::F8E4M3FNUZ => &mut self.f8e4m3fnuzs,
            P::F8E4M3 => &mut self.f8e4m3s,
            P::F8E5M2FNUZ => &mut self.f8e5m2fnuzs,
            P::F8E5M2 => &mut self.f8e5m2s,
            P::F8E8M0FNU => &mut self.f8e8m0fnus,
            _ => return,
        };
        *field = bytes;
    }
}
