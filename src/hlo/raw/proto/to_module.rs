//! A module as its message.

use std::collections::BTreeMap;

use prost::{Message, bytes::Bytes};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    messages::{
        HloBufferDonorProto, HloComputationProto, HloInputOutputAliasProto, HloModuleConfigProto,
        HloModuleProto, HloScheduleProto, InstructionSequence,
    },
    messages_data::{FrontendAttributes, ProgramShapeProto, ShapeProto},
    messages_instr::HloInstructionProto,
    to_header, to_instr,
    to_shape::shape_proto,
    value::Value,
};
use crate::hlo::raw::{
    attr::AttrName,
    cursor::SyntaxError,
    module::{Attr, CompId, Instr, InstrId, InstrRef, Module},
    opcode::Opcode,
    shape::ShapeId,
};

/// The name that XLA gives a computation which an async opcode wraps, and its parameters.
const WRAPPED: &str = "async_wrapped";
const WRAPPED_PARAMETER: &str = "async_param";

/// The messages of a module and of its settings.
pub(super) fn module(
    module: &Module,
    depth: usize,
) -> Result<(HloModuleProto, HloModuleConfigProto), Vec<SyntaxError>> {
    let mut proto = HloModuleProto {
        name: module.name().to_owned(),
        input_output_alias: Some(HloInputOutputAliasProto::default()),
        buffer_donor: Some(HloBufferDonorProto::default()),
        frontend_attributes: Some(FrontendAttributes::default()),
        ..HloModuleProto::default()
    };
    let mut config = HloModuleConfigProto { replica_count: 1, num_partitions: 1, ..Default::default() };
    let recovery = |inner: &Module| {
        if depth > 0 {
            let message = "expected no table of recovery modules in a recovery module";
            return Err(vec![SyntaxError::new(0, message)]);
        }
        self::module(inner, depth + 1).map(|(proto, _)| proto)
    };
    let mut errors = to_header::set(&mut proto, &mut config, module, &recovery).err().unwrap_or_default();
    let mut encoder = Encoder::new(module);
    for id in module.ids() {
        encoder.computation(id);
    }
    errors.append(&mut encoder.errors);
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.at);
        return Err(errors);
    }
    proto.computations = encoder.computations;
    proto.entry_computation_id = encoder.ids[module.entry().index()];
    module.computation_name(module.entry()).clone_into(&mut proto.entry_computation_name);
    proto.host_program_shape = proto.host_program_shape.or(encoder.entry_shape);
    config.entry_computation_layout.clone_from(&proto.host_program_shape);
    if module.is_scheduled() {
        proto.schedule = Some(HloScheduleProto { sequences: encoder.sequences });
    }
    Ok((proto, config))
}

/// Encodes computations one after the other.
struct Encoder<'m> {
    module: &'m Module,
    computations: Vec<Bytes>,
    /// Ids of the computations of the module.
    ids: Vec<i64>,
    /// Computations that fusions call, which have no schedule.
    fusions: FxHashSet<CompId>,
    /// Threads on which async opcodes start computations.
    threads: FxHashMap<CompId, String>,
    names: Names,
    computation_names: Names,
    shapes: FxHashMap<ShapeId, ShapeProto>,
    sequences: BTreeMap<i64, InstructionSequence>,
    entry_shape: Option<ProgramShapeProto>,
    errors: Vec<SyntaxError>,
}

impl<'m> Encoder<'m> {
    fn new(module: &'m Module) -> Self {
        let (mut fusions, mut threads) = (FxHashSet::default(), FxHashMap::default());
        let (mut names, mut computation_names) = (Names::default(), Names::default());
        for id in module.ids() {
            computation_names.texts.insert(module.computation_name(id).to_owned());
            for instr in module.instructions(id) {
                names.texts.insert(instr.name().to_owned());
                if instr.opcode() == Opcode::Fusion || instr.wrapped() == Some(Opcode::Fusion) {
                    fusions.extend(instr.callees().map(|(_, callee)| callee));
                }
                if let Some(thread) = instr.attr(AttrName::AsyncExecutionThread) {
                    threads.extend(
                        instr.callees().map(|(_, callee)| (callee, unescaped(thread.trim_matches('"')))),
                    );
                }
            }
        }
        Self {
            module,
            computations: vec![],
            ids: vec![],
            fusions,
            threads,
            names,
            computation_names,
            shapes: FxHashMap::default(),
            sequences: BTreeMap::new(),
            entry_shape: None,
            errors: vec![],
        }
    }

    fn shape(&mut self, id: ShapeId) -> ShapeProto {
        let table = self.module.shapes();
        self.shapes.entry(id).or_insert_with(|| shape_proto(table, id)).clone()
    }

