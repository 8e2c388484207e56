use std::collections::{BTreeMap, HashSet};

use prost::Message;

use super::{
    ints::{int, ints},
    messages::{
        API_VERSION_ORIGINAL, AliasEntryProto, DotDimensionNumbers, FrontendAttributes,
        GatherDimensionNumbers, HloComputationProto, HloInputOutputAliasProto, HloInstructionProto,
        HloModuleProto, LayoutProto, LiteralProto, MAY_ALIAS, OpMetadataProto, PaddingConfig,
        PaddingConfigDimension, ProgramShapeProto, ScatterDimensionNumbers, ShapeProto, SliceDimensions,
        TUPLE,
    },
    sharding::sharding_proto,
};
use crate::{
    base::{ArrayShape, DType, Literal, MemorySpace, Shape},
    hlo::{
        Alias, Attrs, CompId, Computation, CustomCall, DotDims, GatherDims, Instr, InstrId, Module,
        OpMetadata, PadDim, ScatterDims, SideEffect, SliceDim, Verified,
    },
};

/// Encodes a module as a serialized `HloModuleProto`. Equal modules have equal bytes.
///
/// As in XLA, computation ids count from one and instruction ids over the module. Every array has a row-major layout in
/// device memory; memory spaces of entry parameters are in the program shape of the module only. XLA requires instruction
/// names that are unique in the module: a name that an earlier computation has gets the id as a suffix.
pub fn encode(module: &Verified) -> Vec<u8> {
    let Module { name, computations, entry: entry_id, aliases, host_parameters, .. } = module.module();
    let mut first_id = 1;
    let mut names = HashSet::new();
    let mut encoded = Vec::with_capacity(computations.len());
    for (id, computation) in module.computations() {
        let metadata = |instr| module.module().metadata.get(id, instr).map(metadata_proto);
        encoded.push(computation_proto(id, computation, first_id, &mut names, metadata));
        first_id += computation.instrs.len();
    }
    let entry = module.entry();
    let mut host_shape = program_shape(entry);
    for &number in host_parameters {
        let layout = host_shape.parameters.get_mut(number).and_then(|shape| shape.layout.as_mut());
        layout.into_iter().for_each(|layout| layout.memory_space = MemorySpace::Host.space());
    }
    HloModuleProto {
        name: name.clone(),
        entry_computation_name: entry.name.clone(),
        entry_computation_id: computation_number(*entry_id),
        host_program_shape: Some(host_shape),
        input_output_alias: (!aliases.is_empty())
            .then(|| HloInputOutputAliasProto { entries: aliases.iter().map(alias_proto).collect() }),
        frontend_attributes: frontend_proto(&module.module().written_attributes()),
        computations: encoded,
    }
    .encode_to_vec()
}

fn frontend_proto(attributes: &BTreeMap<String, String>) -> Option<FrontendAttributes> {
    (!attributes.is_empty()).then(|| FrontendAttributes { map: attributes.clone() })
}

fn alias_proto(&Alias { output, parameter }: &Alias) -> AliasEntryProto {
    AliasEntryProto {
        output_shape_index: vec![int(output)],
        parameter_number: int(parameter),
        parameter_shape_index: vec![],
        kind: MAY_ALIAS,
    }
}

fn computation_proto(
    id: CompId,
    computation: &Computation,
    first_id: usize,
    names: &mut HashSet<String>,
    metadata: impl Fn(InstrId) -> Option<OpMetadataProto>,
) -> HloComputationProto {
    let Computation { name, instrs, root } = computation;
    HloComputationProto {
        name: name.clone(),
        instructions: instrs
            .iter()
            .enumerate()
            .map(|(index, instr)| {
                let proto = instr_proto(instr, first_id + index, first_id, names);
                HloInstructionProto { metadata: metadata(InstrId::new(index)), ..proto }
            })
            .collect(),
        program_shape: Some(program_shape(computation)),
        id: computation_number(id),
        root_id: int(first_id + root.index()),
    }
}

