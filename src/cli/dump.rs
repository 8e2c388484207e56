use std::{io::Write, path::PathBuf};

use clap::{ValueEnum, builder::PossibleValue};
use serde_json::json;

use super::{
    Answer, Env, Failure, STDOUT, Stream,
    device_args::{ModelArgs, TargetArg},
    invalid, render, write_json,
};
use crate::{
    app::{
        AppError, ComputeType,
        resolve::{self, BatchShards, load_mesh},
        resources::templates,
        settings::StepOptionArgs,
    },
    base::{Partitioner, Setting, output},
    hlo::{Verified, proto, stablehlo, text},
    mesh::Loaded,
    step::{self, StepKind, StepSpec},
    train::TrainError,
};

/// Print the HLO module of a step, before any compiler. Needs neither weights nor a plugin.
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
    stage: Option<Stage>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Folder of templates that replace built-in ones of the same name
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// File to write; `-` is standard output [default: -]
    #[arg(long, value_name = "F")]
    out: Option<PathBuf>,
    /// Print one JSON object to standard output, with the module in it unless it goes to a file
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// As built
    Graph,
    /// With the shardings of a mesh
    Sharded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// HLO text
    Text,
    /// A serialized xla.HloModuleProto
    Proto,
    /// StableHLO text, with shardings for the partitioner of the mesh config
    Stablehlo,
}

impl Dump {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { format, program, json, .. } = self;
        let stage = match (self.stage, &self.mesh) {
            (None, Some(_)) => Stage::Sharded,
            (None, None) => Stage::Graph,
            (Some(Stage::Sharded), None) => {
                let problem = format!("expected {} with `sharded`, found none", Setting::Mesh);
                return Err(
                    invalid(Setting::Stage, problem, "for example `--mesh mesh-configs/fsdp8.toml`").into()
                );
            }
            (Some(stage), _) => stage,
        };
        let out = self.out.clone().filter(|out| out != STDOUT);
        if format == Format::Proto && out.is_none() {
            check_proto_sink(env.out_kind, json)?;
        }
        let (module, partitioner, compute_type) = self.module(stage, &mut *env.err)?;
        let instructions: usize = module.module().computations.iter().map(|c| c.iter().count()).sum();
        let bytes = match format {
            Format::Text => text::print(&module).into_bytes(),
            Format::Proto => proto::encode(&module),
            Format::Stablehlo => stablehlo::print(&module, partitioner)
                .map_err(|error| AppError::Other(error.into()))?
                .into_bytes(),
        };
        if let Some(file) = &out {
            output::write_file(file, &bytes).map_err(|source| TrainError::Io {
                action: "write",
                path: file.clone(),
                source,
            })?;
        }
        if json {
            let mut object = json!({
                "stage": name(stage),
                "format": name(format),
                "program": name(program),
                "dtype": compute_type.dtype.name(),
                "instructions": instructions,
                "bytes": bytes.len(),
            });
            match &out {
                Some(file) => object["out"] = json!(file),
                None => object["module"] = json!(String::from_utf8_lossy(&bytes)),
            }
            write_json(&mut *env.out, &object)?;
        } else if out.is_none() {
            env.out.write_all(&bytes)?;
        }
        if let Some(notice) = compute_type.notice() {
            writeln!(env.err, "{}", render::flags(&notice))?;
        }
        Ok(Answer::Yes)
    }

    fn module(
        self,
        stage: Stage,
        err: &mut dyn Write,
    ) -> Result<(Verified, Partitioner, ComputeType), Failure> {
        let Self { model, options, target, mesh, program, templates: folder, .. } = self;
        let loaded = mesh.as_deref().map(load_mesh).transpose()?;
        let shards = loaded.as_ref().map_or(BatchShards::ONE, |loaded| target.batch_shards(loaded));
        let workload = model.resolve(shards, &target.platforms())?;
        render::write_warnings(err, &workload.warnings)?;
        let compute_type = workload.compute_type;
        let options = resolve::options(&options.into(), workload.shape, shards)?;
        let workload = workload.as_workload();
        let plan = |loaded: &Loaded| {
            let devices = target.devices().unwrap_or(loaded.config.written_devices());
            loaded.plan(&step::tensors(workload), devices)
        };
        let plan = loaded.as_ref().filter(|_| stage == Stage::Sharded).map(plan).transpose()?;
        let templates = templates(folder.as_deref(), target.platform())?;
        let spec = StepSpec { options, mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
        let partitioner = plan.as_ref().map(|plan| plan.partitioner).unwrap_or_default();
        Ok((step::build(&spec, program)?.module, partitioner, compute_type))
    }
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
