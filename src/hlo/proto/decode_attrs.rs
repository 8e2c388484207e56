//! Attributes of instructions.

use super::{
    decode_shape::literal,
    ints::{index, indices},
    messages::{
        API_VERSION_ORIGINAL, DotDimensionNumbers, GatherDimensionNumbers, HloInstructionProto,
        PaddingConfigDimension, ScatterDimensionNumbers, SliceDimensions,
    },
};
use crate::{
    base::Diagnostic,
    hlo::{
        Attrs, AttrsKind, CompId, CustomCall, DotDims, GatherDims, Opcode, PadDim, ScatterDims, SideEffect,
        SliceDim,
    },
};

pub(super) fn attrs(
    opcode: Opcode,
    proto: HloInstructionProto,
    callees: &[CompId],
) -> Result<Attrs, Diagnostic> {
    let one_callee = || match callees {
        &[callee] => Ok(callee),
        _ => Err(Diagnostic::from(format!("expected one called computation, found {}", callees.len()))),
    };
    Ok(match opcode.attrs_kind() {
        AttrsKind::Plain => Attrs::Plain,
        AttrsKind::Parameter => Attrs::Parameter(index(proto.parameter_number)?),
        AttrsKind::Constant => Attrs::Constant(literal(required("literal", proto.literal)?)?),
        AttrsKind::Iota => match proto.dimensions.as_slice() {
            &[dim] => Attrs::Iota(index(dim)?),
            dims => return Err(format!("expected one dimension, found {dims:?}").into()),
        },
        AttrsKind::Dims => Attrs::Dims(indices(&proto.dimensions)?),
        AttrsKind::Compare => Attrs::Compare(proto.comparison_direction.parse()?),
        AttrsKind::Dot => {
            Attrs::Dot(dot_dims(required("dot_dimension_numbers", proto.dot_dimension_numbers)?)?)
        }
        AttrsKind::Slice => {
            Attrs::Slice(proto.slice_dimensions.iter().map(slice_dim).collect::<Result<_, _>>()?)
        }
        AttrsKind::DynamicSlice => Attrs::DynamicSlice(indices(&proto.dynamic_slice_sizes)?),
        AttrsKind::Pad => {
            let config = required("padding_config", proto.padding_config)?;
            Attrs::Pad(config.dimensions.iter().map(pad_dim).collect::<Result<_, _>>()?)
        }
        AttrsKind::Reduce => Attrs::Reduce { dims: indices(&proto.dimensions)?, to_apply: one_callee()? },
        AttrsKind::Gather => {
            let numbers = required("gather_dimension_numbers", proto.gather_dimension_numbers)?;
            Attrs::Gather(gather_dims(numbers, &proto.gather_slice_sizes)?)
        }
        AttrsKind::Scatter => {
            let numbers = required("scatter_dimension_numbers", proto.scatter_dimension_numbers)?;
            Attrs::Scatter { dims: scatter_dims(numbers)?, to_apply: one_callee()? }
        }
        AttrsKind::Call => Attrs::Call(one_callee()?),
        AttrsKind::While => match callees {
            &[body, condition] => Attrs::While { condition, body },
            _ => return Err(format!("expected two called computations, found {}", callees.len()).into()),
        },
        AttrsKind::TupleIndex => Attrs::TupleIndex(index(proto.tuple_index)?),
        AttrsKind::CustomCall => Attrs::CustomCall(custom_call(proto)?),
    })
}

fn required<T>(field: &str, value: Option<T>) -> Result<T, Diagnostic> {
    value.ok_or_else(|| format!("missing {field}").into())
}

fn dot_dims(numbers: DotDimensionNumbers) -> Result<DotDims, Diagnostic> {
    let DotDimensionNumbers {
        lhs_contracting_dimensions,
        rhs_contracting_dimensions,
        lhs_batch_dimensions,
        rhs_batch_dimensions,
    } = numbers;
    Ok(DotDims {
        lhs_batch: indices(&lhs_batch_dimensions)?,
        rhs_batch: indices(&rhs_batch_dimensions)?,
        lhs_contracting: indices(&lhs_contracting_dimensions)?,
        rhs_contracting: indices(&rhs_contracting_dimensions)?,
    })
}

fn slice_dim(&SliceDimensions { start, limit, stride }: &SliceDimensions) -> Result<SliceDim, Diagnostic> {
    Ok(SliceDim { start: index(start)?, limit: index(limit)?, stride: index(stride)? })
}

fn pad_dim(edge: &PaddingConfigDimension) -> Result<PadDim, Diagnostic> {
    let &PaddingConfigDimension { edge_padding_low: low, edge_padding_high: high, interior_padding } = edge;
    Ok(PadDim { low, high, interior: index(interior_padding)? })
}

fn gather_dims(numbers: GatherDimensionNumbers, slice_sizes: &[i64]) -> Result<GatherDims, Diagnostic> {
    let GatherDimensionNumbers {
        offset_dims,
        collapsed_slice_dims,
        start_index_map,
        index_vector_dim,
        operand_batching_dims,
    } = numbers;
    no_batching(&operand_batching_dims)?;
    Ok(GatherDims {
        offset_dims: indices(&offset_dims)?,
        collapsed_slice_dims: indices(&collapsed_slice_dims)?,
        start_index_map: indices(&start_index_map)?,
        index_vector_dim: index(index_vector_dim)?,
        slice_sizes: indices(slice_sizes)?,
    })
}

fn scatter_dims(numbers: ScatterDimensionNumbers) -> Result<ScatterDims, Diagnostic> {
    let ScatterDimensionNumbers {
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims,
        index_vector_dim,
        input_batching_dims,
    } = numbers;
    no_batching(&input_batching_dims)?;
    Ok(ScatterDims {
        update_window_dims: indices(&update_window_dims)?,
        inserted_window_dims: indices(&inserted_window_dims)?,
        scatter_dims_to_operand_dims: indices(&scatter_dims_to_operand_dims)?,
        index_vector_dim: index(index_vector_dim)?,
    })
}

fn no_batching(dims: &[i64]) -> Result<(), Diagnostic> {
    if dims.is_empty() {
        return Ok(());
    }
    Err(format!("unsupported batching dimensions: expected none, found {dims:?}").into())
}

fn custom_call(proto: HloInstructionProto) -> Result<CustomCall, Diagnostic> {
    let version = proto.custom_call_api_version;
    if !matches!(version, 0 | API_VERSION_ORIGINAL) {
        return Err(
            format!("unsupported custom call API version {version}: expected the original API").into()
        );
    }
    let config = String::from_utf8(proto.backend_config);
    let backend_config = config.map_err(|_| Diagnostic::from("expected UTF-8 in backend_config"))?;
    let side_effect = match proto.custom_call_has_side_effect {
        true => SideEffect::Present,
        false => SideEffect::Absent,
    };
    Ok(CustomCall { target: proto.custom_call_target, side_effect, backend_config })
}
