//! Compiles a step for one or more targets and writes a bundle.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::json;

use super::{
    AppError, Starter, Status,
    fit_report::TargetReport,
    resources::{Resources, templates},
    workload::OwnedWorkload,
};
use crate::{
    base::{Partitioner, Setting},
    hlo::{proto, text},
    mesh::{Loaded, Plan, explain_warnings},
    optim::AdamW,
    pjrt::{CompileOptions, PjrtProgram, Plugin, ProgramFormat},
    runtime::{
        DeviceMesh,
        bundle::{
            self, BundleWriter, Manifest, MemoryReport, ModuleInputs, OptimizerSettings, PluginRecord,
            SlotRecord, TargetBuild, sha256,
        },
        compile_worker::{
            CompileJob, CompileOrigin, CompileWorkerError, CompiledProgram, WorkerProgram, compile_cached,
        },
    },
    step::{self, StepKind, StepOptions, StepProgram, StepSpec},
    store::package,
    targets::{Platform, Target},
    templates::TemplateLibrary,
    train::{TrainError, adapter_config},
};

/// A step to compile, and the devices to compile it for.
pub struct CompileRequest<'a> {
    /// The model's name or path, as the user gave it.
    pub model: &'a str,
    /// Model, adapters and batch.
    pub workload: &'a OwnedWorkload,
    /// Time and memory trade-offs.
    pub options: StepOptions,
    /// The optimizer.
    pub optimizer: AdamW,
    /// Global norm that gradients are clipped to.
    pub max_grad_norm: f64,
    /// The templates of the layers.
    pub templates: &'a TemplateLibrary,
    /// The devices of each target, as [`target_devices`] returns them.
    pub devices: &'a [DeviceMesh],
    /// The text of the mesh config.
    pub mesh_text: Option<&'a str>,
    /// The bundle's folder; a bundle in it is replaced.
    pub out: &'a Path,
}

/// Plugin, worker process and store that a compilation uses.
pub struct CompileTools<'a> {
    /// Models, plugins and the store.
    pub resources: &'a Resources,
    /// The plugin to use instead of the store's.
    pub plugin: Option<&'a Path>,
    /// The process in which a plugin compiles.
    pub worker: WorkerProgram,
    /// Checks that a plugin starts if it compiles for devices of this machine.
    pub starter: Starter,
    /// The folder of the store.
    pub store: PathBuf,
}

impl CompileTools<'_> {
    /// Compiles in a worker process, or finds the result of an earlier time in the store.
    fn compile(
        &self,
        job: &CompileJob<'_>,
        plugin_sha256: &str,
    ) -> Result<(CompiledProgram, CompileOrigin), CompileWorkerError> {
        compile_cached(job, &self.worker, plugin_sha256, &self.store.join("compiled"))
    }
}

fn hlo_program(bytes: &[u8]) -> PjrtProgram<'_> {
    PjrtProgram { format: ProgramFormat::Hlo, bytes }
}

/// A compiled step.
pub struct CompileReport {
    /// The digest of the module, which is the same for all targets.
    pub module_sha256: String,
    /// One report for each target.
    pub targets: Vec<TargetReport>,
}

impl CompileReport {
    /// Whether the step fits on every target.
    pub fn fits(&self) -> bool {
        self.targets.iter().all(|target| target.report.fits)
    }
}

