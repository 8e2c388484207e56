use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    Answer, Env, Failure, Output, check_out_folder, plan,
    progress::Reporter,
    resources::{Resources, templates},
    settings::{OptimizerArgs, Settings, StepOptionArgs},
    start::{Starter, duration, worker_program},
    value_parsers::Parsed,
    verdict::Outcome,
    workload::{OwnedWorkload, WorkloadArgs, load_mesh},
    write_json, wrong,
};
use crate::{
    hlo::{proto, text},
    mesh::{Plan, explain_warnings},
    optim::AdamW,
    pjrt::{self, CompileOptions, ProgramFormat},
    runtime::compile_worker::{CompileJob, CompileOrigin, CompileWorkerError, WorkerProgram, compile_cached},
    runtime::{
        DeviceMesh,
        bundle::{
            self, BundleWriter, Manifest, MemoryReport, ModuleInputs, OptimizerSettings, PluginRecord,
            SlotRecord, TargetBuild, sha256,
        },
    },
    step::{self, StepProgram, StepSpec},
    store::{Network, package},
    targets::{Platform, Target},
    templates::TemplateLibrary,
    train::{TrainError, adapter_config},
};

/// Compile a training step for devices that need not be there, and carry the result to where they are.
///
/// The folder that it writes is what `hloom train --bundle` runs from. What was compiled once is kept in `compiled` under
/// the folder of the store; that can be removed at any time.
///
/// The digests in the bundle's manifest detect damaged files, not forged ones: use `hloom train --bundle DIR --recompile` for a
/// bundle from elsewhere, which ignores its executables.
#[derive(clap::Args, Debug)]
pub struct Compile {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// The devices: `cpu:8`, `mi300x:4x8`, `v5e:2x4`, or a device's file, `mine.toml:8`; may be given several times
    /// [default: cpu, with as many devices as --mesh makes]
    #[arg(long = "target", value_name = "TARGET")]
    all_targets: Vec<Parsed<Target>>,
    /// How the tensors lie on several devices
    #[arg(long, value_name = "F.toml")]
    mesh: Option<PathBuf>,
    #[command(flatten)]
    options: StepOptionArgs,
    #[command(flatten)]
    optimizer: OptimizerArgs,
    /// The folder of the bundle; a bundle that is there already is replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seconds that the compiler may take for a target [default: no limit]
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    /// The PJRT plugin to use, instead of the store's
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// Fetch nothing
    #[arg(long)]
    offline: bool,
    /// A folder of templates that replace the built-in ones of the same name
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Compile {
    pub fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        check_out_folder(&self.out)?;
        bundle::claim(&self.out)?;
        let timeout = self.timeout.map(duration).transpose()?;
        let loaded = self.mesh.as_deref().map(load_mesh).transpose()?;
        let mesh_text = loaded.as_ref().map(|loaded| loaded.config.to_string());
        let devices = self.devices(loaded)?;
        let templates = self.templates(&devices)?;
        let settings = Settings::from(self.optimizer).or(self.options.into());
        let (optimizer, max_grad_norm) = (plan::optimizer(&settings)?, plan::max_grad_norm(&settings)?);
        let (model, parts) = (self.workload.model.clone(), devices[0].batch_shards());
        let platforms: Vec<Platform> = devices.iter().map(|devices| devices.target().platform()).collect();
        let workload = self.workload.resolve(parts, &platforms)?;
        let mesh = devices[0].plan(workload.borrow())?;
        let spec = StepSpec {
            workload: workload.borrow(),
            options: plan::options(&settings, workload.shape, parts)?,
            optimizer,
            max_grad_norm,
            templates: &templates,
            mesh: mesh.as_ref(),
        };
        let program = step::build(&spec, step::StepKind::Train)?;
        let module = proto::encode(&program.module);

        let made = made(model, &workload, &spec, &templates);
        let network = if self.offline { Network::Offline } else { Network::Allowed };
        let compiler = Compiler {
            resources: Resources::new(&env.store, network),
            store: env.store.clone(),
            plugin: self.plugin.clone(),
            child: worker_program(env, timeout),
            starter: Starter::new(env, self.timeout)?,
            program: &program,
            module: &module,
            mesh: mesh.as_ref(),
        };
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, self.output);
        workload.warnings.iter().for_each(|warning| reporter.warning(&warning.to_string()));
        workload.compute_type.notice().iter().for_each(|notice| reporter.line(notice));
        let mut writer = BundleWriter::new(&self.out)?;
        writer.add(bundle::MODULE, &module)?;
        writer.add(bundle::MODULE_TEXT, text::print(&program.module).as_bytes())?;
        if let Some(text) = &mesh_text {
            writer.add(bundle::MESH, text.as_bytes())?;
        }
        let mut outcomes = Vec::new();
        for devices in &devices {
            outcomes.push(compiler.compile(devices.target(), &mut writer, &mut reporter)?);
        }
        let reports: Vec<&MemoryReport> = outcomes.iter().map(|outcome| &outcome.report).collect();
        writer.add(bundle::MEMORY, format!("{:#}\n", json!({ "targets": reports })).as_bytes())?;
        let (inputs, outputs) = SlotRecord::of_program(&program);
        let manifest = Manifest {
            hloom: env!("CARGO_PKG_VERSION").to_owned(),
            module_sha256: sha256(&module),
            files: Default::default(),
            made: ModuleInputs { mesh: mesh.as_ref().map(|plan| plan.mesh.to_string()), ..made },
            inputs,
            outputs,
            targets: outcomes.iter().map(|outcome| outcome.build.clone()).collect(),
        };
        let module_sha256 = manifest.module_sha256.clone();
        writer.finish(manifest)?;
        reporter.rest();

