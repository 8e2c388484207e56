//! Shapes as messages.

use super::{
    messages_data::{LayoutProto, ProgramShapeProto, ShapeProto, SplitConfigProto, TileProto},
    text_shape::{ANY_SIZE, BUFFER, LEVEL_TYPES, TUPLE},
    value::Value,
};
use crate::hlo::raw::{
    cursor::{Parsed, SyntaxError},
    primitive::PrimitiveType,
    shape::{Dimension, Layout, Shape, ShapeId, ShapeReader, ShapeTable},
};

/// The message of a shape. An array without a layout gets the one that XLA gives it.
pub(super) fn shape_proto(table: &ShapeTable, id: ShapeId) -> ShapeProto {
    match table.get(id) {
        Shape::Tuple(elements) => ShapeProto {
            element_type: TUPLE,
            tuple_shapes: elements.iter().map(|&element| shape_proto(table, element)).collect(),
            ..ShapeProto::default()
        },
        Shape::Buffer(inner) => ShapeProto {
            element_type: BUFFER,
            tuple_shapes: vec![shape_proto(table, *inner)],
            ..ShapeProto::default()
        },
        Shape::Array(array) => {
            let is_opaque = matches!(array.element, PrimitiveType::Token | PrimitiveType::Opaque);
            let default = || {
                let minor_to_major = (0..array.dims.len() as u32).rev().collect();
                Layout { minor_to_major, ..Layout::default() }
            };
            let layout = array.layout.clone().or_else(|| (!is_opaque).then(default));
            ShapeProto {
                element_type: array.element.xla_number(),
                dimensions: array
                    .dims
                    .iter()
                    .map(|dim| dim.bound().map_or(ANY_SIZE, |size| size as i64))
                    .collect(),
                is_dynamic_dimension: array
                    .dims
                    .iter()
                    .map(|dim| !matches!(dim, Dimension::Static(_)))
                    .collect(),
                layout: layout.map(|layout| layout_proto(&layout)),
                ..ShapeProto::default()
            }
        }
    }
}

fn layout_proto(layout: &Layout) -> LayoutProto {
    let mut proto = LayoutProto {
        minor_to_major: layout.minor_to_major.iter().map(|&dim| i64::from(dim)).collect(),
        tiles: layout.tiles.iter().map(|tile| TileProto { dimensions: tile.clone() }).collect(),
        memory_space: layout.memory_space,
        element_size_in_bits: layout.element_bits,
        tail_padding_alignment_in_elements: 1,
        ..LayoutProto::default()
    };
    // Their form was checked when the text was read, but not what is in every group.
    let _ = properties(&mut proto, &layout.properties);
    proto
}

/// Reads the properties of a layout that have no place in [`Layout`].
fn properties(layout: &mut LayoutProto, text: &str) -> Parsed<()> {
    let mut value = Value::new(text, 0, text.len());
    while !value.0.is_end() {
        match value.0.peek() {
            mark @ (b'#' | b'*') => {
                value.0.advance(1);
                value.expect(b'(')?;
                let at = value;
                let name = value.word("an element type")?;
                let element = PrimitiveType::from_name(name.as_bytes());
                let number = element.ok_or_else(|| at.error("an element type"))?.xla_number();
                value.expect(b')')?;
                if mark == b'#' {
                    layout.index_primitive_type = number
                } else {
                    layout.pointer_primitive_type = number
                }
            }
            _ => match value.word("a property")? {
                "L" => layout.tail_padding_alignment_in_elements = in_parentheses(&mut value)?,
                "M" => layout.dynamic_shape_metadata_prefix_bytes = in_parentheses(&mut value)?,
                "SC" => {
                    while value.0.peek() == b'(' {
                        layout.split_configs.push(split(&mut value)?);
                    }
                }
                "P" => {
                    value.expect(b'(')?;
                    layout.physical_shape = Some(Box::new(shape(&mut value)?));
                    value.expect(b')')?;
                }
                "D" => level_types(layout, &mut value)?,
                // Tiles, element sizes and memory spaces have been read.
                _ => {
                    while value.0.peek() == b'(' {
                        value.0.skip_group()?;
                    }
                }
            },
        }
    }
    Ok(())
}

fn in_parentheses(value: &mut Value<'_>) -> Parsed<i64> {
    value.expect(b'(')?;
    let found = value.int()?;
    value.expect(b')')?;
    Ok(found)
}

/// `(0:4,8)`
fn split(value: &mut Value<'_>) -> Parsed<SplitConfigProto> {
    value.expect(b'(')?;
    let dimension = value.int()?;
    value.expect(b':')?;
    let mut split_indices = vec![value.int()?];
    while value.accept(b',')? {
        split_indices.push(value.int()?);
    }
    value.expect(b')')?;
    Ok(SplitConfigProto { dimension, split_indices })
}

/// `(D,C+~)`
fn level_types(layout: &mut LayoutProto, value: &mut Value<'_>) -> Parsed<()> {
    let levels = value.items(b'(', b')', |value| {
        let level = LEVEL_TYPES.iter().position(|&letter| letter == value.0.peek());
        let level = level.ok_or_else(|| value.error("a level type such as `D`"))?;
        value.0.advance(1);
        let (not_unique, not_ordered) = (value.accept(b'+')?, value.accept(b'~')?);
        Ok((level as i32, !not_unique, !not_ordered))
    })?;
    layout.dim_level_types = levels.iter().map(|level| level.0).collect();
    layout.dim_unique = levels.iter().map(|level| level.1).collect();
    layout.dim_ordered = levels.iter().map(|level| level.2).collect();
    Ok(())
}

/// The message of the shape here.
pub(super) fn shape(value: &mut Value<'_>) -> Parsed<ShapeProto> {
    let mut reader = ShapeReader::new();
    let id = reader.read(&mut value.0)?;
    Ok(shape_proto(&reader.table, id))
}

/// `{(f32[2]{0})->f32[2]{0}}`
pub(super) fn program_shape(value: &mut Value<'_>) -> Parsed<ProgramShapeProto> {
    value.expect(b'{')?;
    let parameters = value.items(b'(', b')', shape)?;
    value.0.expect_arrow()?;
    let result = Some(shape(value)?);
    value.expect(b'}')?;
    let parameter_names = (0..parameters.len()).map(|number| format!("p{number}")).collect();
    Ok(ProgramShapeProto { parameters, result, parameter_names })
}

/// An error where an array is expected.
pub(super) fn not_an_array(at: usize) -> SyntaxError {
    SyntaxError::new(at, "expected an array")
}
