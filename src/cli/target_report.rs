//! Formats the report of a compiled target, as JSON and as a table.

use serde_json::{Value, json};

use super::render;
use crate::{
    app::{CompileRequest, FitAdvice, TargetReport, fit_advice},
    runtime::{bundle::PluginRecord, compile_worker::CompileOrigin},
};

/// Formats a target's report as a JSON object.
pub(super) fn json(target: &TargetReport) -> Value {
    let TargetReport { build, report, origin } = target;
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

/// Formats a target's report as a table, with advice if the step does not fit. `batch_shards` is the number of shards of
/// the batch.
pub(super) fn text(target: &TargetReport, request: &CompileRequest<'_>, batch_shards: usize) -> String {
    let TargetReport { build, report, origin } = target;
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:<16}{value}\n"));
    let status = match (report.fits, report.limit_bytes) {
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
        (None, None) => "the compiler ran out of memory".to_owned(),
    };
    row(&build.target, format!("{status}: {needs}"));
    let PluginRecord { name, version, api, .. } = &build.plugin;
    let api = api.as_ref().map(|api| format!(" (PJRT {api})")).unwrap_or_default();
    row("plugin", format!("{name} {version}{api}"));
    let cached = if *origin == CompileOrigin::Cache { ", cached" } else { "" };
    if build.executable.is_some() {
        row("compiled in", format!("{:.1} s{cached}", build.compile_seconds));
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
        let workload = request.workload.as_workload();
        let advice = fit_advice(report, workload, request.options, batch_shards);
        advice.iter().for_each(|advice| row("to make it fit", advice_text(advice)));
    }
    text
}

fn advice_text(advice: &FitAdvice) -> String {
    match advice {
        FitAdvice::Set { setting, value, effect, saves } => {
            let value = value.as_ref().map(|value| format!(" {value}")).unwrap_or_default();
            let saves =
                saves.map(|bytes| format!(": up to {} less", render::bytes(bytes))).unwrap_or_default();
            format!("`--{}{value}` {effect}{saves}", setting.name())
        }
        FitAdvice::SmallerBatch { batch, seq } => {
            format!("a smaller --batch or --seq (now {batch} x {seq}) needs fewer temporaries")
        }
        FitAdvice::ShardWeights { devices } => {
            let devices = devices.map_or("more devices".to_owned(), |min| format!("{min} devices or more"));
            format!("{devices}, with a mesh whose `[store]` shards the weights over all of them")
        }
        FitAdvice::LargerDevices => "more devices, or devices with more memory".to_owned(),
    }
}
