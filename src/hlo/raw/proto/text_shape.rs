//! Shapes and literals as text.

use std::fmt::Write;

use super::messages_data::{LayoutProto, ProgramShapeProto, ShapeProto};
use crate::{
    base::Diagnostic,
    hlo::{
        limits::{MAX_DIMS, MAX_TUPLE_NESTING},
        raw::primitive::PrimitiveType,
    },
};

/// `PrimitiveType.TUPLE` and `BUFFER`.
pub(super) const TUPLE: i32 = 13;
pub(super) const BUFFER: i32 = 34;

/// The size in a tile that combines a dimension with the next one, and the size of a dimension without a bound.
pub(super) const ANY_SIZE: i64 = i64::MIN;

pub(super) fn element_type(number: i32) -> Result<PrimitiveType, Diagnostic> {
    let found = PrimitiveType::ALL.iter().copied().find(|element| element.xla_number() == number);
    found.ok_or_else(|| format!("unknown element type: {number}").into())
}

/// Whether a shape is printed with its layouts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Layouts {
    Printed,
    LeftOut,
}

/// Appends a shape with its layouts.
pub(super) fn push_shape(out: &mut String, shape: &ShapeProto) -> Result<(), Diagnostic> {
    nested(out, shape, Layouts::Printed, 0)
}

/// What separates the elements of a list: XLA counts every fifth.
pub(super) fn separator(index: usize) -> String {
    match index {
        0 => String::new(),
        _ if index.is_multiple_of(5) => format!(", /*index={index}*/"),
        _ => ", ".to_owned(),
    }
}

fn nested(out: &mut String, shape: &ShapeProto, layouts: Layouts, depth: usize) -> Result<(), Diagnostic> {
    if depth > MAX_TUPLE_NESTING {
        return Err(format!("expected at most {MAX_TUPLE_NESTING} nested tuples, found more").into());
    }
    match (shape.element_type, shape.tuple_shapes.as_slice()) {
        (TUPLE, elements) => {
            out.push('(');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(&separator(index));
                nested(out, element, layouts, depth + 1)?;
            }
            out.push(')');
            Ok(())
        }
        (BUFFER, [inner]) => {
            out.push_str("b(");
            nested(out, inner, layouts, depth + 1)?;
            out.push(')');
            Ok(())
        }
        (BUFFER, elements) => Err(format!("expected one shape in a buffer, found {}", elements.len()).into()),
        _ => array(out, shape, layouts),
    }
}

fn array(out: &mut String, shape: &ShapeProto, layouts: Layouts) -> Result<(), Diagnostic> {
    let rank = shape.dimensions.len();
    if rank > MAX_DIMS {
        return Err(format!("expected at most {MAX_DIMS} dimensions, found {rank}").into());
    }
    let _ = write!(out, "{}[", element_type(shape.element_type)?.name());
    for (index, &size) in shape.dimensions.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        let dynamic = shape.is_dynamic_dimension.get(index).copied().unwrap_or(false);
        match (dynamic, size) {
            (true, ANY_SIZE) => out.push('?'),
            (_, ..0) => return Err(format!("expected a dimension of zero or more, found {size}").into()),
            (true, _) => drop(write!(out, "<={size}")),
            (false, _) => drop(write!(out, "{size}")),
        }
    }
    out.push(']');
    match &shape.layout {
        Some(layout) if layouts == Layouts::Printed => push_layout(out, layout),
        _ => Ok(()),
    }
}

