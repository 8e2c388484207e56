use std::collections::HashMap;

use prost::Message;

use super::{
    messages::{
        API_VERSION_ORIGINAL, AliasEntryProto, DotDimensionNumbers, GatherDimensionNumbers,
        HloComputationProto, HloInstructionProto, HloModuleProto, LayoutProto, LiteralProto,
        PaddingConfigDimension, ScatterDimensionNumbers, ShapeProto, SliceDimensions, TUPLE,
    },
    sharding::sharding,
    wire,
};
use crate::{
    base::{ArrayShape, DType, Literal, MemorySpace, Shape, nearest},
    hlo::{
        Alias, Annotations, Attrs, AttrsKind, CompId, Computation, CustomCall, DotDims, GatherDims, Instr,
        InstrId, Module, Opcode, PadDim, ScatterDims, SideEffect, SliceDim,
        limits::{MAX_DIMS, MAX_TUPLE_NESTING},
        memory::take_host_parameters,
    },
};

/// Why bytes did not become a module.
#[derive(Debug, thiserror::Error)]
pub enum ProtoError {
    /// The bytes do not follow the wire format of the message.
    #[error("expected a serialized HloModuleProto")]
    Wire(#[source] prost::DecodeError),
    /// The message holds something that no module can have, or that the IR has no location for.
    #[error("`{location}`: {message}")]
    Content {
        /// The computation and the instruction, or the module.
        location: String,
        /// What was found and what was expected.
        message: String,
        /// The name that was probably meant.
        near: Option<&'static str>,
    },
}

impl ProtoError {
    /// What the reader can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Wire(_) => Some("HLO text is read by its own parser; other protos are not modules".into()),
            Self::Content { near, .. } => near.map(|name| format!("the nearest is `{name}`")),
        }
    }
}

/// Reads a serialized `HloModuleProto`, of which it takes what the IR can hold. Shapes are not checked against
/// operands here: [`verify`](crate::hlo::verify()) does that.
///
/// # Errors
/// Bytes that are no such message, ids that lead nowhere or forwards, counts that do not match, and opcodes, element
/// types, layouts and batching dimensions that the IR does not have.
pub fn decode(bytes: &[u8]) -> Result<Module, ProtoError> {
    if let Some(size) = wire::short_instruction(bytes).map_err(ProtoError::Wire)? {
        let message =
            format!("expected a name, an opcode and a shape in each instruction, found one of {size} bytes");
        return Err(content("module", message));
    }
    let proto = HloModuleProto::decode(bytes).map_err(ProtoError::Wire)?;
    let mut ids = HashMap::with_capacity(proto.computations.len());
    let mut computations = Vec::with_capacity(proto.computations.len());
    for (index, computation) in proto.computations.into_iter().enumerate() {
        let (id, name) = (computation.id, computation.name.clone());
        computations.push(decode_computation(computation, &ids)?);
        if ids.insert(id, CompId::new(index)).is_some() {
            return Err(content(&name, format!("two computations have the id {id}")));
        }
    }
    let location = |message| content(&proto.name, message);
    let id = proto.entry_computation_id;
    let entry = ids.get(&id).copied().ok_or_else(|| location(format!("no entry computation of id {id}")))?;
    let entries = proto.input_output_alias.unwrap_or_default().entries;
    let aliases = entries.iter().map(alias).collect::<Result<_, _>>().map_err(location)?;
    let mut frontend_attributes = proto.frontend_attributes.unwrap_or_default().map;
    let mut host_parameters = take_host_parameters(&mut frontend_attributes).map_err(location)?;
    let is_host = |shape: &ShapeProto| {
        shape.layout.as_ref().is_some_and(|layout| layout.memory_space == MemorySpace::Host.space())
    };
    let shapes = proto.host_program_shape.unwrap_or_default().parameters;
    host_parameters.extend((0..).zip(&shapes).filter(|(_, shape)| is_host(shape)).map(|(number, _)| number));
    Ok(Module {
        name: proto.name,
        computations,
        entry,
        aliases,
        host_parameters,
        frontend_attributes,
        annotations: Annotations::default(),
    })
}

fn content(location: &str, message: String) -> ProtoError {
    ProtoError::Content { location: location.to_owned(), message, near: None }
}

fn alias(entry: &AliasEntryProto) -> Result<Alias, String> {
    match (entry.output_shape_index.as_slice(), entry.parameter_shape_index.as_slice()) {
        (&[output], []) => Ok(Alias { output: count(output)?, parameter: count(entry.parameter_number)? }),
        (output, inner) => Err(format!(
            "expected an output element and a whole parameter as alias, found {output:?} and {inner:?}"
        )),
    }
}

