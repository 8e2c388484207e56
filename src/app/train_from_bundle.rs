//! Training from a bundle: settings that the bundle fixes, and checks that no given setting contradicts them.

use std::path::Path;

use super::{
    AppError,
    compile::{file_sha256, template_digests},
    parsed::{ParseValueError, Parsed},
    resolve::{self, load_mesh},
    settings::{OptimizerArgs, Ordered, Settings, StepOptionArgs},
};
use crate::{
    base::{DType, Setting},
    hlo::proto,
    model::{BaseStorage, LoraSpec, Scaling},
    runtime::{
        CompiledStep, Engine, RuntimeError,
        bundle::{Bundle, BundleError, Contents, MANIFEST, MODULE, Manifest, OptimizerSettings, sha256},
    },
    step::{self, Packing, StepSpec},
    targets::Target,
    templates::TemplateLibrary,
    train::{TrainError, adapter_config, lora_spec},
};

/// The given settings, completed by those that a bundle fixes.
///
/// # Errors
/// If a given setting differs from the one that the bundle was compiled with.
pub fn settings(given: Settings, bundle: &Bundle) -> Result<Settings, AppError> {
    let Manifest { made, .. } = bundle.manifest();
    let OptimizerSettings { beta1, beta2, eps, weight_decay, max_grad_norm } = made.optimizer;
    let dtype = made.dtype.parse::<DType>().map_err(|error| wrong_manifest(bundle, &error))?;
    let base = made.base.parse::<Parsed<BaseStorage>>().map_err(|error| wrong_manifest(bundle, &error))?;
    let fixed = Settings {
        batch: Some(made.batch),
        seq: Some(made.seq),
        pack: Some(made.packing == Packing::On),
        accumulate: Some(1),
        dtype: Some(Parsed(dtype)),
        base: Some(base),
        beta1: Some(beta1),
        beta2: Some(beta2),
        eps: Some(eps),
        weight_decay: Some(weight_decay),
        max_grad_norm: Some(max_grad_norm.unwrap_or(f64::INFINITY)),
        ..resolve::settings_of_options(&made.options)
    };
    let checks = [resolve::optimizer(&fixed).err(), resolve::max_grad_norm(&fixed).err()];
    if let Some(error) = checks.into_iter().flatten().next() {
        return Err(wrong_manifest(bundle, &error));
    }
    let values = |settings: &Settings| {
        let count = |value: Option<usize>| value.map(|value| value.to_string());
        let sizes = [
            (Setting::Batch, count(settings.batch)),
            (Setting::Seq, count(settings.seq)),
            (Setting::Pack, settings.pack.map(|pack| pack.to_string())),
            (Setting::Accumulate, count(settings.accumulate)),
            (Setting::Dtype, settings.dtype.as_ref().map(Parsed::to_string)),
            (Setting::Base, settings.base.as_ref().map(Parsed::to_string)),
        ];
        let groups = [OptimizerArgs::values(settings), StepOptionArgs::values(settings)];
        sizes.into_iter().chain(groups.concat()).collect::<Vec<_>>()
    };
    for ((setting, found), (_, made)) in values(&given).into_iter().zip(values(&fixed)) {
        if let Some(found) = found.filter(|found| Some(found) != made.as_ref()) {
            return Err(differs(setting, made.unwrap_or_else(|| "its default".to_owned()), found));
        }
    }
    check_mesh(given.mesh.as_deref(), bundle)?;
    let settings = adapters(given, bundle)?;
    let (mesh, target) = (bundle.mesh(), Some(target(settings.target.clone(), bundle)?));
    // `fixed` lacks the options that the module was built without, such as remat_every. So does `given`, or it would have
    // been refused above.
    Ok(Settings { mesh, target, ..fixed.or(settings) })
}

/// Checks that the templates are those that the bundle was compiled with.
///
/// # Errors
/// [`BundleError::Differs`] if they are not.
pub fn check_templates(templates: &TemplateLibrary, bundle: &Bundle) -> Result<(), AppError> {
    let (made, found) = (&bundle.manifest().made.templates, template_digests(templates));
    if *made == found {
        return Ok(());
    }
    let names = |all: Vec<&String>| match all[..] {
        [] => "the built-in templates".to_owned(),
        _ => all.into_iter().cloned().collect::<Vec<_>>().join(", "),
    };
    Err(differs(Setting::Templates, names(made.keys().collect()), names(found.keys().collect())))
}

/// Opens the bundle of the settings; `None` if `bundle` is not set.
///
/// # Errors
/// If the folder is not a valid bundle, or `recompile` is set without `bundle`.
pub fn open(given: &Settings) -> Result<Option<Bundle>, AppError> {
    let recompile = given.recompile == Some(true);
    let contents = if recompile { Contents::Module } else { Contents::All };
    match &given.bundle {
        Some(folder) => Ok(Some(Bundle::open(folder, contents)?)),
        None if recompile => Err(TrainError::Setting {
            setting: Setting::Recompile,
            problem: format!("requires {}", Setting::Bundle),
            hint: Some("without a bundle every run compiles the step; leave it out".into()),
        }
        .into()),
        None => Ok(None),
    }
}

/// The source of the compiled step of a bundle.
pub enum StepSource {
    /// An executable that the same plugin file compiled for the target.
    Executable(Vec<u8>),
    /// The module, to be compiled: the bundle has no such executable.
    Module,
    /// The module, to be compiled: `recompile` is set.
    Recompiled,
}

