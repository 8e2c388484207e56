use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    Answer, Env, Failure,
    filter::Filter,
    inspect_text::{stages_text, text},
    write_json, write_output,
};
use crate::{
    app::{
        hlo_files::{self, OpenedModule},
        inspect::{MeshAxes, ModuleReport, devices},
        module_page,
        resolve::load_mesh,
    },
    diff::{IgnoreSet, diff},
    hlo::raw::Module,
    mesh::Loaded,
    runtime::bundle::MESH,
};

/// Read an HLO module and say what it does: work, memory, collectives.
///
/// The module may be HLO text or a proto, alone or compressed, a bundle, or a folder that XLA dumped: then the stages are listed
/// in order and the last one is described.
#[derive(clap::Args, Debug)]
pub(super) struct Inspect {
    /// File with a module, bundle, or folder of XLA's dumps
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Part of the name of a module, where a folder has several
    #[arg(long, value_name = "NAME")]
    module: Option<String>,
    /// Target of a bundle [default: the first with an optimized module]
    #[arg(long, value_name = "T")]
    target: Option<String>,
    /// Mesh config whose axes name the groups of collectives [default: that of a bundle]
    #[arg(long, value_name = "F")]
    mesh: Option<PathBuf>,
    /// Rows of each table [default: 10]
    #[arg(long, value_name = "N", default_value_t = 10, hide_default_value = true)]
    top: usize,
    /// Show collectives and buffers of an opcode and size only, such as `all-gather > 1MB` or `> 64kB`
    #[arg(long, value_name = "EXPR")]
    filter: Option<Filter>,
    /// Also write a page to browse the module to this file; of a folder, the first and the last stage in step
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
    /// Print one JSON object to standard output
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { file, module, target, mesh, top, filter, html, json: as_json } = self;
        let files = hlo_files::find(&file, module.as_deref(), target.as_deref())?;
        let of_bundle = || Some(file.join(MESH)).filter(|mesh| file.is_dir() && mesh.exists());
        let mesh = mesh.or_else(of_bundle).as_deref().map(load_mesh).transpose()?;
        let mut reports = Vec::new();
        let mut axes = None;
        let mut opened: Vec<OpenedModule> = Vec::new();
        for file in &files {
            let module = hlo_files::read(file)?;
            let axes_of = |mesh| MeshAxes::of(mesh, num_devices(&module.module, mesh));
            axes = mesh.as_ref().map(axes_of).transpose()?;
            let mut report = ModuleReport::of(&module, axes.as_ref());
            if let Some(filter) = &filter {
                report.largest.retain(|buffer| filter.accepts(&buffer.opcode, buffer.bytes));
                report.collectives.retain(|collective| filter.accepts(&collective.kind, collective.bytes));
            }
            reports.push((module.stage.clone(), report));
            // A page shows the first stage and the last one.
            opened.truncate(1);
            opened.push(module);
        }
        let (_, report) = reports.last().expect("a folder without modules is an error");
        for name in &report.unknown_loops {
            writeln!(env.err, "warning: unknown number of iterations, counted as one: {name}")?;
        }
        if let Some(path) = &html {
            let page = match &opened[..] {
                [before, after] => {
                    let found = diff(&before.module, &after.module, IgnoreSet::default());
                    module_page::of_two(before, after, Some(&found))
                }
                [one, ..] => module_page::of_one(one),
                [] => String::new(),
            };
            write_output(path, page.as_bytes())?;
        }
        if as_json {
            let mut object = serde_json::to_value(report).map_err(anyhow::Error::from)?;
            if let Some(axes) = &axes {
                object["axis_rules"] = json!(axes.rules);
            }
            if reports.len() > 1 {
                let stages = reports.iter().map(|(stage, report)| stage_json(stage, report));
                object["stages"] = stages.collect();
            }
            write_json(&mut *env.out, &object)?;
        } else {
            if reports.len() > 1 {
                env.out.write_all(stages_text(&reports).as_bytes())?;
            }
            env.out.write_all(text(report, axes.as_ref(), top).as_bytes())?;
        }
        Ok(Answer::Yes)
    }
}

/// The devices of a module; where it has no number, those that the mesh config writes.
fn num_devices(module: &Module, mesh: &Loaded) -> usize {
    match devices(module) {
        1 => mesh.config.written_devices(),
        devices => devices as usize,
    }
}

fn stage_json(stage: &str, report: &ModuleReport) -> Value {
    json!({
        "stage": stage,
        "file": report.file,
        "instructions": report.instructions,
        "flops": report.flops,
        "collectives": report.collectives.len(),
        "peak_bytes": report.scheduled.then_some(report.memory.peak_bytes),
    })
}