fn decode_computation(
    proto: HloComputationProto,
    computations: &HashMap<i64, CompId>,
) -> Result<Computation, ProtoError> {
    let mut ids = HashMap::with_capacity(proto.instructions.len());
    let mut instrs = Vec::with_capacity(proto.instructions.len());
    for instr in proto.instructions {
        let location = format!("{}/{}", proto.name, instr.name);
        let opcode = instr.opcode.parse::<Opcode>().map_err(|unknown| ProtoError::Content {
            location: location.clone(),
            message: unknown.to_string(),
            near: nearest(&instr.opcode, Opcode::ALL.iter().map(|opcode| opcode.name())),
        })?;
        let id = instr.id;
        let decoded =
            decode_instr(opcode, instr, &ids, computations).map_err(|message| content(&location, message))?;
        if ids.insert(id, InstrId::new(instrs.len())).is_some() {
            return Err(content(&location, format!("two instructions have the id {id}")));
        }
        instrs.push(decoded);
    }
    let id = proto.root_id;
    let root = ids.get(&id).copied().ok_or_else(|| content(&proto.name, format!("no root of id {id}")))?;
    Ok(Computation { name: proto.name, instrs, root })
}

fn decode_instr(
    opcode: Opcode,
    proto: HloInstructionProto,
    instrs: &HashMap<i64, InstrId>,
    computations: &HashMap<i64, CompId>,
) -> Result<Instr, String> {
    let operands = proto.operand_ids.iter().map(|id| {
        instrs
            .get(id)
            .copied()
            .ok_or_else(|| format!("expected an earlier instruction as an operand, found id {id}"))
    });
    let called = proto.called_computation_ids.iter().map(|id| {
        computations.get(id).copied().ok_or_else(|| format!("expected an earlier computation, found id {id}"))
    });
    let operands = operands.collect::<Result<_, _>>()?;
    let called: Vec<CompId> = called.collect::<Result<_, _>>()?;
    let shape = shape(proto.shape.as_ref())?;
    let sharding = proto.sharding.as_ref().map(sharding).transpose()?;
    let frontend_attributes = proto.frontend_attributes.clone().unwrap_or_default().map;
    let name = proto.name.clone();
    let plain = Instr::new(name, opcode, shape, operands, attrs(opcode.attrs_kind(), proto, &called)?);
    Ok(Instr { sharding, frontend_attributes, ..plain })
}

fn attrs(form: AttrsKind, proto: HloInstructionProto, called: &[CompId]) -> Result<Attrs, String> {
    let one = || match called {
        &[callee] => Ok(callee),
        _ => Err(format!("expected one called computation, found {}", called.len())),
    };
    Ok(match form {
        AttrsKind::Plain => Attrs::Plain,
        AttrsKind::Parameter => Attrs::Parameter(count(proto.parameter_number)?),
        AttrsKind::Constant => Attrs::Constant(literal(present("literal", proto.literal)?)?),
        AttrsKind::Iota => match proto.dimensions.as_slice() {
            &[dim] => Attrs::Iota(count(dim)?),
            dims => return Err(format!("expected one dimension, found {dims:?}")),
        },
        AttrsKind::Dims => Attrs::Dims(counts(&proto.dimensions)?),
        AttrsKind::Compare => Attrs::Compare(proto.comparison_direction.parse()?),
        AttrsKind::Dot => {
            let DotDimensionNumbers {
                lhs_contracting_dimensions,
                rhs_contracting_dimensions,
                lhs_batch_dimensions,
                rhs_batch_dimensions,
            } = present("dot_dimension_numbers", proto.dot_dimension_numbers)?;
            Attrs::Dot(DotDims {
                lhs_batch: counts(&lhs_batch_dimensions)?,
                rhs_batch: counts(&rhs_batch_dimensions)?,
                lhs_contracting: counts(&lhs_contracting_dimensions)?,
                rhs_contracting: counts(&rhs_contracting_dimensions)?,
            })
        }
        AttrsKind::Slice => {
            Attrs::Slice(proto.slice_dimensions.iter().map(slice_dim).collect::<Result<_, _>>()?)
        }
        AttrsKind::DynamicSlice => Attrs::DynamicSlice(counts(&proto.dynamic_slice_sizes)?),
        AttrsKind::Pad => {
            let config = present("padding_config", proto.padding_config)?;
            Attrs::Pad(config.dimensions.iter().map(pad_dim).collect::<Result<_, _>>()?)
        }
        AttrsKind::Reduce => Attrs::Reduce { dims: counts(&proto.dimensions)?, to_apply: one()? },
        AttrsKind::Gather => {
            let GatherDimensionNumbers {
                offset_dims,
                collapsed_slice_dims,
                start_index_map,
                index_vector_dim,
                operand_batching_dims,
            } = present("gather_dimension_numbers", proto.gather_dimension_numbers)?;
            no_batching(&operand_batching_dims)?;
            Attrs::Gather(GatherDims {
                offset_dims: counts(&offset_dims)?,
                collapsed_slice_dims: counts(&collapsed_slice_dims)?,
                start_index_map: counts(&start_index_map)?,
                index_vector_dim: count(index_vector_dim)?,
                slice_sizes: counts(&proto.gather_slice_sizes)?,
            })
        }
        AttrsKind::Scatter => {
            let ScatterDimensionNumbers {
                update_window_dims,
                inserted_window_dims,
                scatter_dims_to_operand_dims,
                index_vector_dim,
                input_batching_dims,
            } = present("scatter_dimension_numbers", proto.scatter_dimension_numbers)?;
            no_batching(&input_batching_dims)?;
            let dims = ScatterDims {
                update_window_dims: counts(&update_window_dims)?,
                inserted_window_dims: counts(&inserted_window_dims)?,
                scatter_dims_to_operand_dims: counts(&scatter_dims_to_operand_dims)?,
                index_vector_dim: count(index_vector_dim)?,
            };
            Attrs::Scatter { dims, to_apply: one()? }
        }
        AttrsKind::Call => Attrs::Call(one()?),
        AttrsKind::While => match called {
            &[body, condition] => Attrs::While { condition, body },
            _ => return Err(format!("expected two called computations, found {}", called.len())),
        },
        AttrsKind::TupleIndex => Attrs::TupleIndex(count(proto.tuple_index)?),
        AttrsKind::CustomCall => {
            let version = proto.custom_call_api_version;
            if !matches!(version, 0 | API_VERSION_ORIGINAL) {
                return Err("only custom calls of the original API are supported".into());
            }
            let config = String::from_utf8(proto.backend_config);
            let backend_config = config.map_err(|_| "expected UTF-8 in backend_config".to_owned())?;
            let side_effect = match proto.custom_call_has_side_effect {
                true => SideEffect::Present,
                false => SideEffect::Absent,
            };
            Attrs::CustomCall(CustomCall { target: proto.custom_call_target, side_effect, backend_config })
        }
    })
}