impl StepSource {
    /// Chooses the source for a target and a plugin file.
    ///
    /// # Errors
    /// If the plugin file or the executable cannot be read, or the executable differs from its digest in the manifest.
    pub fn of(bundle: &Bundle, given: &Settings, target: &Target, plugin: &Path) -> Result<Self, AppError> {
        if given.recompile == Some(true) {
            return Ok(Self::Recompiled);
        }
        let executable = bundle.executable(&target.to_string(), &file_sha256(plugin)?)?;
        Ok(executable.map_or(Self::Module, Self::Executable))
    }

    /// A status line for the user.
    pub fn line(&self, target: &Target) -> String {
        match self {
            Self::Executable(_) => format!("loading the bundle's executable for {target}"),
            Self::Module => {
                format!("the bundle has no executable of this plugin for {target}; compiling its module")
            }
            Self::Recompiled => format!("compiling the bundle's module for {target}"),
        }
    }

    /// Loads the executable or compiles the module for the engine's devices.
    ///
    /// # Errors
    /// If the bundle's program does not match `spec`, or the plugin fails. [`BundleError::AnotherModule`] if a module to
    /// recompile was written by this version of hloom, but differs from the module that this version builds for `spec`.
    pub fn step(
        &self,
        bundle: &Bundle,
        engine: &Engine,
        spec: &StepSpec<'_>,
    ) -> Result<CompiledStep, AppError> {
        let program = bundle.program(spec)?;
        if matches!(self, Self::Recompiled) && bundle.manifest().hloom == env!("CARGO_PKG_VERSION") {
            let expected = sha256(&proto::encode(&step::build(spec, step::StepKind::Train)?.module));
            let found = bundle.manifest().module_sha256.clone();
            if found != expected {
                let path = bundle.folder().join(MODULE);
                return Err(BundleError::AnotherModule { path, expected, found }.into());
            }
        }
        let compiled: Result<CompiledStep, RuntimeError> = match self {
            Self::Executable(bytes) => engine.load(program, bytes),
            Self::Module | Self::Recompiled => engine.compile(program, spec.mesh),
        };
        Ok(compiled?)
    }
}

/// Completes the adapter settings by those of the bundle. They are compared as fields of PEFT's `adapter_config.json`.
fn adapters(given: Settings, bundle: &Bundle) -> Result<Settings, AppError> {
    const FIELDS: [(&str, Setting); 6] = [
        ("r", Setting::Rank),
        ("lora_alpha", Setting::Alpha),
        ("use_rslora", Setting::Rslora),
        ("target_modules", Setting::Targets),
        ("rank_pattern", Setting::RankPattern),
        ("alpha_pattern", Setting::AlphaPattern),
    ];
    let made = &bundle.manifest().made.lora;
    let LoraSpec { rank, alpha, scaling, targets, rank_pattern, alpha_pattern, .. } = lora_spec(made);
    let fixed = Settings {
        rank: Some(rank),
        alpha: Some(alpha),
        rslora: Some(scaling == Scaling::RankStabilized),
        targets: Some(Parsed(targets)),
        rank_pattern: Some(Ordered(rank_pattern)),
        alpha_pattern: Some(Ordered(alpha_pattern)),
        ..Settings::default()
    };
    let requested = given.or(fixed);
    let found = adapter_config(&resolve::lora(&requested), None);
    let json = |config| serde_json::to_value(config).expect("a config has string keys only");
    let (made, found) = (json(made), json(&found));
    for (field, setting) in FIELDS {
        let text =
            |config: &serde_json::Value| config.get(field).map(ToString::to_string).unwrap_or_default();
        if made.get(field) != found.get(field) {
            return Err(differs(setting, text(&made), text(&found)));
        }
    }
    Ok(requested)
}

fn check_mesh(given: Option<&Path>, bundle: &Bundle) -> Result<(), AppError> {
    let Some(given) = given else { return Ok(()) };
    let found = load_mesh(given)?.config.to_string();
    if bundle.mesh_text()?.as_deref() == Some(found.as_str()) {
        return Ok(());
    }
    let mesh = bundle.manifest().made.mesh.clone();
    let made =
        mesh.map_or("a single device".to_owned(), |mesh| format!("the mesh config in mesh.toml ({mesh})"));
    Err(differs(Setting::Mesh, made, given.display().to_string()))
}

/// The given target, else the bundle's only target.
fn target(given: Option<Parsed<Target>>, bundle: &Bundle) -> Result<Parsed<Target>, AppError> {
    let targets = &bundle.manifest().targets;
    let names: Vec<&str> = targets.iter().map(|build| build.target.as_str()).collect();
    match (given, &names[..]) {
        (Some(target), _) => Ok(target),
        (None, [only]) => only.parse().map_err(|problem: ParseValueError| {
            AppError::from(TrainError::Setting {
                setting: Setting::Target,
                problem: format!("the bundle was compiled for a device that is not built in: {problem}"),
                hint: Some(format!(
                    "set the device file, for example {}",
                    Setting::Target.with("mine.toml:8")
                )),
            })
        }),
        (None, several) => Err(TrainError::Setting {
            setting: Setting::Target,
            problem: format!("expected one of the bundle's targets ({}), found none", several.join(", ")),
            hint: several.first().map(|first| format!("for example {}", Setting::Target.with(first))),
        }
        .into()),
    }
}

fn differs(setting: Setting, made: String, found: String) -> AppError {
    BundleError::Differs { setting: setting.to_string(), made, found }.into()
}

/// The error for an invalid value in a bundle's manifest.
pub fn wrong_manifest(bundle: &Bundle, error: &impl ToString) -> AppError {
    let reason = format!("{MANIFEST}: {}", error.to_string());
    BundleError::NotABundle { path: bundle.folder().to_owned(), reason }.into()
}
