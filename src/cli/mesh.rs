//! `hloom check` and `hloom explain`: a mesh config applied to a model, without a plugin.

use std::{io::Write, path::PathBuf};

use serde_json::{Value, json};

use super::{
    Answer, Env, Failure,
    device_args::{ModelArgs, TargetArg},
    invalid, render, write_json,
};
use crate::{
    app::{ComputeType, resolve::load_mesh},
    base::{Diagnostic, Setting},
    mesh::{self, MeshReport, Plan, Replicated, TensorSharding, short},
    step,
};

/// A mesh config, and the model and target that it is applied to.
#[derive(clap::Args, Debug)]
struct MeshArgs {
    /// The mesh config
    #[arg(value_name = "MESH")]
    mesh: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    target: TargetArg,
    /// Print one JSON object to standard output
    #[arg(long)]
    json: bool,
}

/// Check a mesh config: print every problem, and the bytes that each device stores. Needs no plugin.
#[derive(clap::Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    args: MeshArgs,
}

/// Explain how tensors are sharded, with the line of the mesh config that decides it.
#[derive(clap::Args, Debug)]
pub(super) struct Explain {
    #[command(flatten)]
    args: MeshArgs,
    /// Tensors, such as 'layers.*.self_attn.k_proj'; `*` matches any text
    #[arg(value_name = "PARAM")]
    param: String,
}

impl MeshArgs {
    fn report(self, err: &mut dyn Write) -> Result<(MeshReport, ComputeType), Failure> {
        let loaded = load_mesh(&self.mesh)?;
        let shards = self.target.batch_shards(&loaded);
        let workload = self.model.resolve(shards, &self.target.platforms())?;
        render::write_warnings(err, &workload.warnings)?;
        let report = mesh::check(&loaded, &step::tensors(workload.as_workload()), self.target.devices());
        Ok((report, workload.compute_type))
    }
}

impl Check {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let json = self.args.json;
        let (report, compute_type) = self.args.report(&mut *env.err)?;
        if json {
            let mut object = check_json(&report);
            object["dtype"] = json!(compute_type.dtype.name());
            write_json(&mut *env.out, &object)?;
        } else {
            env.out.write_all(check_text(&report, compute_type).as_bytes())?;
        }
        Ok(report.problems.is_empty().into())
    }
}

impl Explain {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { args, param } = self;
        let json = args.json;
        let (report, _) = args.report(&mut *env.err)?;
        for problem in &report.problems {
            writeln!(env.err, "{}", render::flags(&problem.to_string()))?;
        }
        let found = report.plan.as_ref().map(|plan| mesh::find_matching(plan, &param)).unwrap_or_default();
        if found.is_empty() && report.plan.is_some() {
            let hint = "'*' shows every tensor; the layers are stacked, so write `*` for the layer";
            return Err(invalid(Setting::Param, format!("matches no tensor: {param}"), hint).into());
        }
        if json {
            let tensors: Vec<Value> = found.iter().map(|sharding| tensor_json(sharding)).collect();
            write_json(&mut *env.out, &json!({ "problems": problems_json(&report), "tensors": tensors }))?;
        } else if let Some(plan) = &report.plan {
            let texts: Vec<String> =
                found.iter().map(|sharding| mesh::explain(sharding, &plan.mesh)).collect();
            env.out.write_all(texts.join("\n").as_bytes())?;
        }
        Ok(report.problems.is_empty().into())
    }
}

fn check_text(report: &MeshReport, compute_type: ComputeType) -> String {
    let mut text = String::new();
    let mut add = |line: String| text.push_str(&(line + "\n"));
    report.problems.iter().for_each(|problem| add(render::flags(&problem.to_string())));
    for mesh::PolicyNote { location, message, device_bytes } in &report.notes {
        let cost = match device_bytes {
            0 => String::new(),
            bytes => format!(" ({} more a device)", render::bytes(*bytes)),
        };
        add(format!("note: {location}: {message}{cost}"));
    }
    if let Some(plan) = &report.plan {
        if !(report.problems.is_empty() && report.notes.is_empty()) {
            add(String::new());
        }
        table(plan, compute_type).into_iter().for_each(&mut add);
    }
    let found = match report.problems.len() {
        0 => "no problems".to_owned(),
        several => render::count(several, "problem", "problems"),
    };
    add(format!("\n{found}"));
    text
}