        if self.output.json {
            let targets: Vec<Value> = outcomes.iter().map(Outcome::json).collect();
            let object = json!({ "module_sha256": module_sha256, "out": self.out, "targets": targets });
            write_json(&mut *env.out, &object)?;
        } else {
            let texts: Vec<String> = outcomes.iter().map(|outcome| outcome.text(&spec, parts)).collect();
            write!(
                env.out,
                "{}\nmodule  {module_sha256}\nbundle  {}\n",
                texts.join("\n"),
                self.out.display()
            )?;
        }
        Ok(outcomes.iter().all(|outcome| outcome.report.fits).into())
    }

    /// The templates, which are the same for every target.
    fn templates(&self, devices: &[DeviceMesh]) -> Result<TemplateLibrary, Failure> {
        let of = |devices: &DeviceMesh| {
            let platform = devices.target().platform();
            Ok::<_, TrainError>((platform, templates(self.templates.as_deref(), Some(platform))?))
        };
        let (first, rest) = (of(&devices[0])?, &devices[1..]);
        for other in rest {
            let (platform, found) = of(other)?;
            if replaced(&found) != replaced(&first.1) {
                let problem =
                    format!("it has other templates for {} than for {}", first.0.name(), platform.name());
                return Err(wrong(
                    "--templates",
                    problem,
                    "the module is the same for all targets of a bundle: make two bundles",
                ));
            }
        }
        Ok(first.1)
    }

    /// The devices of every target: equally many, for the module is the same.
    fn devices(&self, mesh: Option<crate::mesh::Loaded>) -> Result<Vec<DeviceMesh>, Failure> {
        let mut targets: Vec<Option<Target>> =
            self.all_targets.iter().map(|word| Some(word.0.clone())).collect();
        if targets.is_empty() {
            targets.push(None);
        }
        let mut all: Vec<DeviceMesh> = Vec::new();
        for target in targets {
            let devices = DeviceMesh::new(target, mesh.clone()).map_err(TrainError::from)?;
            let target = devices.target();
            if let Some(first) = all.first().map(DeviceMesh::target)
                && first.devices() != target.devices()
            {
                let problem =
                    format!("expected targets of equally many devices, found: {first} and {target}");
                return Err(wrong(
                    "--target",
                    problem,
                    "the module is the same for all of them: make two bundles",
                ));
            }
            if all.iter().any(|known| known.target().to_string() == target.to_string()) {
                return Err(wrong(
                    "--target",
                    format!("this target stands twice: {target}"),
                    "leave out one of them",
                ));
            }
            all.push(devices);
        }
        Ok(all)
    }
}

/// What compiles a module for one target after the other.
struct Compiler<'a> {
    resources: Resources,
    store: PathBuf,
    plugin: Option<PathBuf>,
    child: WorkerProgram,
    starter: Starter,
    program: &'a StepProgram,
    module: &'a [u8],
    mesh: Option<&'a Plan>,
}

