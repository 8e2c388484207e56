use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    Answer, Env, Failure, Output, check_out_folder,
    device_args::{ModelArgs, network},
    progress::Reporter,
    target_report, worker, write_json,
};
use crate::{
    app::{
        CompileRequest, CompileTools, Parsed, Status, common_templates, compile,
        resolve::{self, BatchShards, load_mesh},
        resources::Resources,
        settings::{OptimizerArgs, PluginArgs, Settings, StepOptionArgs},
        target_devices, timeout,
    },
    runtime::bundle,
    targets::{Platform, Target},
};

/// Compile a training step for devices that need not be present, into a bundle.
///
/// `hloom train --bundle DIR` runs the bundle. Compiled targets are cached in the folder `compiled` of the store, which can be
/// removed at any time.
///
/// The digests in the bundle's manifest detect damaged files, not forged ones: for a bundle from an untrusted source, use
/// `hloom train --bundle DIR --recompile`, which ignores its executables.
#[derive(clap::Args, Debug)]
pub(super) struct Compile {
    #[command(flatten)]
    model: ModelArgs,
    /// Target devices: `cpu:8`, `mi300x:4x8`, `v5e:2x4`, or a device file, `mine.toml:8`; may be repeated
    #[arg(long = "target", value_name = "TARGET")]
    all_targets: Vec<Parsed<Target>>,
    /// Mesh config that shards the tensors over several devices
    #[arg(long, value_name = "F.toml")]
    mesh: Option<PathBuf>,
    #[command(flatten)]
    options: StepOptionArgs,
    #[command(flatten)]
    optimizer: OptimizerArgs,
    /// Folder of the bundle; an existing bundle is replaced
    #[arg(long, value_name = "DIR", required = true)]
    out: PathBuf,
    /// Seconds that the compiler may take for a target [default: no limit]
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    #[command(flatten)]
    plugin: PluginArgs,
    #[command(flatten)]
    output: Output,
}

impl Compile {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { model, all_targets, mesh, options, optimizer, out, timeout: seconds, plugin, output } =
            self;
        check_out_folder(&out)?;
        bundle::claim(&out)?;
        let limit = seconds.map(timeout).transpose()?;
        let mesh = mesh.as_deref().map(load_mesh).transpose()?;
        let targets: Vec<Target> = all_targets.into_iter().map(|target| target.0).collect();
        let devices = target_devices(&targets, mesh.as_ref())?;
        let templates = common_templates(plugin.templates.as_deref(), &devices)?;
        let settings = Settings::from(optimizer).or(options.into());
        let (name, shards) = (model.name().to_owned(), BatchShards::from(&devices[0]));
        let platforms: Vec<Platform> = devices.iter().map(|devices| devices.target().platform()).collect();
        let workload = model.resolve(shards, &platforms)?;
        let mesh_text = mesh.as_ref().map(|mesh| mesh.config.to_string());
        let request = CompileRequest {
            model: &name,
            workload: &workload,
            options: resolve::options(&settings, workload.shape, shards)?,
            optimizer: resolve::optimizer(&settings)?,
            max_grad_norm: resolve::max_grad_norm(&settings)?,
            templates: &templates,
            devices: &devices,
            mesh_text: mesh_text.as_deref(),
            out: &out,
        };
        let resources = Resources::new(&env.store, network(plugin.offline));
        let tools = CompileTools {
            resources: &resources,
            plugin: plugin.plugin.as_deref(),
            worker: worker::worker_program(env, limit),
            starter: worker::starter(env, seconds)?,
            store: env.store.clone(),
        };
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        workload.warnings.iter().for_each(|warning| reporter.warning(&warning.to_string()));
        workload.compute_type.notice().iter().for_each(|notice| reporter.line(notice));
        let report = compile(&request, &tools, &mut reporter)?;
        if output.json {
            let targets: Vec<Value> = report.targets.iter().map(target_report::json).collect();
            let object = json!({ "module_sha256": report.module_sha256, "out": out, "targets": targets });
            write_json(&mut *env.out, &object)?;
        } else {
            let text = |target| target_report::text(target, &request, shards.num_shards);
            let texts: Vec<String> = report.targets.iter().map(text).collect();
            let (texts, module, bundle) = (texts.join("\n"), &report.module_sha256, out.display());
            write!(env.out, "{texts}\nmodule  {module}\nbundle  {bundle}\n")?;
        }
        Ok(report.fits().into())
    }
}