fn table(plan: &Plan, compute_type: ComputeType) -> Vec<String> {
    let mesh::DeviceBytes { base, adapters, optimizer } = plan.device_bytes();
    let devices = render::count(plan.mesh.devices(), "device", "devices");
    let mut lines = vec![
        format!("mesh        {} = {devices}, {}", plan.mesh, plan.partitioner.name()),
        format!("dtype       {}", render::flags(&compute_type.to_string())),
    ];
    for (name, count) in [("base", base), ("adapters", adapters), ("optimizer", optimizer)] {
        lines.push(format!("{name:<12}{count:>16} bytes a device  {:>9}", render::bytes(count)));
    }
    for Replicated { group, axes, copies, tensors, bytes, extra_bytes } in plan.replicated() {
        let names: Vec<&str> = tensors.iter().take(2).map(|name| short(name)).collect();
        let more = match tensors.len().saturating_sub(2) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!(
            "replicated  {copies} copies along {}: {} a device, {} of it extra: {} {}{more}",
            axes.join(", "),
            render::bytes(bytes),
            render::bytes(extra_bytes),
            group_name(group),
            names.join(", "),
        ));
    }
    lines
}

fn group_name(group: mesh::TensorGroup) -> &'static str {
    match group {
        mesh::TensorGroup::Base => "base",
        mesh::TensorGroup::Adapter => "adapters",
        mesh::TensorGroup::Gradient => "gradients",
        mesh::TensorGroup::Optimizer => "optimizer",
        mesh::TensorGroup::Activation => "activation",
        mesh::TensorGroup::Batch => "batch",
    }
}

fn problems_json(report: &MeshReport) -> Vec<Value> {
    let problem = |diagnostic: &Diagnostic| {
        json!({
            "code": diagnostic.code,
            "file": diagnostic.location.file,
            "line": diagnostic.location.line,
            "item": diagnostic.location.item,
            "message": render::flags(&diagnostic.message),
            "hint": diagnostic.hint.as_deref().map(render::flags),
        })
    };
    report.problems.0.iter().map(problem).collect()
}

fn check_json(report: &MeshReport) -> Value {
    let notes = report.notes.iter().map(|mesh::PolicyNote { location, message, device_bytes }| {
        json!({"file": location.file, "line": location.line, "message": message, "device_bytes": device_bytes})
    });
    let mut object = json!({
        "problems": problems_json(report),
        "notes": notes.collect::<Vec<_>>(),
        "device_bytes": null,
        "replicated": [],
    });
    if let Some(plan) = &report.plan {
        let mesh::DeviceBytes { base, adapters, optimizer } = plan.device_bytes();
        object["devices"] = json!(plan.mesh.devices());
        object["device_bytes"] = json!({"base": base, "adapters": adapters, "optimizer": optimizer});
        let replicated = plan.replicated().into_iter().map(|entry| {
            json!({
                "group": group_name(entry.group), "axes": entry.axes, "copies": entry.copies,
                "tensors": entry.tensors, "bytes": entry.bytes, "extra_bytes": entry.extra_bytes,
            })
        });
        object["replicated"] = replicated.collect();
    }
    object
}

fn tensor_json(sharding: &TensorSharding) -> Value {
    let dims = sharding.dims.iter().map(|dim| {
        json!({
            "dim": dim.dim.name(), "size": dim.size, "shard": dim.shard_size(), "axes": dim.axes,
            "file": dim.location.as_ref().map(|location| &location.file),
            "line": dim.location.as_ref().and_then(|location| location.line),
        })
    });
    json!({
        "name": sharding.tensor.name,
        "group": group_name(sharding.tensor.group),
        "dtype": sharding.tensor.dtype.name(),
        "dims": dims.collect::<Vec<_>>(),
        "shard": sharding.shard_shape().to_string(),
        "shard_bytes": sharding.shard_bytes(),
    })
}
