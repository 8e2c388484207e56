use std::collections::HashMap;

use prost::Message;

use super::{
    decode_attrs::attrs,
    decode_shape::shape,
    ints::index,
    messages::{
        AliasEntryProto, HloComputationProto, HloInstructionProto, HloModuleProto, OpMetadataProto,
        ShapeProto,
    },
    sharding::sharding,
    wire,
};
use crate::{
    base::{Diagnostic, Location, MemorySpace},
    hlo::{
        Alias, Annotations, CompId, Computation, Instr, InstrId, MetadataTable, Module, OpMetadata,
        memory::take_host_parameters,
    },
};

/// An error of decoding a module.
#[derive(Debug, thiserror::Error)]
pub enum ProtoError {
    /// The bytes do not follow the wire format of the message.
    #[error("expected a serialized HloModuleProto")]
    Wire(#[source] prost::DecodeError),
    /// The content of the message is invalid or not supported by the IR.
    #[error("{}: {}", .0.location, .0.message)]
    Content(Diagnostic),
}

impl ProtoError {
    /// An action that fixes the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Wire(_) => Some("HLO text and other protos have parsers of their own".into()),
            Self::Content(error) => error.hint.clone(),
        }
    }
}

/// Decodes a serialized `HloModuleProto`, as far as the IR represents it. [`verify`](crate::hlo::verify()) checks shapes
/// against operands afterwards.
///
/// # Errors
/// [`ProtoError::Wire`] if the bytes are no such message. [`ProtoError::Content`] for unknown or forward ids, wrong counts,
/// and opcodes, element types, layouts and batching dimensions that the IR does not support.
pub fn decode(bytes: &[u8]) -> Result<Module, ProtoError> {
    if let Some(size) = wire::short_instruction(bytes).map_err(ProtoError::Wire)? {
        let message =
            format!("expected a name, an opcode and a shape in each instruction, found one of {size} bytes");
        return Err(ProtoError::Content(Diagnostic::error(Location::file("module"), message)));
    }
    let proto = HloModuleProto::decode(bytes).map_err(ProtoError::Wire)?;
    decode_module(proto).map_err(ProtoError::Content)
}

fn decode_module(proto: HloModuleProto) -> Result<Module, Diagnostic> {
    let mut ids = HashMap::with_capacity(proto.computations.len());
    let mut computations = Vec::with_capacity(proto.computations.len());
    let mut metadata = MetadataTable::default();
    for (index, mut computation) in proto.computations.into_iter().enumerate() {
        let (id, location) = (computation.id, Location::file(&computation.name));
        for (instr, proto) in computation.instructions.iter_mut().enumerate() {
            let Some(found) = proto.metadata.take() else { continue };
            let found =
                op_metadata(found).map_err(|error| error.located(location.clone().at(&proto.name)))?;
            metadata.set(CompId::new(index), InstrId::new(instr), found);
        }
        computations.push(decode_computation(computation, &ids)?);
        if ids.insert(id, CompId::new(index)).is_some() {
            return Err(Diagnostic::error(location, format!("duplicate computation id {id}")));
        }
    }
    let located = |error: Diagnostic| error.located(Location::file(&proto.name));
    let id = proto.entry_computation_id;
    let entry = ids.get(&id).copied();
    let entry = entry.ok_or_else(|| located(format!("unknown entry computation id {id}").into()))?;
    let entries = proto.input_output_alias.unwrap_or_default().entries;
    let aliases = entries.iter().map(alias).collect::<Result<_, _>>().map_err(located)?;
    let mut frontend_attributes = proto.frontend_attributes.unwrap_or_default().map;
    let mut host_parameters = take_host_parameters(&mut frontend_attributes).map_err(located)?;
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
        metadata,
        annotations: Annotations::default(),
    })
}

fn op_metadata(proto: OpMetadataProto) -> Result<OpMetadata, Diagnostic> {
    let OpMetadataProto { op_type, op_name, source_file, source_line } = proto;
    let source_line = u32::try_from(source_line)
        .map_err(|_| Diagnostic::from(format!("expected a line of at least zero, found {source_line}")))?;
    let [op_type, op_name, source_file] = [op_type, op_name, source_file].map(Into::into);
    Ok(OpMetadata { op_type, op_name, source_file, source_line })
}

fn alias(entry: &AliasEntryProto) -> Result<Alias, Diagnostic> {
    match (entry.output_shape_index.as_slice(), entry.parameter_shape_index.as_slice()) {
        (&[output], []) => Ok(Alias { output: index(output)?, parameter: index(entry.parameter_number)? }),
        (output, inner) => Err(format!(
            "expected an alias of an output element and a parameter, found output {output:?} and parameter element {inner:?}"
        )
        .into()),
    }
}

fn decode_computation(
    proto: HloComputationProto,
    computations: &HashMap<i64, CompId>,
) -> Result<Computation, Diagnostic> {
    let mut ids = HashMap::with_capacity(proto.instructions.len());
    let mut instrs = Vec::with_capacity(proto.instructions.len());
    for instr in proto.instructions {
        let location = Location::file(&proto.name).at(&instr.name);
        let id = instr.id;
        let decoded =
            decode_instr(instr, &ids, computations).map_err(|error| error.located(location.clone()))?;
        if ids.insert(id, InstrId::new(instrs.len())).is_some() {
            return Err(Diagnostic::error(location, format!("duplicate instruction id {id}")));
        }
        instrs.push(decoded);
    }
    let id = proto.root_id;
    let root = ids.get(&id).copied();
    let root =
        root.ok_or_else(|| Diagnostic::error(Location::file(&proto.name), format!("unknown root id {id}")))?;
    Ok(Computation { name: proto.name, instrs, root })
}

fn decode_instr(
    proto: HloInstructionProto,
    instrs: &HashMap<i64, InstrId>,
    computations: &HashMap<i64, CompId>,
) -> Result<Instr, Diagnostic> {
    let opcode = proto.opcode.parse()?;
    let operand = |id: &i64| {
        let operand = instrs.get(id).copied();
        operand.ok_or_else(|| Diagnostic::from(format!("operand id {id} is not defined before its use")))
    };
    let callee = |id: &i64| {
        let callee = computations.get(id).copied();
        callee.ok_or_else(|| Diagnostic::from(format!("computation id {id} is not defined before its use")))
    };
    let operands = proto.operand_ids.iter().map(operand).collect::<Result<_, _>>()?;
    let callees: Vec<CompId> = proto.called_computation_ids.iter().map(callee).collect::<Result<_, _>>()?;
    let shape = shape(proto.shape.as_ref())?;
    let sharding = proto.sharding.as_ref().map(sharding).transpose()?;
    let frontend_attributes = proto.frontend_attributes.clone().unwrap_or_default().map;
    let (name, attrs) = (proto.name.clone(), attrs(opcode, proto, &callees)?);
    Ok(Instr { sharding, frontend_attributes, ..Instr::new(name, opcode, shape, operands, attrs) })
}
