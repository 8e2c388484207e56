//! A module as the JSON that the scripts of the page read; `assets/program.js` is the other side.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Serialize, Serializer, ser::SerializeSeq};

use super::{
    pairs::{Pair, PairStatus, Place},
    program::{MemoryCurve, Stage},
    strings::Strings,
};
use crate::{
    analyze::{self, Executions},
    hlo::raw::{AttrName, CompId, InstrRef, Module, ReplicaGroups, Shape, ShapeId},
};

/// A module. Instructions count through all computations; all texts but names are indices into `strings`.
#[derive(Serialize)]
struct ModuleData<'m> {
    title: &'m str,
    name: &'m str,
    file: &'m str,
    scheduled: bool,
    entry: usize,
    attrs: Vec<(u32, u32)>,
    /// Products, elementwise operations, transcendental functions.
    flops: [Number; 3],
    unknown_loops: Vec<&'m str>,
    opcodes: Vec<String>,
    /// Text, and bytes of all its arrays.
    shapes: Vec<(&'m str, u64)>,
    computations: Vec<ComputationRow<'m>>,
    instructions: Vec<InstructionRow<'m>>,
    stacks: Vec<StackRow>,
    collectives: Vec<CollectiveRow>,
    memory: Option<CurveData<'m>>,
    strings: Strings<'m>,
}

/// Name, first instruction, number of instructions, root, executions, calls. A call is the instruction (from the first one),
/// attribute, callee, and how often it runs in one run of the instruction.
#[derive(Serialize)]
struct ComputationRow<'m>(&'m str, usize, usize, usize, Number, Vec<(usize, u32, usize, Number)>);

/// A frame that metadata names, and the stack there, innermost first: file, function, line.
#[derive(Serialize)]
struct StackRow(u32, Vec<(u32, u32, u32)>);

/// Instruction, kind, bytes, executions, devices in a group (0 for all).
#[derive(Serialize)]
struct CollectiveRow(usize, &'static str, u64, Number, u64);

#[derive(Serialize)]
struct CurveData<'m> {
    instructions: Vec<&'m str>,
    bytes: Vec<u64>,
    /// Name, bytes, first and last point.
    buffers: Vec<(&'m str, u64, usize, usize)>,
}

/// An instruction. In JSON a list without the empty values at its end.
struct InstructionRow<'m> {
    name: &'m str,
    opcode: u32,
    shape: u32,
    /// Positions in the computation.
    operands: Vec<usize>,
    /// Names and values in turn, without those that name computations or instructions.
    attrs: Vec<u32>,
    op_name: u32,
    /// The rest of the metadata.
    metadata: u32,
    /// Without those of called computations.
    flops: Number,
    payload: u32,
    predecessors: Vec<usize>,
}

impl Serialize for InstructionRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = [
            self.operands.is_empty(),
            self.attrs.is_empty(),
            self.op_name == 0,
            self.metadata == 0,
            self.flops.0 == 0.0,
            self.payload == 0,
            self.predecessors.is_empty(),
        ];
        let used = empty.iter().rposition(|&empty| !empty).map_or(0, |last| last + 1);
        let mut list = serializer.serialize_seq(Some(3 + used))?;
        list.serialize_element(self.name)?;
        list.serialize_element(&self.opcode)?;
        list.serialize_element(&self.shape)?;
        for index in 0..used {
            match index {
                0 => list.serialize_element(&self.operands)?,
                1 => list.serialize_element(&self.attrs)?,
                2 => list.serialize_element(&self.op_name)?,
                3 => list.serialize_element(&self.metadata)?,
                4 => list.serialize_element(&self.flops)?,
                5 => list.serialize_element(&self.payload)?,
                _ => list.serialize_element(&self.predecessors)?,
            }
        }
        list.end()
    }
}

/// A number that JSON has without a fraction where it is whole.
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() < 1e15 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Where the instructions of each computation start among all of the module.
fn starts(module: &Module) -> Vec<usize> {
    let sizes = module.ids().map(|id| module.instructions(id).len());
    let start = |sum: &mut usize, size: usize| {
        let start = *sum;
        *sum += size;
        Some(start)
    };
    sizes.scan(0, start).collect()
}

