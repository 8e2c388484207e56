use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::{ValueEnum, builder::PossibleValue};
use serde_json::{Value, json};

use super::{
    Answer, Env, Failure, Output, STDOUT, Stream,
    device_args::{ModelArgs, TargetArg, network},
    invalid,
    progress::Reporter,
    render, worker, write_json, write_output,
};
use crate::{
    app::{
        AppError, CompileTools, ComputeType, compile_module,
        hlo_files::OpenedModule,
        module_page,
        resolve::{self, BatchShards, load_mesh},
        resources::{Resources, templates},
        settings::{PluginArgs, StepOptionArgs},
        timeout,
    },
    base::{Partitioner, Setting, nearest_hint},
    hlo::{
        Verified, proto,
        raw::{self, Module},
        stablehlo, text, verify,
    },
    mesh::Loaded,
    runtime::DeviceMesh,
    step::{self, StepKind, StepSpec},
    targets::Target,
    templates::TemplateInfo,
};

/// Print the HLO module of a step: as built, sharded, or after all passes of a compiler whose devices need not be present.
#[derive(clap::Args, Debug)]
pub(super) struct Dump {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    options: StepOptionArgs,
    #[command(flatten)]
    target: TargetArg,
    /// Mesh config that shards the module
    #[arg(long, value_name = "F")]
    mesh: Option<PathBuf>,
    /// Program of the step
    #[arg(long, value_enum, default_value_t = StepKind::Train)]
    program: StepKind,
    /// Stage of the module [default: sharded with --mesh, else graph]
    #[arg(long, value_enum)]
    stage: Option<DumpStage>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only this computation and those that it calls
    #[arg(long, value_name = "NAME")]
    computation: Option<String>,
    /// Only the computation of a layer, forward or backward
    #[arg(long, value_enum, value_name = "PASS", num_args = 0..=1, require_equals = true,
          default_missing_value = "forward", conflicts_with = "computation")]
    layer: Option<LayerPass>,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Seconds that the compiler may take [default: no limit]
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    /// File to write; `-` is standard output [default: -]
    #[arg(long, value_name = "F")]
    out: Option<PathBuf>,
    /// List the templates with their signatures instead, those of a folder in place of built-in ones
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, exclusive = true)]
    list_templates: Option<Option<PathBuf>>,
    /// Print one JSON object to standard output, with the module in it unless it goes to a file
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DumpStage {
    /// As built
    Graph,
    /// With the shardings of a mesh
    Sharded,
    /// After all passes of the target's compiler
    Optimized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// HLO text
    Text,
    /// A serialized xla.HloModuleProto
    Proto,
    /// StableHLO text, with shardings for the partitioner of the mesh config
    Stablehlo,
    /// Computations and instructions as JSON
    Json,
    /// A graph for Graphviz
    Dot,
    /// A page to browse the module
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayerPass {
    Forward,
    Backward,
}

impl LayerPass {
    fn computation(self) -> &'static str {
        match self {
            Self::Forward => "layer",
            Self::Backward => "layer.backward",
        }
    }
}

/// A step before any compiler.
struct Built {
    module: Verified,
    partitioner: Partitioner,
    compute_type: ComputeType,
    target: Target,
}