    fn computation(&mut self, id: CompId) {
        let computation = &self.module.computations[id.index()];
        // Computations that instructions of this one wrap come first, as callees do.
        let mut wrapped = FxHashMap::default();
        for (index, instr) in computation.instrs.iter().enumerate() {
            if instr.wraps_here() {
                let callees = self.callees(self.module.instruction(id, InstrId::new(index)));
                wrapped.insert(index, self.wrapped(id, instr, callees));
            }
        }
        let proto_id = self.computations.len() as i64;
        self.ids.push(proto_id);
        let mut instrs = Vec::with_capacity(computation.instrs.len());
        let mut shape = ParameterShapes::default();
        for (index, (instr, found)) in computation.instrs.iter().zip(self.module.instructions(id)).enumerate()
        {
            let mut proto = self.instruction(found, instr, unique_id(proto_id, index));
            proto.operand_ids = instr
                .operands(computation)
                .iter()
                .map(|operand| unique_id(proto_id, operand.index()))
                .collect();
            proto.control_predecessor_ids =
                found.control_predecessors().map(|instr| unique_id(proto_id, instr.index())).collect();
            match wrapped.get(&index) {
                Some(&callee) => proto.called_computation_ids = vec![callee],
                // Those of async opcodes are known from where the operation starts.
                None if matches!(instr.opcode, Opcode::AsyncUpdate | Opcode::AsyncDone) => {}
                None => proto.called_computation_ids = self.callees(found),
            }
            for attr in &computation.attrs[instr.attr_range()] {
                let is_inner = instr.wraps_here() && !to_instr::is_of_start(attr);
                if !is_inner {
                    self.attribute(&mut proto, attr);
                }
            }
            self.finish(&mut proto, found);
            shape.add(&proto);
            instrs.push(proto);
        }
        let name = self.computation_names.unique(self.module.computation_name(id));
        let execution_thread = match computation.thread.map(|thread| unescaped(self.module.str(thread))) {
            Some(thread) if thread == "main" => String::new(),
            Some(thread) => thread,
            None => self.threads.remove(&id).unwrap_or_default(),
        };
        let shape = shape.finish(&instrs[computation.root]);
        if id == self.module.entry() {
            let parameter_names = (0..shape.parameters.len()).map(|number| format!("p{number}")).collect();
            self.entry_shape = Some(ProgramShapeProto { parameter_names, ..shape.clone() });
        }
        let is_fusion_computation = self.fusions.contains(&id);
        let root_id = instrs[computation.root].id;
        let program_shape = Some(shape);
        let proto = HloComputationProto {
            name,
            instructions: vec![],
            program_shape,
            id: proto_id,
            root_id,
            is_fusion_computation,
            execution_thread,
        };
        self.push(proto, &instrs);
    }

    fn push(&mut self, mut proto: HloComputationProto, instrs: &[HloInstructionProto]) {
        if !proto.is_fusion_computation {
            let instruction_ids = instrs.iter().map(|instr| instr.id).collect();
            self.sequences.insert(proto.id, InstructionSequence { instruction_ids });
        }
        proto.instructions = instrs.iter().map(|instr| instr.encode_to_vec().into()).collect();
        self.computations.push(proto.encode_to_vec().into());
    }

    /// What every instruction has.
    fn instruction(&mut self, found: InstrRef<'_>, instr: &Instr, id: i64) -> HloInstructionProto {
        let name = self.names.unique(found.name());
        to_instr::plain(name, instr.opcode, self.shape(instr.shape), id)
    }

