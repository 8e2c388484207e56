//! Shapes and literals.

use super::{
    ints::indices,
    messages::{LayoutProto, LiteralProto, ShapeProto, TUPLE},
};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Literal, Shape},
    hlo::limits::{MAX_DIMS, MAX_TUPLE_NESTING},
};

pub(super) fn shape(proto: Option<&ShapeProto>) -> Result<Shape, Diagnostic> {
    nested_shape(proto.ok_or("missing shape")?, 0)
}

fn nested_shape(proto: &ShapeProto, depth: usize) -> Result<Shape, Diagnostic> {
    if proto.element_type != TUPLE {
        return array_shape(proto).map(Shape::Array);
    }
    if depth == MAX_TUPLE_NESTING {
        return Err(format!("expected at most {MAX_TUPLE_NESTING} nested tuples, found more").into());
    }
    let elements = proto.tuple_shapes.iter().map(|element| nested_shape(element, depth + 1));
    elements.collect::<Result<_, _>>().map(Shape::Tuple)
}

fn array_shape(proto: &ShapeProto) -> Result<ArrayShape, Diagnostic> {
    let ShapeProto { element_type, dimensions, tuple_shapes: _, layout, is_dynamic_dimension } = proto;
    let dtype = DType::ALL.iter().copied().find(|dtype| dtype.xla_number() == *element_type);
    let dtype = dtype.ok_or_else(|| format!("unknown element type: {element_type}"))?;
    if dimensions.len() > MAX_DIMS {
        return Err(format!("expected at most {MAX_DIMS} dimensions, found {}", dimensions.len()).into());
    }
    if is_dynamic_dimension.contains(&true) {
        return Err("unsupported dynamic size: expected static sizes".into());
    }
    if let Some(LayoutProto { minor_to_major, tiles, memory_space }) = layout {
        let row_major = minor_to_major.iter().rev().copied().eq(0..dimensions.len() as i64);
        if !(row_major || minor_to_major.is_empty()) || !tiles.is_empty() || *memory_space != 0 {
            return Err("unsupported layout: expected a row-major layout in device memory".into());
        }
    }
    Ok(ArrayShape::new(dtype, indices(dimensions)?))
}

pub(super) fn literal(proto: LiteralProto) -> Result<Literal, Diagnostic> {
    let shape = array_shape(&proto.shape.ok_or("missing shape of the literal")?)?;
    let bytes = match shape.dtype {
        DType::Pred => proto.preds.into_iter().map(u8::from).collect(),
        DType::S8 => proto.s8s,
        DType::S16 => proto.s16s,
        DType::S32 => proto.s32s.into_iter().flat_map(i32::to_le_bytes).collect(),
        DType::S64 => proto.s64s.into_iter().flat_map(i64::to_le_bytes).collect(),
        DType::U8 => proto.u8s,
        DType::U16 => proto.u16s,
        DType::U32 => proto.u32s.into_iter().flat_map(u32::to_le_bytes).collect(),
        DType::U64 => proto.u64s.into_iter().flat_map(u64::to_le_bytes).collect(),
        DType::F16 => proto.f16s,
        DType::F32 => proto.f32s.into_iter().flat_map(f32::to_le_bytes).collect(),
        DType::F64 => proto.f64s.into_iter().flat_map(f64::to_le_bytes).collect(),
        DType::BF16 => proto.bf16s,
    };
    if bytes.len() != shape.bytes() {
        return Err(format!(
            "expected {} bytes in a literal of shape {shape}, found {}",
            shape.bytes(),
            bytes.len()
        )
        .into());
    }
    Ok(Literal::from_bytes(shape, bytes))
}