fn slice_dim(&SliceDimensions { start, limit, stride }: &SliceDimensions) -> Result<SliceDim, String> {
    Ok(SliceDim { start: count(start)?, limit: count(limit)?, stride: count(stride)? })
}

fn pad_dim(edge: &PaddingConfigDimension) -> Result<PadDim, String> {
    let &PaddingConfigDimension { edge_padding_low: low, edge_padding_high: high, interior_padding } = edge;
    Ok(PadDim { low, high, interior: count(interior_padding)? })
}

fn no_batching(dims: &[i64]) -> Result<(), String> {
    if dims.is_empty() { Ok(()) } else { Err(format!("expected no batching dimensions, found {dims:?}")) }
}

fn shape(proto: Option<&ShapeProto>) -> Result<Shape, String> {
    nested_shape(proto.ok_or("expected a shape, found none")?, 0)
}

fn nested_shape(proto: &ShapeProto, depth: usize) -> Result<Shape, String> {
    if proto.element_type != TUPLE {
        return array_shape(proto).map(Shape::Array);
    }
    if depth == MAX_TUPLE_NESTING {
        return Err(format!("expected at most {MAX_TUPLE_NESTING} tuples in each other"));
    }
    let elements = proto.tuple_shapes.iter().map(|element| nested_shape(element, depth + 1));
    elements.collect::<Result<_, _>>().map(Shape::Tuple)
}

fn array_shape(proto: &ShapeProto) -> Result<ArrayShape, String> {
    let ShapeProto { element_type, dimensions, tuple_shapes: _, layout, is_dynamic_dimension } = proto;
    let dtype = DType::ALL.iter().copied().find(|dtype| dtype.xla_number() == *element_type);
    let dtype = dtype.ok_or_else(|| format!("unknown element type: {element_type}"))?;
    if dimensions.len() > MAX_DIMS {
        return Err(format!("expected at most {MAX_DIMS} dimensions, found {}", dimensions.len()));
    }
    if is_dynamic_dimension.contains(&true) {
        return Err("only sizes known when the module is built are supported".into());
    }
    if let Some(LayoutProto { minor_to_major, tiles, memory_space }) = layout {
        let row_major = minor_to_major.iter().rev().copied().eq(0..dimensions.len() as i64);
        if !(row_major || minor_to_major.is_empty()) || !tiles.is_empty() || *memory_space != 0 {
            return Err("only row-major device layouts are supported".into());
        }
    }
    Ok(ArrayShape::new(dtype, counts(dimensions)?))
}

fn literal(proto: LiteralProto) -> Result<Literal, String> {
    let shape = array_shape(&present("literal shape", proto.shape)?)?;
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
        return Err(format!("expected {} bytes in a literal {shape}, found {}", shape.bytes(), bytes.len()));
    }
    Ok(Literal::from_bytes(shape, bytes))
}

fn present<T>(field: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("expected {field}, found none"))
}

pub(super) fn count(value: i64) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("expected a non-negative integer, found {value}"))
}

pub(super) fn counts(values: &[i64]) -> Result<Vec<usize>, String> {
    values.iter().copied().map(count).collect()
}