/// The JSON of a module.
pub(super) fn module_json(stage: &Stage<'_>) -> String {
    let &Stage { title, module, memory } = stage;
    let executions = Executions::of(module);
    let flops = analyze::flops(module, &executions);
    let starts = starts(module);
    let mut rows = Rows::new(module);
    let instructions = module.ids().flat_map(|id| module.instructions(id));
    let instructions = instructions.map(|instr| rows.instruction(instr)).collect();
    let computations =
        module.ids().map(|id| rows.computation(id, starts[id.index()], executions.count(id))).collect();
    let collectives = collective_rows(module, &executions, &starts);
    let stacks = rows.stacks();
    let attrs = module.attrs().map(|(name, value)| (rows.strings.index(name), rows.strings.index(value)));
    let attrs = attrs.collect();
    let data = ModuleData {
        title,
        name: module.name(),
        file: module.file(),
        scheduled: module.is_scheduled(),
        entry: module.entry().index(),
        attrs,
        flops: [flops.products, flops.elementwise, flops.transcendentals].map(Number),
        unknown_loops: executions.unknown_loops.clone(),
        opcodes: rows.opcodes,
        shapes: rows.shapes.iter().map(|&id| (module.shapes().text(id), shape_bytes(module, id))).collect(),
        computations,
        instructions,
        stacks,
        collectives,
        memory: memory.map(curve_data),
        strings: rows.strings,
    };
    serde_json::to_string(&data).expect("its keys are strings")
}

/// The JSON of pairs: instruction before, instruction after, and 1 for those that changed, in turn.
pub(super) fn pairs_json(before: &Module, after: &Module, pairs: &[Pair]) -> String {
    let (before, after) = (starts(before), starts(after));
    let index = |starts: &[usize], place: Place| starts[place.computation.index()] + place.position;
    let flat = pairs.iter().flat_map(|pair| {
        let changed = usize::from(pair.status == PairStatus::Changed);
        [index(&before, pair.before), index(&after, pair.after), changed]
    });
    serde_json::to_string(&flat.collect::<Vec<_>>()).expect("numbers")
}

/// What the rows share.
struct Rows<'m> {
    module: &'m Module,
    strings: Strings<'m>,
    opcodes: Vec<String>,
    opcode_indices: FxHashMap<String, u32>,
    shapes: Vec<ShapeId>,
    shape_indices: FxHashMap<ShapeId, u32>,
}

impl<'m> Rows<'m> {
    fn new(module: &'m Module) -> Self {
        Self {
            module,
            strings: Strings::new(),
            opcodes: vec![],
            opcode_indices: FxHashMap::default(),
            shapes: vec![],
            shape_indices: FxHashMap::default(),
        }
    }

    fn instruction(&mut self, instr: InstrRef<'m>) -> InstructionRow<'m> {
        let flops = analyze::instruction_flops(self.module, instr);
        let references: Vec<&str> = instr.callees().map(|(attr, _)| attr.name()).collect();
        let is_text = |name: &str| {
            !references.contains(&name)
                && ![AttrName::ControlPredecessors, AttrName::Metadata].iter().any(|attr| attr.name() == name)
        };
        let attrs = instr.attrs().filter(|(name, _)| is_text(name));
        let attrs = attrs.flat_map(|(name, value)| [self.strings.index(name), self.strings.index(value)]);
        InstructionRow {
            name: instr.name(),
            attrs: attrs.collect(),
            opcode: self.opcode(instr),
            shape: self.shape(instr.shape()),
            operands: instr.operands().iter().map(|operand| operand.index()).collect(),
            op_name: self.strings.index(instr.metadata("op_name").unwrap_or_default()),
            metadata: self.strings.index(other_metadata(instr)),
            flops: Number(flops.products + flops.elementwise),
            payload: self.strings.index(instr.payload()),
            predecessors: instr.control_predecessors().map(|instr| instr.index()).collect(),
        }
    }

    fn opcode(&mut self, instr: InstrRef<'_>) -> u32 {
        let text = instr.opcode_text();
        if let Some(&index) = self.opcode_indices.get(&text) {
            return index;
        }
        let index = self.opcodes.len() as u32;
        self.opcodes.push(text.clone());
        self.opcode_indices.insert(text, index);
        index
    }

    fn shape(&mut self, id: ShapeId) -> u32 {
        let shapes = &mut self.shapes;
        *self.shape_indices.entry(id).or_insert_with(|| {
            shapes.push(id);
            shapes.len() as u32 - 1
        })
    }

    fn computation(&mut self, id: CompId, first: usize, executions: f64) -> ComputationRow<'m> {
        let mut calls = Vec::new();
        for (position, instr) in self.module.instructions(id).enumerate() {
            for (attr, callee, runs) in analyze::callee_runs(self.module, instr) {
                calls.push((position, self.strings.index(attr.name()), callee.index(), Number(runs)));
            }
        }
        let size = self.module.instructions(id).len();
        let root = self.module.root(id).index();
        ComputationRow(self.module.computation_name(id), first, size, root, Number(executions), calls)
    }