impl Dump {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        if let Some(folder) = &self.list_templates {
            return list_templates(folder.as_deref(), self.json, env);
        }
        let (format, program, json) = (self.format, self.program, self.json);
        let stage = self.stage()?;
        let out = self.out.clone().filter(|out| out != STDOUT);
        if format == Format::Proto && out.is_none() {
            check_proto_sink(env.out_kind, json)?;
        }
        let built = self.build(stage, &mut *env.err)?;
        let compute_type = built.compute_type;
        let output = match stage {
            DumpStage::Graph | DumpStage::Sharded => self.written(&built)?,
            DumpStage::Optimized => self.optimized(&built, env)?,
        };
        if let Some(file) = &out {
            write_output(file, &output.bytes)?;
        }
        if json {
            let mut object = json!({
                "stage": name(stage),
                "format": name(format),
                "program": name(program),
                "dtype": compute_type.dtype.name(),
                "instructions": output.instructions,
                "bytes": output.bytes.len(),
            });
            match &out {
                Some(file) => object["out"] = json!(file),
                None => object["module"] = json!(String::from_utf8_lossy(&output.bytes)),
            }
            write_json(&mut *env.out, &object)?;
        } else if out.is_none() {
            env.out.write_all(&output.bytes)?;
        }
        if let Some(notice) = compute_type.notice() {
            writeln!(env.err, "{}", render::flags(&notice))?;
        }
        Ok(Answer::Yes)
    }

    fn stage(&self) -> Result<DumpStage, AppError> {
        match (self.stage, &self.mesh) {
            (None, Some(_)) => Ok(DumpStage::Sharded),
            (None, None) => Ok(DumpStage::Graph),
            (Some(DumpStage::Sharded), None) => {
                let problem = format!("expected {} with `sharded`, found none", Setting::Mesh);
                Err(invalid(Setting::Stage, problem, "for example `--mesh mesh-configs/fsdp8.toml`"))
            }
            (Some(DumpStage::Optimized), _) if self.format == Format::Stablehlo => {
                let problem = "StableHLO cannot express an optimized module".to_owned();
                Err(invalid(Setting::Format, problem, "choose `text`, or an earlier stage with `--stage`"))
            }
            (Some(stage), _) => Ok(stage),
        }
    }

    fn build(&self, stage: DumpStage, err: &mut dyn Write) -> Result<Built, Failure> {
        let loaded = self.mesh.as_deref().map(load_mesh).transpose()?;
        let target = &self.target;
        let shards = loaded.as_ref().map_or(BatchShards::ONE, |loaded| target.batch_shards(loaded));
        let workload = self.model.resolve(shards, &target.platforms())?;
        render::write_warnings(err, &workload.warnings)?;
        let compute_type = workload.compute_type;
        let options = resolve::options(&self.options.clone().into(), workload.shape, shards)?;
        let workload = workload.as_workload();
        let plan = |loaded: &Loaded| {
            let devices = target.devices().unwrap_or(loaded.config.written_devices());
            loaded.plan(&step::tensors(workload), devices)
        };
        let plan = loaded.as_ref().filter(|_| stage != DumpStage::Graph).map(plan).transpose()?;
        let templates = templates(self.plugin.templates.as_deref(), target.platform())?;
        let spec = StepSpec { options, mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
        let partitioner = plan.as_ref().map(|plan| plan.partitioner).unwrap_or_default();
        let module = step::build(&spec, self.program)?.module;
        let target = match stage {
            DumpStage::Optimized => {
                DeviceMesh::new(target.target().cloned(), loaded).map_err(AppError::from)?.target().clone()
            }
            _ => Target::default(),
        };
        Ok(Built { module, partitioner, compute_type, target })
    }

    /// The module before any compiler.
    fn written(&self, built: &Built) -> Result<DumpOutput, Failure> {
        if !self.is_part() {
            let bytes = match self.format {
                Format::Text => Some(text::print(&built.module).into_bytes()),
                Format::Proto => Some(proto::encode(&built.module)),
                Format::Stablehlo => Some(stablehlo_text(&built.module, built.partitioner)?),
                _ => None,
            };
            if let Some(bytes) = bytes {
                let instructions = built.module.module().computations.iter().map(|c| c.iter().count()).sum();
                return Ok(DumpOutput { bytes, instructions });
            }
        }
        let module = raw::parse(text::print(&built.module), "step")?;
        let module = self.part(module)?;
        if self.format == Format::Stablehlo {
            let part = verify(text::parse(&raw::print(&module), "step")?)?;
            let bytes = stablehlo_text(&part, built.partitioner)?;
            return Ok(DumpOutput { bytes, instructions: module.num_instructions() });
        }
        self.format.write(module, name(self.stage().unwrap_or(DumpStage::Graph)))
    }

    /// The module after all passes of the target's compiler.
    fn optimized(&self, built: &Built, env: &mut Env<'_>) -> Result<DumpOutput, Failure> {
        let limit = self.timeout.map(timeout).transpose()?;
        let resources = Resources::new(&env.store, network(self.plugin.offline));
        let tools = CompileTools {
            resources: &resources,
            plugin: self.plugin.plugin.as_deref(),
            worker: worker::worker_program(env, limit),
            starter: worker::starter(env, self.timeout)?,
            store: env.store.clone(),
        };
        let output = Output { json: self.json, quiet: false };
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        let Built { module, partitioner, target, .. } = built;
        let compiled = compile_module(&proto::encode(module), *partitioner, target, &tools, &mut reporter)?;
        let raw::FromProto { module, .. } =
            raw::from_proto(&compiled.optimized, &target.to_string(), raw::AsyncOps::Sugar)?;
        let module = self.part(module)?;
        self.format.write(module, format!("optimized for {target}"))
    }

    fn is_part(&self) -> bool {
        self.computation.is_some() || self.layer.is_some()
    }

    /// The computation that was chosen as a module of its own.
    fn part(&self, module: Module) -> Result<Module, AppError> {
        let layer = self.layer.map(LayerPass::computation);
        let Some(wanted) = self.computation.as_deref().or(layer) else { return Ok(module) };
        let wanted = wanted.trim_start_matches('%');
        match module.ids().find(|&id| module.computation_name(id) == wanted) {
            Some(id) => Ok(raw::part(&module, id)),
            None => {
                let names = module.ids().map(|id| module.computation_name(id));
                let problem = format!("unknown computation: {wanted}");
                let hint = nearest_hint(wanted, names).unwrap_or_else(|| {
                    format!("the entry computation is {}", module.computation_name(module.entry()))
                });
                Err(invalid(Setting::Computation, problem, &hint))
            }
        }
    }
}

