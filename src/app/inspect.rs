//! What a module does and needs, in figures.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::{AppError, hlo_files::OpenedModule};
use crate::{
    analyze::{self, Buffer, BufferKind, Collective, Executions, Memory, OpPath, Pass, Peak, Traffic},
    base::MemorySpace,
    hlo::raw::{AttrName, InstrRef, Module, Opcode},
    mesh::Loaded,
};

/// The number of the device's memory space in layouts.
const DEVICE: i64 = MemorySpace::Device.space();

/// A module in figures. Work and traffic are those of one run on one device, loops counted by their iterations.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleReport {
    /// The name of the module.
    pub module: String,
    /// The file that it was read from.
    pub file: String,
    /// Computations, those included that asynchronous operations wrap.
    pub computations: usize,
    /// Instructions of all computations.
    pub instructions: usize,
    /// Devices that run the module: partitions times replicas.
    pub devices: u64,
    /// Whether the order of the instructions is a schedule.
    pub scheduled: bool,
    /// How many instructions each opcode has, the most frequent first.
    #[serde(serialize_with = "as_map")]
    pub opcodes: Vec<(String, usize)>,
    /// Floating-point operations of products and elementwise operations.
    pub flops: f64,
    /// Floating-point operations of products.
    pub product_flops: f64,
    /// Transcendental functions, which are not among `flops`.
    pub transcendentals: f64,
    /// Bytes that instructions read and write.
    pub bytes: f64,
    /// Parameters of the entry computation.
    pub parameters: usize,
    /// Memory of one device.
    pub memory: MemoryReport,
    /// The buffers in use at the peak, largest first.
    pub largest: Vec<BufferReport>,
    /// The collectives, in the order of the module.
    pub collectives: Vec<CollectiveReport>,
    /// Loops whose number of iterations is unknown; each counts as one iteration.
    pub unknown_loops: Vec<String>,
}

/// Memory of one device over a run.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryReport {
    /// Bytes in use at the peak.
    pub peak_bytes: u64,
    /// The instruction at which the peak is reached first.
    pub peak_at: String,
    /// Its position among those of the run.
    pub peak_position: usize,
    /// Bytes of the parameters.
    pub parameter_bytes: u64,
    /// Bytes of results that are not in the memory of a parameter.
    pub output_bytes: u64,
    /// Bytes of constants, which are a part of the program and not of the peak.
    pub constant_bytes: u64,
    /// Bytes in the host's memory at their peak.
    pub host_bytes: u64,
    /// Bytes in use at each position.
    pub curve: Vec<u64>,
}

/// A buffer.
#[derive(Clone, Debug, Serialize)]
pub struct BufferReport {
    /// The instruction that writes it first.
    pub name: String,
    /// Its opcode.
    pub opcode: String,
    /// Its shape.
    pub shape: String,
    /// `parameter`, `output`, `temporary` or `constant`.
    pub kind: &'static str,
    /// Bytes, with padding.
    pub bytes: u64,
    /// First and last position of each time that it is in use.
    pub live: Vec<(u32, u32)>,
    /// The operation of the source program.
    pub op: Option<String>,
}

/// A collective.
#[derive(Clone, Debug, Serialize)]
pub struct CollectiveReport {
    /// `all-gather`, `all-reduce` and so on.
    pub kind: String,
    /// The instruction.
    pub name: String,
    /// Bytes of the full array on one device.
    pub bytes: u64,
    /// How often it runs.
    pub count: f64,
    /// Devices of each group; all of them where the instruction names none.
    pub group_size: Option<u64>,
    /// The mesh axes along which it communicates, with `,` between them; `None` without a mesh, or if the groups are of no axes.
    pub axis: Option<String>,
    /// Whether nothing is computed while it communicates; `None` without a schedule.
    pub exposed: Option<bool>,
    /// How many instructions compute while it communicates.
    pub overlapped: usize,
    /// The operation of the source program, its own or that of the nearest neighbour that has one.
    pub op: Option<String>,
    /// The part of the model that the operation is of: `layers/attn/q_proj`.
    pub part: Option<String>,
    /// `forward`, `backward` or `recomputed`.
    pub pass: Option<&'static str>,
}

/// Axes of a device mesh, and what a mesh config does with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshAxes {
    /// Name and size of each axis, in the order of the mesh.
    pub axes: Vec<(String, usize)>,
    /// Where the mesh config names each axis: the axis, what is sharded along it, and the line.
    pub rules: Vec<AxisRule>,
}

/// A rule of a mesh config that names an axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AxisRule {
    /// The axis.
    pub axis: String,
    /// `store` for arrays at rest, `compute` for values in computation.
    pub section: &'static str,
    /// The dimension that it splits.
    pub dim: String,
    /// File and line.
    pub location: String,
}