    fn stacks(&mut self) -> Vec<StackRow> {
        let module = self.module;
        let instrs = module.ids().flat_map(|id| module.instructions(id));
        let frames = instrs.filter_map(|instr| instr.metadata("stack_frame_id")?.parse().ok());
        let mut frames: Vec<u32> = frames.collect();
        frames.sort_unstable();
        frames.dedup();
        let stack = |frame: u32| {
            let frames = module.stack(frame);
            let rows =
                frames.map(|at| (self.strings.index(at.file), self.strings.index(at.function), at.line));
            StackRow(frame, rows.collect())
        };
        frames.into_iter().map(stack).collect()
    }
}

/// The metadata without what the page has elsewhere: `op_name`, and a `scheduling_name` that is the name.
fn other_metadata(instr: InstrRef<'_>) -> String {
    let Some(text) = instr.attr(AttrName::Metadata) else { return String::new() };
    let text = text.trim();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let mut text = inner.unwrap_or(text).to_owned();
    if let Some(op_name) = instr.metadata("op_name") {
        text = text.replacen(&format!("op_name=\"{op_name}\""), "", 1);
    }
    text.replacen(&format!("scheduling_name=\"{}\"", instr.name()), "", 1).trim().to_owned()
}

fn collective_rows(module: &Module, executions: &Executions<'_>, starts: &[usize]) -> Vec<CollectiveRow> {
    let collectives = analyze::collectives(module, executions);
    let used: FxHashSet<CompId> = collectives.iter().map(|collective| collective.computation).collect();
    // A collective has its computation but not its position there, and names are unique within a computation.
    let mut positions: FxHashMap<(CompId, &str), usize> = FxHashMap::default();
    for id in module.ids().filter(|id| used.contains(id)) {
        let names = module.instructions(id).enumerate();
        positions.extend(names.map(|(position, instr)| ((id, instr.name()), position)));
    }
    let row = |collective: &analyze::Collective<'_>| {
        let id = collective.computation;
        let position = positions.get(&(id, collective.instr.name())).copied().unwrap_or(0);
        let devices = collective.groups.as_ref().and_then(ReplicaGroups::group_size).unwrap_or(0);
        let kind = collective.kind.name();
        CollectiveRow(
            starts[id.index()] + position,
            kind,
            collective.bytes,
            Number(collective.count),
            devices,
        )
    };
    collectives.iter().map(row).collect()
}

fn curve_data(curve: &MemoryCurve) -> CurveData<'_> {
    CurveData {
        instructions: curve.points.iter().map(|point| point.instruction.as_str()).collect(),
        bytes: curve.points.iter().map(|point| point.bytes).collect(),
        buffers: curve
            .buffers
            .iter()
            .map(|buffer| (buffer.name.as_str(), buffer.bytes, buffer.first, buffer.last))
            .collect(),
    }
}

/// Bytes of the elements of all arrays of a shape; dimensions without a bound count as empty.
fn shape_bytes(module: &Module, shape: ShapeId) -> u64 {
    match module.shapes().get(shape) {
        Shape::Array(array) => array.dense_bytes().unwrap_or(0),
        Shape::Tuple(elements) => {
            elements.iter().fold(0, |sum, &element| sum.saturating_add(shape_bytes(module, element)))
        }
        &Shape::Buffer(inner) => shape_bytes(module, inner),
    }
}