/// Compiles a step for every target and writes a bundle.
///
/// # Errors
/// If the mesh config or a template has problems, a plugin is missing or fails, or the bundle cannot be written. A step that does
/// not fit is not an error; [`CompileReport::fits`] is then false.
pub fn compile(
    request: &CompileRequest<'_>,
    tools: &CompileTools<'_>,
    status: &mut dyn Status,
) -> Result<CompileReport, AppError> {
    let &CompileRequest { workload, options, optimizer, max_grad_norm, templates, devices, .. } = request;
    let mesh = devices[0].plan(workload.as_workload())?;
    let spec = StepSpec {
        workload: workload.as_workload(),
        options,
        optimizer,
        max_grad_norm,
        templates,
        mesh: mesh.as_ref(),
    };
    let program = step::build(&spec, StepKind::Train)?;
    let module = proto::encode(&program.module);
    let mut writer = BundleWriter::new(request.out)?;
    writer.add(bundle::MODULE, &module)?;
    writer.add(bundle::MODULE_TEXT, text::print(&program.module).as_bytes())?;
    if let Some(text) = request.mesh_text {
        writer.add(bundle::MESH, text.as_bytes())?;
    }
    let step = StepCompiler { tools, program: &program, module: &module, mesh: mesh.as_ref() };
    let mut targets = Vec::new();
    for devices in devices {
        targets.push(step.compile(devices.target(), &mut writer, status)?);
    }
    let reports: Vec<&MemoryReport> = targets.iter().map(|target| &target.report).collect();
    writer.add(bundle::MEMORY, format!("{:#}\n", json!({ "targets": reports })).as_bytes())?;
    let (inputs, outputs) = SlotRecord::of_program(&program);
    let manifest = Manifest {
        hloom: env!("CARGO_PKG_VERSION").to_owned(),
        module_sha256: sha256(&module),
        files: Default::default(),
        made: made(request, &spec),
        inputs,
        outputs,
        targets: targets.iter().map(|target| target.build.clone()).collect(),
    };
    let module_sha256 = manifest.module_sha256.clone();
    writer.finish(manifest)?;
    status.done();
    Ok(CompileReport { module_sha256, targets })
}

/// Returns the devices of every target. Their number is the same for all targets, since all share one module.
///
/// # Errors
/// If the numbers of devices differ, a target is given twice, or several devices have no mesh config.
pub fn target_devices(targets: &[Target], mesh: Option<&Loaded>) -> Result<Vec<DeviceMesh>, AppError> {
    let invalid = |problem: String, hint: &str| {
        AppError::from(TrainError::Setting { setting: Setting::Target, problem, hint: Some(hint.to_owned()) })
    };
    let mut all: Vec<DeviceMesh> = Vec::new();
    let requested = targets.iter().cloned().map(Some);
    let default = targets.is_empty().then_some(None);
    for target in requested.chain(default) {
        let devices = DeviceMesh::new(target, mesh.cloned())?;
        let target = devices.target();
        if let Some(first) = all.first().map(DeviceMesh::target)
            && first.devices() != target.devices()
        {
            let problem =
                format!("expected targets with the same number of devices, found: {first} and {target}");
            return Err(invalid(problem, ONE_MODULE));
        }
        if all.iter().any(|known| known.target().to_string() == target.to_string()) {
            return Err(invalid(format!("duplicate target: {target}"), "leave out one of them"));
        }
        all.push(devices);
    }
    Ok(all)
}

/// Reads the templates of a folder. Those for one platform only must leave the templates the same for every target.
///
/// # Errors
/// If they differ between two targets, the folder cannot be read, or a template is invalid.
pub(crate) fn common_templates(
    folder: Option<&Path>,
    devices: &[DeviceMesh],
) -> Result<TemplateLibrary, AppError> {
    let platforms = devices.iter().map(|devices| devices.target().platform());
    let mut first: Option<(Platform, TemplateLibrary)> = None;
    for platform in platforms {
        let found = templates(folder, Some(platform))?;
        match &first {
            None => first = Some((platform, found)),
            Some((other, library)) if template_digests(library) != template_digests(&found) => {
                return Err(AppError::from(TrainError::Setting {
                    setting: Setting::Templates,
                    problem: format!(
                        "the templates for {} differ from those for {}",
                        platform.name(),
                        other.name()
                    ),
                    hint: Some(ONE_MODULE.to_owned()),
                }));
            }
            Some(_) => {}
        }
    }
    Ok(first.map(|(_, library)| library).unwrap_or_default())
}

const ONE_MODULE: &str = "all targets of a bundle share one module; compile two bundles";

/// The plugin that compiles for a target, and the options that it gets. For devices of this machine it is started first.
fn prepare(
    target: &Target,
    partitioner: Partitioner,
    tools: &CompileTools<'_>,
    status: &mut dyn Status,
) -> Result<(PathBuf, CompileOptions), AppError> {
    let plugin = tools.resources.plugin_file(target, tools.plugin, status)?;
    Plugin::check_file(&plugin)?;
    let is_present = target.device().is_none() || target.platform() == Platform::Cpu;
    if is_present {
        tools.starter.check(&plugin, target)?;
    }
    status.phase(&format!("compiling for {target}"));
    Ok((plugin, CompileOptions { partitioner, ..target.compile_options() }))
}