fn metadata_proto(metadata: &OpMetadata) -> OpMetadataProto {
    let OpMetadata { op_type, op_name, source_file, source_line } = metadata;
    OpMetadataProto {
        op_type: op_type.to_string(),
        op_name: op_name.to_string(),
        source_file: source_file.to_string(),
        source_line: i32::try_from(*source_line).unwrap_or_default(),
    }
}

fn program_shape(computation: &Computation) -> ProgramShapeProto {
    let parameters = computation.parameters();
    ProgramShapeProto {
        parameters: parameters.iter().map(|&id| shape_proto(&computation.instr(id).shape)).collect(),
        result: Some(shape_proto(computation.result())),
        parameter_names: parameters.iter().map(|&id| computation.instr(id).name.clone()).collect(),
    }
}

fn instr_proto(
    instr: &Instr,
    id: usize,
    first_id: usize,
    names: &mut HashSet<String>,
) -> HloInstructionProto {
    let Instr { name, opcode, shape, operands, attrs, sharding, frontend_attributes } = instr;
    let mut name = name.clone();
    while !names.insert(name.clone()) {
        name = format!("{name}.{id}");
    }
    let proto = HloInstructionProto {
        name,
        opcode: opcode.name().to_owned(),
        shape: Some(shape_proto(shape)),
        id: int(id),
        operand_ids: operands.iter().map(|operand| int(first_id + operand.index())).collect(),
        sharding: sharding.as_ref().map(sharding_proto),
        frontend_attributes: frontend_proto(frontend_attributes),
        called_computation_ids: attrs.callees().into_iter().map(computation_number).collect(),
        ..HloInstructionProto::default()
    };
    with_attrs(proto, attrs)
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of attributes")]
fn with_attrs(proto: HloInstructionProto, attrs: &Attrs) -> HloInstructionProto {
    match attrs {
        Attrs::Plain => proto,
        Attrs::Parameter(number) => HloInstructionProto { parameter_number: int(*number), ..proto },
        Attrs::Constant(literal) => HloInstructionProto { literal: Some(literal_proto(literal)), ..proto },
        Attrs::Iota(dim) => HloInstructionProto { dimensions: vec![int(*dim)], ..proto },
        Attrs::Dims(dims) => HloInstructionProto { dimensions: ints(dims), ..proto },
        Attrs::Compare(comparison) => {
            HloInstructionProto { comparison_direction: comparison.name().to_owned(), ..proto }
        }
        Attrs::Dot(DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting }) => {
            HloInstructionProto {
                dot_dimension_numbers: Some(DotDimensionNumbers {
                    lhs_contracting_dimensions: ints(lhs_contracting),
                    rhs_contracting_dimensions: ints(rhs_contracting),
                    lhs_batch_dimensions: ints(lhs_batch),
                    rhs_batch_dimensions: ints(rhs_batch),
                }),
                ..proto
            }
        }
        Attrs::Slice(ranges) => {
            let range = |&SliceDim { start, limit, stride }: &SliceDim| SliceDimensions {
                start: int(start),
                limit: int(limit),
                stride: int(stride),
            };
            HloInstructionProto { slice_dimensions: ranges.iter().map(range).collect(), ..proto }
        }
        Attrs::DynamicSlice(sizes) => HloInstructionProto { dynamic_slice_sizes: ints(sizes), ..proto },
        Attrs::Pad(edges) => {
            let edge = |&PadDim { low, high, interior }: &PadDim| PaddingConfigDimension {
                edge_padding_low: low,
                edge_padding_high: high,
                interior_padding: int(interior),
            };
            let padding_config = PaddingConfig { dimensions: edges.iter().map(edge).collect() };
            HloInstructionProto { padding_config: Some(padding_config), ..proto }
        }
        Attrs::Reduce { dims, to_apply: _ } => HloInstructionProto { dimensions: ints(dims), ..proto },
        Attrs::Gather(GatherDims {
            offset_dims,
            collapsed_slice_dims,
            start_index_map,
            index_vector_dim,
            slice_sizes,
        }) => HloInstructionProto {
            gather_dimension_numbers: Some(GatherDimensionNumbers {
                offset_dims: ints(offset_dims),
                collapsed_slice_dims: ints(collapsed_slice_dims),
                start_index_map: ints(start_index_map),
                index_vector_dim: int(*index_vector_dim),
                operand_batching_dims: vec![],
            }),
            gather_slice_sizes: ints(slice_sizes),
            ..proto
        },
        Attrs::Scatter { dims, to_apply: _ } => {
            let ScatterDims {
                update_window_dims,
                inserted_window_dims,
                scatter_dims_to_operand_dims,
                index_vector_dim,
            } = dims;
            HloInstructionProto {
                scatter_dimension_numbers: Some(ScatterDimensionNumbers {
                    update_window_dims: ints(update_window_dims),
                    inserted_window_dims: ints(inserted_window_dims),
                    scatter_dims_to_operand_dims: ints(scatter_dims_to_operand_dims),
                    index_vector_dim: int(*index_vector_dim),
                    input_batching_dims: vec![],
                }),
                ..proto
            }
        }
        Attrs::Call(_) => proto,
        // XLA keeps the body first.
        Attrs::While { condition, body } => {
            let called_computation_ids = vec![computation_number(*body), computation_number(*condition)];
            HloInstructionProto { called_computation_ids, ..proto }
        }
        Attrs::TupleIndex(index) => HloInstructionProto { tuple_index: int(*index), ..proto },
        Attrs::CustomCall(CustomCall { target, side_effect, backend_config }) => HloInstructionProto {
            custom_call_target: target.clone(),
            custom_call_has_side_effect: *side_effect == SideEffect::Present,
            backend_config: backend_config.clone().into_bytes(),
            custom_call_api_version: API_VERSION_ORIGINAL,
            ..proto
        },
    }
}

