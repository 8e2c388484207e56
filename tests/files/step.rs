//! The kinds of file tests that build a training step.

use std::path::Path;

use hloom::{
    base::{DType, MemorySpace, Partitioner},
    hlo::{Attrs, Instr, Sharding, Verified, shardy, text},
    mesh::{self, Plan},
    model::{Config, LoraPlan, LoraSpec},
    step::{Packing, Remat, StepKind, StepOptions, StepSpec, Workload, build, tensors},
    templates::TemplateLibrary,
};

use super::{
    Input, TestResult,
    kinds::{computations, metadata},
};

pub const ANNOTATION_SETTINGS: &[&str] = &["model", "batch", "seq", "packing", "devices", "computations"];
pub const LOWERING_SETTINGS: &[&str] =
    &["model", "batch", "seq", "packing", "remat", "computations", "metadata"];
pub const HOST_OFFLOAD_SETTINGS: &[&str] = &["model", "batch", "seq", "packing", "remat", "weights"];

/// A model with adapters.
struct Adapted {
    config: Config,
    lora: LoraPlan,
}

impl Adapted {
    /// The built-in model of the setting `model`, with adapters of rank 4 on every linear.
    fn new(input: &Input) -> TestResult<Self> {
        let name = input.setting("model").unwrap_or("tiny");
        let config = Config::builtin(name)?;
        let lora = LoraSpec::all_linear(4, 8.0).resolve(&config)?;
        Ok(Self { config, lora })
    }

    fn workload(&self, input: &Input) -> TestResult<Workload<'_>> {
        let number = |key, default| -> TestResult<usize> {
            Ok(input.numbers(key)?.first().copied().unwrap_or(default))
        };
        let packing = input.choice("packing", &[("off", Packing::Off), ("on", Packing::On)], Packing::Off)?;
        let (batch, seq) = (number("batch", 2)?, number("seq", 8)?);
        let Self { config, lora } = self;
        Ok(Workload { packing, ..Workload::new(config, lora, DType::F32, batch, seq) })
    }
}

/// Builds the training step of a workload.
fn train_step(workload: Workload<'_>, input: &Input, mesh: Option<&Plan>) -> TestResult<Verified> {
    let remat = input.choice("remat", &Remat::ALL.map(|remat| (remat.name(), remat)), Remat::Full)?;
    let spaces = [("host", MemorySpace::Host), ("device", MemorySpace::Device)];
    let weights = input.choice("weights", &spaces, MemorySpace::Device)?;
    let options = StepOptions { remat: Some(remat), weights, ..StepOptions::for_length(workload.seq) };
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { options, mesh, ..StepSpec::new(workload, &templates) };
    Ok(build(&spec, StepKind::Train)?.module)
}

/// Whether the setting `computations` names a computation.
fn is_shown(input: &Input, name: &str) -> bool {
    input.setting("computations").is_some_and(|names| names.split(", ").any(|shown| shown == name))
}

/// The requested computations of a step.
pub fn lowering(input: &Input) -> TestResult<String> {
    let adapted = Adapted::new(input)?;
    let module = train_step(adapted.workload(input)?, input, None)?;
    let printed = text::print_with(module.module(), metadata(input)?);
    Ok(computations(&printed, |name| is_shown(input, name)))
}

/// The shardings of the requested computations, in the terms of the partitioner that the mesh config requests.
pub fn annotation(input: &Input) -> TestResult<String> {
    let adapted = Adapted::new(input)?;
    let workload = adapted.workload(input)?;
    let devices = input.numbers("devices")?;
    let &[devices] = &devices[..] else {
        return Err(format!("{}: missing setting: devices", input.name).into());
    };
    let loaded = mesh::parse(&input.text, Path::new(&input.name));
    let plan = match loaded.plan(&tensors(workload), devices) {
        Ok(plan) => plan,
        Err(problems) => return Ok(problems.to_string()),
    };
    let verified = train_step(workload, input, Some(&plan))?;
    let module = verified.module();
    let mut lines = vec![format!("partitioner: {}", plan.partitioner.name())];
    if plan.partitioner == Partitioner::Shardy {
        lines.push(format!("{}: {}", shardy::MESHES, module.frontend_attributes[shardy::MESHES]));
    }
    for computation in module.computations.iter().filter(|c| is_shown(input, &c.name)) {
        lines.push(format!("\n{}", computation.name));
        lines.extend(computation.instrs.iter().filter_map(|instr| sharding(instr, plan.partitioner)));
    }
    Ok(lines.join("\n"))
}

/// The sharding of an instruction, if it has one.
fn sharding(instr: &Instr, partitioner: Partitioner) -> Option<String> {
    let sharding = match partitioner {
        Partitioner::Gspmd => instr.sharding.as_ref().map(Sharding::to_string),
        Partitioner::Shardy => instr.frontend_attributes.get(shardy::SHARDING).cloned(),
    };
    sharding.map(|sharding| format!("  {} = {} {}: {sharding}", instr.name, instr.shape, instr.opcode))
}

/// The arguments in host memory, and the instructions that move a value to another memory space.
pub fn host_offload(input: &Input) -> TestResult<String> {
    let adapted = Adapted::new(input)?;
    let verified = train_step(adapted.workload(input)?, input, None)?;
    let module = verified.module();
    let entry = module.entry();
    let in_host = entry.parameters().into_iter().enumerate();
    let in_host = in_host.filter(|(number, _)| module.parameter_memory(*number) == MemorySpace::Host);
    let mut lines = vec!["arguments in host memory".to_owned()];
    lines.extend(in_host.map(|(number, id)| {
        let instr = entry.instr(id);
        format!("  {number}: {} {}", instr.name, instr.shape)
    }));
    for computation in &module.computations {
        let moves: Vec<String> =
            computation.instrs.iter().filter_map(|instr| memory_move(instr, &computation.instrs)).collect();
        if !moves.is_empty() {
            lines.push(format!("\n{}", computation.name));
            lines.extend(moves);
        }
    }
    Ok(lines.join("\n"))
}

/// An instruction that moves its operand to another memory space: the operand and the memory kind.
fn memory_move(instr: &Instr, instrs: &[Instr]) -> Option<String> {
    let Attrs::CustomCall(call) = &instr.attrs else { return None };
    (call.target == "annotate_device_placement").then(|| {
        let operand = &instrs[instr.operands[0].index()];
        let memory = &instr.frontend_attributes["_xla_buffer_placement"];
        format!("  {} = {} of {} to {memory}", instr.name, instr.shape, operand.name)
    })
}