/// Compiles a serialized module for a target, which need not be present. The result has the module after all passes of the
/// compiler.
///
/// # Errors
/// If the plugin is missing or fails, or the program does not fit the device.
pub fn compile_module(
    module: &[u8],
    partitioner: Partitioner,
    target: &Target,
    tools: &CompileTools<'_>,
    status: &mut dyn Status,
) -> Result<CompiledProgram, AppError> {
    let (plugin, options) = prepare(target, partitioner, tools, status)?;
    let job = CompileJob { plugin: &plugin, target, program: hlo_program(module), options: &options };
    let compiled = tools.compile(&job, &file_sha256(&plugin)?);
    let (compiled, _) =
        compiled.map_err(|source| AppError::Compile { target: target.to_string(), source })?;
    status.done();
    Ok(compiled)
}

/// Compiles one step for each target in turn.
struct StepCompiler<'a> {
    tools: &'a CompileTools<'a>,
    program: &'a StepProgram,
    module: &'a [u8],
    mesh: Option<&'a Plan>,
}

impl StepCompiler<'_> {
    fn compile(
        &self,
        target: &Target,
        writer: &mut BundleWriter,
        status: &mut dyn Status,
    ) -> Result<TargetReport, AppError> {
        let store = &self.tools.store;
        let partitioner = self.mesh.map(|plan| plan.partitioner).unwrap_or_default();
        let (plugin, options) = prepare(target, partitioner, self.tools, status)?;
        let build = TargetBuild {
            target: target.to_string(),
            executable: None,
            optimized: None,
            plugin: plugin_record(&plugin, target, store)?,
            options: options.clone(),
            compile_seconds: 0.0,
            memory: None,
            warnings: vec![],
        };
        let limit = target.device().and_then(|device| device.memory_bytes);
        let report = |limit| MemoryReport::of_slots(target, limit, &self.program.inputs);
        let program = hlo_program(self.module);
        let job = CompileJob { plugin: &plugin, target, program, options: &options };
        let compiled = self.tools.compile(&job, &build.plugin.sha256);
        let (compiled, origin) = match compiled {
            Ok(compiled) => compiled,
            Err(CompileWorkerError::TooLarge { message, .. }) => {
                let report = report(limit).too_large(message);
                return Ok(TargetReport { build, report, origin: CompileOrigin::Compiler });
            }
            Err(source) => return Err(AppError::Compile { target: target.to_string(), source }),
        };
        let (executable, optimized) =
            (format!("executable.{target}.bin"), format!("optimized.{target}.hlo.pb"));
        writer.add(&executable, &compiled.executable)?;
        writer.add(&optimized, &compiled.optimized)?;
        // Without values the report lists no causes: the plugin's optimized program is in a format other than HLO.
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
        Ok(TargetReport { build, report, origin })
    }
}

fn made(request: &CompileRequest<'_>, spec: &StepSpec<'_>) -> ModuleInputs {
    let step::Workload { config, dtype, base, batch, seq, packing, .. } = spec.workload;
    let AdamW { beta1, beta2, eps, weight_decay } = spec.optimizer;
    let max_grad_norm = Some(spec.max_grad_norm).filter(|norm| norm.is_finite());
    ModuleInputs {
        model: request.model.to_owned(),
        config: serde_json::to_value(config).expect("a config has string keys only"),
        batch,
        seq,
        packing,
        dtype: dtype.name().to_owned(),
        base: base.to_string(),
        lora: adapter_config(&request.workload.spec, None),
        options: spec.options,
        optimizer: OptimizerSettings { beta1, beta2, eps, weight_decay, max_grad_norm },
        mesh: spec.mesh.map(|plan| plan.mesh.to_string()),
        templates: template_digests(request.templates),
    }
}

/// The SHA-256 of each template that replaces a built-in one, by name.
pub(super) fn template_digests(templates: &TemplateLibrary) -> BTreeMap<String, String> {
    templates.replaced().map(|(name, text)| (name.to_owned(), sha256(text.as_bytes()))).collect()
}

/// Name, version and digest of a plugin file.
fn plugin_record(path: &Path, target: &Target, store: &Path) -> Result<PluginRecord, AppError> {
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
pub(super) fn file_sha256(path: &Path) -> Result<String, AppError> {
    let bytes = fs::read(path).with_context(|| format!("cannot read: {}", path.display()))?;
    Ok(sha256(&bytes))
}