impl Compiler<'_> {
    fn compile(
        &self,
        target: &Target,
        writer: &mut BundleWriter,
        reporter: &mut Reporter<'_>,
    ) -> Result<Outcome, TrainError> {
        let plugin = self.resources.plugin_file(target, self.plugin.as_deref(), reporter)?;
        pjrt::Plugin::check_file(&plugin)?;
        let is_present = target.device().is_none() || target.platform() == Platform::Cpu;
        if is_present {
            self.starter.check(&plugin, target)?;
        }
        reporter.phase(&format!("compiling for {target}"));
        let record = plugin_record(&plugin, target, &self.store)?;
        let partitioner = self.mesh.map(|plan| plan.partitioner).unwrap_or_default();
        let options = CompileOptions { partitioner, ..target.compile_options() };
        let program = pjrt::PjrtProgram { format: ProgramFormat::Hlo, bytes: self.module };
        let job = CompileJob { plugin: &plugin, target, program, options: &options };
        let cache = self.store.join("compiled");
        let limit = target.device().and_then(|device| device.memory_bytes);
        let report = |limit| MemoryReport::of_slots(target, limit, &self.program.inputs);
        let build = TargetBuild {
            target: target.to_string(),
            executable: None,
            optimized: None,
            plugin: record,
            options: options.clone(),
            compile_seconds: 0.0,
            memory: None,
            warnings: vec![],
        };
        let compiled = compile_cached(&job, &self.child, &build.plugin.sha256, &cache);
        let (compiled, origin) = match compiled {
            Ok(compiled) => compiled,
            Err(CompileWorkerError::TooLarge { message, .. }) => {
                let report = report(limit).too_large(message);
                return Ok(Outcome { build, report, origin: CompileOrigin::Compiler });
            }
            Err(source) => return Err(TrainError::Compile { target: target.to_string(), source }),
        };
        let (executable, optimized) =
            (format!("executable.{target}.bin"), format!("optimized.{target}.hlo.pb"));
        writer.add(&executable, &compiled.executable)?;
        writer.add(&optimized, &compiled.optimized)?;
        // A form that is not known has no bill.
        let values = proto::computed_values(&compiled.optimized).unwrap_or_default();
        let limit = limit.or(compiled.memory_limit);
        let report = report(limit).compiled(target.platform(), &compiled.memory, &values);
        let (major, minor) = compiled.api_version;
        let build = TargetBuild {
            executable: Some(executable),
            optimized: Some(optimized),
            plugin: PluginRecord { api: Some(format!("{major}.{minor}")), ..build.plugin },
            compile_seconds: compiled.compile_seconds,
            memory: Some(compiled.memory),
            warnings: explain_warnings(compiled.warnings, self.program.module.module(), self.mesh),
            ..build
        };
        Ok(Outcome { build, report, origin })
    }
}

fn made(
    model: String,
    workload: &OwnedWorkload,
    spec: &StepSpec<'_>,
    templates: &TemplateLibrary,
) -> ModuleInputs {
    let step::Workload { config, dtype, batch, seq, packing, .. } = spec.workload;
    let AdamW { beta1, beta2, eps, weight_decay } = spec.optimizer;
    let max_grad_norm = Some(spec.max_grad_norm).filter(|norm| norm.is_finite());
    ModuleInputs {
        model,
        config: serde_json::to_value(config).unwrap_or_default(),
        batch,
        seq,
        packing,
        dtype: dtype.name().to_owned(),
        lora: adapter_config(&workload.spec, None),
        options: spec.options,
        optimizer: OptimizerSettings { beta1, beta2, eps, weight_decay, max_grad_norm },
        mesh: None,
        templates: replaced(templates),
    }
}

/// The SHA-256 of each template that is not the embedded one, by name.
pub fn replaced(templates: &TemplateLibrary) -> std::collections::BTreeMap<String, String> {
    templates.replaced().map(|(name, text)| (name.to_owned(), sha256(text.as_bytes()))).collect()
}

/// Who a plugin's file is.
fn plugin_record(path: &Path, target: &Target, store: &Path) -> Result<PluginRecord, TrainError> {
    let sha256 = file_sha256(path)?;
    let pinned = package(target.platform().name()).and_then(|package| package.wheels.first());
    let (name, version) = match pinned.filter(|_| path.starts_with(store)) {
        Some(wheel) => (wheel.name.to_owned(), wheel.version.to_owned()),
        None => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, sha256[..12].to_owned())
        }
    };
    Ok(PluginRecord { name, version, api: None, sha256 })
}

/// The SHA-256 of a file.
pub fn file_sha256(path: &Path) -> Result<String, TrainError> {
    let bytes =
        fs::read(path).map_err(|source| TrainError::Io { action: "read", path: path.to_owned(), source })?;
    Ok(sha256(&bytes))
}