impl MeshAxes {
    /// The axes of a mesh config for a number of devices.
    ///
    /// # Errors
    /// Those of the mesh config.
    pub fn of(loaded: &Loaded, devices: usize) -> Result<Self, AppError> {
        let mesh = loaded.mesh(devices)?;
        let axes = mesh.axes().iter().map(|axis| (axis.name.clone(), axis.size)).collect();
        let sections = [("store", &loaded.config.store), ("compute", &loaded.config.compute)];
        let rules =
            sections.into_iter().flat_map(|(section, rules)| rules.iter().map(move |rule| (section, rule)));
        let rules = rules.flat_map(|(section, rule)| {
            rule.axes.iter().map(move |axis| AxisRule {
                axis: axis.clone(),
                section,
                dim: rule.dim.name().to_owned(),
                location: rule.location.without_item().to_string(),
            })
        });
        Ok(Self { axes, rules: rules.collect() })
    }

    fn of_collective(&self, found: &Collective<'_>) -> Option<String> {
        let axes: Vec<(&str, usize)> = self.axes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        Some(found.axes(&axes)?.join(",")).filter(|axes| !axes.is_empty())
    }
}

impl ModuleReport {
    /// The figures of a module. `mesh` names the groups of devices.
    pub fn of(opened: &OpenedModule, mesh: Option<&MeshAxes>) -> Self {
        let module = &opened.module;
        let executions = Executions::of(module);
        let flops = analyze::flops(module, &executions);
        let memory = Memory::of(module);
        let peak = memory.peak(DEVICE);
        let collectives = analyze::collectives(module, &executions);
        Self {
            module: module.name().to_owned(),
            file: module.file().to_owned(),
            computations: opened.num_computations,
            instructions: opened.num_instructions,
            devices: devices(module),
            scheduled: module.is_scheduled(),
            opcodes: opcodes(module),
            flops: flops.products + flops.elementwise,
            product_flops: flops.products,
            transcendentals: flops.transcendentals,
            bytes: Traffic::of(module).total(&executions).total(),
            parameters: parameters(module),
            largest: memory
                .live_at(DEVICE, peak.position)
                .map(|buffer| BufferReport::of(module, buffer))
                .collect(),
            memory: MemoryReport::of(&memory, peak),
            collectives: collectives.iter().map(|found| CollectiveReport::of(module, found, mesh)).collect(),
            unknown_loops: executions.unknown_loops.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

impl MemoryReport {
    fn of(memory: &Memory<'_>, peak: Peak) -> Self {
        let total = |kind| memory.total(kind, DEVICE);
        Self {
            peak_bytes: peak.bytes,
            peak_at: memory
                .positions
                .get(peak.position)
                .map_or("", |position| position.instr.name())
                .to_owned(),
            peak_position: peak.position,
            parameter_bytes: total(BufferKind::Parameter),
            output_bytes: total(BufferKind::Output),
            constant_bytes: total(BufferKind::Constant),
            host_bytes: memory.peak(MemorySpace::Host.space()).bytes,
            curve: memory.curve(DEVICE),
        }
    }
}

impl BufferReport {
    fn of(module: &Module, buffer: &Buffer<'_>) -> Self {
        let instr = buffer.instr;
        Self {
            name: instr.name().to_owned(),
            opcode: instr.opcode_text(),
            shape: module.shapes().text(instr.shape()).to_owned(),
            kind: match buffer.kind {
                BufferKind::Parameter => "parameter",
                BufferKind::Output => "output",
                BufferKind::Temporary => "temporary",
                BufferKind::Constant => "constant",
            },
            bytes: buffer.bytes,
            live: buffer.live.clone(),
            op: op(instr),
        }
    }
}

impl CollectiveReport {
    fn of(module: &Module, found: &Collective<'_>, mesh: Option<&MeshAxes>) -> Self {
        let group_size = found.groups.as_ref().map(|groups| groups.group_size().unwrap_or(devices(module)));
        let path = found.op_name.map(OpPath::split);
        Self {
            kind: found.kind.name().to_owned(),
            name: found.instr.name().to_owned(),
            bytes: found.bytes,
            count: found.count,
            group_size,
            axis: mesh.and_then(|mesh| mesh.of_collective(found)),
            exposed: module.is_scheduled().then(|| found.is_exposed()),
            overlapped: found.num_computing,
            op: found.op_name.map(str::to_owned),
            part: path.as_ref().map(OpPath::part).filter(|part| !part.is_empty()),
            pass: path.and_then(|path| path.pass).map(|pass| match pass {
                Pass::Forward => "forward",
                Pass::Backward => "backward",
                Pass::Recomputed => "recomputed",
            }),
        }
    }
}

fn op(instr: InstrRef<'_>) -> Option<String> {
    instr.metadata("op_name").map(str::to_owned)
}

/// Devices that run a module: partitions times replicas.
pub fn devices(module: &Module) -> u64 {
    let count = |name| module.attr(name).and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(1);
    count(AttrName::NumPartitions).saturating_mul(count(AttrName::ReplicaCount))
}

fn opcodes(module: &Module) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for instr in module.ids().flat_map(|id| module.instructions(id)) {
        *counts.entry(instr.opcode_text()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    counts
}

fn parameters(module: &Module) -> usize {
    module.instructions(module.entry()).filter(|instr| instr.opcode() == Opcode::Parameter).count()
}

fn as_map<S: Serializer>(pairs: &[(String, usize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, count)| (name, count)))
}