/// Appends `{1,0:T(8,128)}`, or nothing for the plain layout of a scalar.
fn push_layout(out: &mut String, layout: &LayoutProto) -> Result<(), Diagnostic> {
    let mut properties = String::new();
    push_level_types(&mut properties, layout)?;
    if !layout.tiles.is_empty() {
        properties.push('T');
    }
    for tile in &layout.tiles {
        let sizes = tile.dimensions.iter().map(|&size| match size {
            ANY_SIZE => "*".to_owned(),
            size => size.to_string(),
        });
        let _ = write!(properties, "({})", sizes.collect::<Vec<_>>().join(","));
    }
    if !matches!(layout.tail_padding_alignment_in_elements, 0 | 1) {
        let _ = write!(properties, "L({})", layout.tail_padding_alignment_in_elements);
    }
    for (mark, number) in [('#', layout.index_primitive_type), ('*', layout.pointer_primitive_type)] {
        if number != 0 {
            let _ = write!(properties, "{mark}({})", element_type(number)?.name());
        }
    }
    for (mark, value) in [('E', layout.element_size_in_bits), ('S', layout.memory_space)] {
        if value != 0 {
            let _ = write!(properties, "{mark}({value})");
        }
    }
    if !layout.split_configs.is_empty() {
        properties.push_str("SC");
    }
    for split in &layout.split_configs {
        let _ = write!(properties, "({}:{})", split.dimension, join(&split.split_indices));
    }
    if let Some(physical) = &layout.physical_shape {
        properties.push_str("P(");
        if physical.layout.as_ref().is_some_and(|layout| layout.physical_shape.is_some()) {
            return Err("expected a physical shape without a physical shape of its own".into());
        }
        push_shape(&mut properties, physical)?;
        properties.push(')');
    }
    if layout.dynamic_shape_metadata_prefix_bytes != 0 {
        let _ = write!(properties, "M({})", layout.dynamic_shape_metadata_prefix_bytes);
    }
    if !layout.minor_to_major.is_empty() || !properties.is_empty() {
        let colon = if properties.is_empty() { "" } else { ":" };
        let _ = write!(out, "{{{}{colon}{properties}}}", join(&layout.minor_to_major));
    }
    Ok(())
}

/// Letters of `DimLevelType`.
pub(super) const LEVEL_TYPES: &[u8] = b"DCSH";

fn push_level_types(out: &mut String, layout: &LayoutProto) -> Result<(), Diagnostic> {
    for (index, &level) in layout.dim_level_types.iter().enumerate() {
        let letter = usize::try_from(level).ok().and_then(|level| LEVEL_TYPES.get(level));
        let letter = letter.ok_or_else(|| format!("unknown level type of a dimension: {level}"))?;
        let _ = write!(out, "{}{}", if index == 0 { "D(" } else { "," }, *letter as char);
        let is_false = |list: &[bool]| list.get(index) == Some(&false);
        out.push_str(if is_false(&layout.dim_unique) { "+" } else { "" });
        out.push_str(if is_false(&layout.dim_ordered) { "~" } else { "" });
    }
    out.push_str(if layout.dim_level_types.is_empty() { "" } else { ")" });
    Ok(())
}

/// Appends `(a: f32[2]) -> f32[2]`, the head of a computation.
pub(super) fn push_signature(out: &mut String, shape: &ProgramShapeProto) -> Result<(), Diagnostic> {
    out.push_str(" (");
    for (index, (parameter, name)) in shape.parameters.iter().zip(&shape.parameter_names).enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        push_name(out, name)?;
        out.push_str(": ");
        nested(out, parameter, Layouts::LeftOut, 0)?;
    }
    out.push_str(") -> ");
    nested(out, shape.result.as_ref().ok_or("missing result of a program shape")?, Layouts::LeftOut, 0)
}

/// Appends a name, with `%` in front of it if it would be no word without.
pub(super) fn push_name(out: &mut String, name: &str) -> Result<(), Diagnostic> {
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    out.push_str(if is_word { "" } else { "%" });
    out.push_str(valid_name(name)?);
    Ok(())
}

/// A name that HLO text can have after `%`.
pub(super) fn valid_name(name: &str) -> Result<&str, Diagnostic> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if !name.is_empty() && name.bytes().all(valid) {
        return Ok(name);
    }
    Err(format!("expected a name of letters, digits, `_`, `.` and `-`, found {name:?}").into())
}

/// Appends `(f32[2]{0})->f32[2]{0}`.
pub(super) fn push_program_shape(out: &mut String, shape: &ProgramShapeProto) -> Result<(), Diagnostic> {
    out.push('(');
    for (index, parameter) in shape.parameters.iter().enumerate() {
        out.push_str(&separator(index));
        push_shape(out, parameter)?;
    }
    out.push_str(")->");
    push_shape(out, shape.result.as_ref().ok_or("missing result of a program shape")?)
}

/// `1,2`
pub(super) fn join<T: ToString>(list: &[T]) -> String {
    list.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