    fn callees(&self, instr: InstrRef<'_>) -> Vec<i64> {
        let mut ids: Vec<(u8, i64)> = instr
            .callees()
            .map(|(name, callee)| (to_instr::callee_order(name), self.ids[callee.index()]))
            .collect();
        ids.sort_by_key(|&(order, _)| order);
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn attribute(&mut self, proto: &mut HloInstructionProto, attr: &Attr) {
        let range = attr.value.range();
        let mut value = Value::new(&self.module.text, range.start, range.end);
        let set = to_instr::set(proto, attr, self.module.spelling(attr), &mut value);
        self.errors.extend(set.err());
    }

    /// Payloads, and what follows from the operands.
    fn finish(&mut self, proto: &mut HloInstructionProto, found: InstrRef<'_>) {
        let range = found.payload_span().range();
        match found.opcode() {
            Opcode::Parameter => proto.parameter_number = found.payload().parse().unwrap_or_default(),
            Opcode::Constant => {
                let mut value = Value::new(&self.module.text, range.start, range.end);
                let shape = proto.shape.as_deref().cloned().unwrap_or_default();
                match super::to_literal::literal(&mut value, &shape) {
                    Ok(literal) => proto.literal = Some(Box::new(literal)),
                    Err(error) => self.errors.push(error),
                }
            }
            _ => {}
        }
        let first = found.operand(0).map(|operand| self.shape(operand.shape()));
        to_instr::set_defaults(proto, first.as_ref());
    }

    /// The computation that an async opcode such as `fusion-start` wraps: parameters and the instruction. Returns its id.
    fn wrapped(&mut self, id: CompId, instr: &Instr, callees: Vec<i64>) -> i64 {
        let computation = &self.module.computations[id.index()];
        let proto_id = self.computations.len() as i64;
        let operands = instr.operands(computation);
        let mut instrs = Vec::with_capacity(operands.len() + 1);
        let mut shape = ParameterShapes::default();
        for (number, operand) in operands.iter().enumerate() {
            let name = self.names.generated(WRAPPED_PARAMETER);
            let operand = self.shape(computation.instrs[operand.index()].shape);
            let mut proto = to_instr::plain(name, Opcode::Parameter, operand, unique_id(proto_id, number));
            proto.parameter_number = number as i64;
            shape.add(&proto);
            instrs.push(proto);
        }
        let opcode = instr.wrapped.unwrap_or(instr.opcode);
        let result = self.shape(instr.shape).tuple_shapes.get(1).cloned();
        if matches!(opcode, Opcode::Constant | Opcode::Parameter) {
            let message =
                format!("expected an opcode with operands inside of `{}`", instr.opcode_parts().concat());
            self.errors.push(SyntaxError::new(instr.name.start(), message));
            return proto_id;
        }
        let Some(result) = result else {
            let message = "expected a tuple of operands, result and context as the shape of an async opcode";
            self.errors.push(SyntaxError::new(instr.name.start(), message));
            return proto_id;
        };
        let name = self.names.generated(opcode.name());
        let mut proto = to_instr::plain(name, opcode, result, unique_id(proto_id, operands.len()));
        proto.operand_ids = instrs.iter().map(|parameter| parameter.id).collect();
        let mut execution_thread = String::new();
        for attr in &computation.attrs[instr.attr_range()] {
            if self.module.spelling(attr) == "async_execution_thread" {
                execution_thread = unescaped(self.module.str(attr.value).trim_matches('"'));
            } else if to_instr::is_of_wrapped(attr) {
                self.attribute(&mut proto, attr);
            }
        }
        proto.called_computation_ids = callees;
        to_instr::set_defaults(&mut proto, shape.first());
        instrs.push(proto);
        let root = &instrs[operands.len()];
        let (root_id, program_shape) = (root.id, Some(shape.finish(root)));
        let name = self.computation_names.generated(WRAPPED);
        let proto = HloComputationProto {
            name,
            instructions: vec![],
            program_shape,
            id: proto_id,
            root_id,
            is_fusion_computation: false,
            execution_thread,
        };
        self.push(proto, &instrs);
        proto_id
    }
}

/// The name of a thread, without escapes.
fn unescaped(text: &str) -> String {
    let bytes = super::escape::unescape(text);
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

/// The id of an instruction, unique in the module: that of the computation and the position.
fn unique_id(computation: i64, position: usize) -> i64 {
    computation << 32 | position as i64
}

/// Shapes and names of the parameters of a computation.
#[derive(Default)]
struct ParameterShapes {
    parameters: Vec<(i64, ShapeProto, String)>,
}

impl ParameterShapes {
    fn first(&self) -> Option<&ShapeProto> {
        self.parameters.first().map(|(_, shape, _)| shape)
    }

    fn add(&mut self, instr: &HloInstructionProto) {
        if instr.opcode == Opcode::Parameter.name() {
            let shape = instr.shape.as_deref().cloned().unwrap_or_default();
            self.parameters.push((instr.parameter_number, shape, instr.name.clone()));
        }
    }

    fn finish(mut self, root: &HloInstructionProto) -> ProgramShapeProto {
        self.parameters.sort_by_key(|&(number, ..)| number);
        let mut found = ProgramShapeProto { result: root.shape.as_deref().cloned(), ..Default::default() };
        for (_, shape, name) in self.parameters {
            found.parameters.push(shape);
            found.parameter_names.push(name);
        }
        found
    }
}

/// Names that are unique in a module.
#[derive(Default)]
struct Names {
    /// Names in the text.
    texts: FxHashSet<String>,
    /// Names that have been given.
    used: FxHashSet<String>,
    /// The next number to try after a name.
    next: FxHashMap<String, usize>,
}

impl Names {
    /// A name of the text; another one if an earlier computation has it.
    fn unique(&mut self, name: &str) -> String {
        if self.used.insert(name.to_owned()) { name.to_owned() } else { self.numbered(name) }
    }

    /// A name that the text does not have.
    fn generated(&mut self, name: &str) -> String {
        if !self.texts.contains(name) && self.used.insert(name.to_owned()) {
            return name.to_owned();
        }
        self.numbered(name)
    }

    /// The name with the first number behind it that makes it unique, as XLA numbers names.
    fn numbered(&mut self, name: &str) -> String {
        let base = match name.rsplit_once('.') {
            Some((base, number)) if !base.is_empty() && number.parse::<u32>().is_ok() => base,
            _ => name,
        };
        let next = self.next.entry(base.to_owned()).or_insert(1);
        loop {
            let found = format!("{base}.{next}");
            *next += 1;
            if !self.texts.contains(&found) && self.used.insert(found.clone()) {
                return found;
            }
        }
    }
}