/// A module in an output format.
struct DumpOutput {
    bytes: Vec<u8>,
    instructions: usize,
}

impl Format {
    fn write(self, module: Module, stage: String) -> Result<DumpOutput, Failure> {
        let instructions = module.num_instructions();
        let bytes = match self {
            Self::Text => raw::print(&module).into_bytes(),
            Self::Proto => raw::to_proto(&module, raw::ProtoFile::Module)?.bytes,
            Self::Json => format!("{:#}\n", raw::json(&module)).into_bytes(),
            Self::Dot => raw::dot(&module).into_bytes(),
            Self::Html => module_page::of_one(&OpenedModule::new(stage, module)).into_bytes(),
            Self::Stablehlo => unreachable!("StableHLO is written from the typed module"),
        };
        Ok(DumpOutput { bytes, instructions })
    }
}

fn stablehlo_text(module: &Verified, partitioner: Partitioner) -> Result<Vec<u8>, AppError> {
    let text = stablehlo::print(module, partitioner).map_err(|error| AppError::Other(error.into()))?;
    Ok(text.into_bytes())
}

/// Prints the templates with their signatures.
fn list_templates(folder: Option<&Path>, as_json: bool, env: &mut Env<'_>) -> Result<Answer, Failure> {
    let list = templates(folder, None)?.list();
    if as_json {
        let rows: Vec<Value> = list.iter().map(template_json).collect();
        write_json(&mut *env.out, &json!({ "templates": rows }))?;
        return Ok(Answer::Yes);
    }
    for TemplateInfo { name, file, parameters, result } in &list {
        writeln!(env.out, "{name}  {}", file.as_deref().unwrap_or("built in"))?;
        for (parameter, shape) in parameters {
            writeln!(env.out, "  {parameter}: {shape}")?;
        }
        writeln!(env.out, "  -> {result}")?;
    }
    Ok(Answer::Yes)
}

fn template_json(info: &TemplateInfo) -> Value {
    let parameters = info.parameters.iter().map(|(name, shape)| json!({ "name": name, "shape": shape }));
    json!({
        "name": info.name,
        "file": info.file,
        "parameters": parameters.collect::<Vec<_>>(),
        "result": info.result,
    })
}

impl ValueEnum for StepKind {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Train, Self::Accumulate, Self::Apply, Self::Evaluate, Self::Logits, Self::NextLogits]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Train => ("train", "Forward, backward and update"),
            Self::Accumulate => ("accumulate", "Forward and backward of one gradient accumulation step"),
            Self::Apply => ("apply", "The update with accumulated gradients"),
            Self::Evaluate => ("evaluate", "The loss"),
            Self::Logits => ("logits", "The logits of every position"),
            Self::NextLogits => ("next-logits", "The logits of one position"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Rejects the bytes of a proto on a terminal and in JSON.
fn check_proto_sink(kind: Stream, json: bool) -> Result<(), AppError> {
    let sink = match kind {
        _ if json => "a JSON object",
        Stream::Terminal => "a terminal",
        Stream::Pipe => return Ok(()),
    };
    let problem = format!("cannot write a binary proto to {sink}");
    Err(invalid(Setting::Format, problem, "write it to a file with --out"))
}

/// The name of a value on the command line.
fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("every value has a name").get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proto_is_not_written_to_a_terminal_or_into_json() {
        let check = |kind, json, expect: &str| {
            assert_eq!(check_proto_sink(kind, json).unwrap_err().to_string(), expect);
        };
        check(Stream::Terminal, false, "setting `format`: cannot write a binary proto to a terminal");
        check(Stream::Pipe, true, "setting `format`: cannot write a binary proto to a JSON object");
        assert!(check_proto_sink(Stream::Pipe, false).is_ok());
    }
}
