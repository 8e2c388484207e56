//! What the compiler says of a step on a target, and what would make it fit.

use serde_json::{Value, json};

use super::render;
use crate::{
    base::{DType, MemorySpace},
    runtime::bundle::{MemoryReport, PluginRecord, TargetBuild},
    runtime::compile_worker::CompileOrigin,
    step::{Remat, StepOptions, StepSpec, Workload},
};

/// What became of a target.
pub struct Outcome {
    /// What the bundle says of it.
    pub build: TargetBuild,
    /// What each device must hold.
    pub report: MemoryReport,
    /// Whether it was compiled now.
    pub origin: CompileOrigin,
}

impl Outcome {
    /// As an object of `--json`.
    pub fn json(&self) -> Value {
        let Self { build, report, origin } = self;
        let PluginRecord { name, version, api, .. } = &build.plugin;
        json!({
            "target": build.target,
            "compile_seconds": build.compile_seconds,
            "cached": *origin == CompileOrigin::Cache,
            "fits": report.fits,
            "device_bytes": report.device_bytes,
            "limit_bytes": report.limit_bytes,
            "host_bytes": report.host_bytes,
            "plugin": { "name": name, "version": version, "api": api },
            "warnings": build.warnings,
            "memory": report,
        })
    }

    /// In words; `spec` is of the step, whose batch the mesh splits into `parts`.
    pub fn text(&self, spec: &StepSpec<'_>, parts: usize) -> String {
        let Self { build, report, origin } = self;
        let mut text = String::new();
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:<16}{value}\n"));
        let verdict = match (report.fits, report.limit_bytes) {
            (true, Some(_)) => "fits",
            (true, None) => "compiled",
            (false, _) => "does NOT fit",
        };
        let needs = match (report.device_bytes, report.limit_bytes) {
            (Some(needs), Some(limit)) => {
                format!("{} of {} a device", render::bytes(needs), render::bytes(limit))
            }
            (Some(needs), None) => format!("{} a device", render::bytes(needs)),
            (None, Some(limit)) => format!("more than {} a device", render::bytes(limit)),
            (None, None) => "the compiler gave up".to_owned(),
        };
        row(&build.target, format!("{verdict}: {needs}"));
        let PluginRecord { name, version, api, .. } = &build.plugin;
        let api = api.as_ref().map(|api| format!(" (PJRT {api})")).unwrap_or_default();
        row("plugin", format!("{name} {version}{api}"));
        let before = if *origin == CompileOrigin::Cache { ", before" } else { "" };
        if build.executable.is_some() {
            row("compiled in", format!("{:.1} s{before}", build.compile_seconds));
        }
        for (name, bytes) in [
            ("weights", report.weights),
            ("adapters", report.adapters),
            ("optimizer", report.optimizer),
            ("batch", report.batch),
            ("padding", report.padding),
            ("results", report.results),
            ("temporaries", report.temporaries),
            ("generated code", report.generated_code),
            ("in host memory", report.host_bytes),
        ] {
            if bytes > 0 {
                row(&format!("  {name}"), format!("{:>9}", render::bytes(bytes)));
            }
        }
        let large = report.causes.iter().filter(|cause| cause.largest_bytes >= 1 << 20).take(5);
        let mut title = "largest values";
        for cause in large {
            let several =
                if cause.values > 1 { format!(", the largest of {}", cause.values) } else { String::new() };
            row(title, format!("{:>9}  {}{several}", render::bytes(cause.largest_bytes), cause.cause));
            title = "";
        }
        if let Some(message) = &report.message {
            row("the compiler", message.lines().next().unwrap_or_default().to_owned());
        }
        build.warnings.iter().for_each(|warning| row("warning", warning.clone()));
        if !report.fits {
            fixes(report, spec, parts).into_iter().for_each(|fix| row("to make it fit", fix));
        }
        text
    }
}

/// What would make a step fit, by what takes the room.
fn fixes(report: &MemoryReport, spec: &StepSpec<'_>, parts: usize) -> Vec<String> {
    let mut fixes = Vec::new();
    let Workload { dtype, batch, seq, .. } = spec.workload;
    let StepOptions { remat, remat_every, micro_batches, weights, .. } = spec.options;
    let limit = report.limit_bytes.unwrap_or(u64::MAX);
    if dtype == DType::F32 {
        fixes
            .push(format!("`--dtype bfloat16` halves the weights, by {}", render::bytes(report.weights / 2)));
    }
    if report.temporaries > limit / 10 || report.device_bytes.is_none() {
        let every = (spec.workload.config.num_hidden_layers as f64).sqrt().round();
        if remat_every.is_none() && every > 1.0 {
            fixes.push(format!(
                "`--remat-every {every}` keeps the input of one layer in {every}, and takes another forward pass"
            ));
        }
        if remat != Some(Remat::Offload) {
            fixes.push("`--remat offload` keeps the inputs of layers in the host's memory".into());
        }
        let rows = batch / (parts * micro_batches.get()).max(1);
        if rows > 1 {
            fixes.push(format!(
                "`--micro-batches {}` computes a row of each device at a time",
                batch / parts.max(1)
            ));
        }
        fixes.push(format!("a smaller --batch or --seq (now {batch} x {seq}) needs fewer temporaries"));
    }
    if report.weights > limit / 4 && weights == MemorySpace::Device {
        fixes.push(format!(
            "`--offload-weights` keeps the layers' matrices in the host's memory: up to {} less",
            render::bytes(report.weights)
        ));
    }
    if report.weights > limit / 4 {
        let devices = match report.device_bytes {
            Some(needs) => {
                let least = (report.devices as u64).saturating_mul(needs.div_ceil(limit.max(1)));
                format!("{least} devices or more")
            }
            None => "more devices".to_owned(),
        };
        fixes.push(format!("{devices}, with a mesh whose `[store]` splits the weights over all of them"));
    }
    if fixes.is_empty() {
        fixes.push("more devices, or devices with more memory".to_owned());
    }
    fixes
}