fn shape_proto(shape: &Shape) -> ShapeProto {
    match shape {
        Shape::Array(array) => array_proto(array),
        Shape::Tuple(elements) => ShapeProto {
            element_type: TUPLE,
            tuple_shapes: elements.iter().map(shape_proto).collect(),
            ..ShapeProto::default()
        },
    }
}

/// XLA compares the layouts of a constant and its literal, and takes no literal without one.
fn array_proto(ArrayShape { dtype, dims }: &ArrayShape) -> ShapeProto {
    let minor_to_major = (0..dims.len()).rev().map(int).collect();
    ShapeProto {
        element_type: dtype.xla_number(),
        dimensions: ints(dims),
        layout: Some(LayoutProto { minor_to_major, ..LayoutProto::default() }),
        ..ShapeProto::default()
    }
}

fn literal_proto(literal: &Literal) -> LiteralProto {
    let shape = literal.shape();
    let proto = LiteralProto { shape: Some(array_proto(shape)), ..LiteralProto::default() };
    let bytes = literal.bytes();
    match shape.dtype {
        DType::Pred => LiteralProto { preds: bytes.iter().map(|&byte| byte != 0).collect(), ..proto },
        DType::S8 => LiteralProto { s8s: bytes.to_vec(), ..proto },
        DType::S16 => LiteralProto { s16s: bytes.to_vec(), ..proto },
        DType::S32 => LiteralProto { s32s: elements(bytes, i32::from_le_bytes), ..proto },
        DType::S64 => LiteralProto { s64s: elements(bytes, i64::from_le_bytes), ..proto },
        DType::U8 => LiteralProto { u8s: bytes.to_vec(), ..proto },
        DType::U16 => LiteralProto { u16s: bytes.to_vec(), ..proto },
        DType::U32 => LiteralProto { u32s: elements(bytes, u32::from_le_bytes), ..proto },
        DType::U64 => LiteralProto { u64s: elements(bytes, u64::from_le_bytes), ..proto },
        DType::F16 => LiteralProto { f16s: bytes.to_vec(), ..proto },
        DType::F32 => LiteralProto { f32s: elements(bytes, f32::from_le_bytes), ..proto },
        DType::F64 => LiteralProto { f64s: elements(bytes, f64::from_le_bytes), ..proto },
        DType::BF16 => LiteralProto { bf16s: bytes.to_vec(), ..proto },
    }
}

fn elements<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&chunk| read(chunk)).collect()
}

fn computation_number(id: CompId) -> i64 {
    int(id.index() + 1)
}
