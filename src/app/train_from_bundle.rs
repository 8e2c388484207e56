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
    model::{LoraSpec, Scaling},
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
    let fixed = Settings {
        batch: Some(made.batch),
        seq: Some(made.seq),
        pack: Some(made.packing == Packing::On),
        accumulate: Some(1),
        dtype: Some(Parsed(dtype)),
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
    // An option that the module was built without, such as remat_every, is in none of the given settings either.
    Ok(Settings { mesh, target, ..fixed.or(settings) })
}

/// Refuses other templates than those that the bundle was made with.
///
/// # Errors
/// If they are others.
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

/// Opens the bundle that the settings name, if they name one.
///
/// # Errors
/// If it is none, or is to be recompiled where none is named.
pub fn open(given: &Settings) -> Result<Option<Bundle>, AppError> {
    let recompile = given.recompile == Some(true);
    let contents = if recompile { Contents::Module } else { Contents::All };
    match &given.bundle {
        Some(folder) => Ok(Some(Bundle::open(folder, contents)?)),
        None if recompile => Err(TrainError::Setting {
            setting: Setting::Recompile,
            problem: format!("expected {} with it, found none", Setting::Bundle),
            hint: Some("without a bundle every run compiles the step; leave it out".into()),
        }
        .into()),
        None => Ok(None),
    }
}

/// How the step of a bundle is obtained.
pub enum StepSource {
    /// An executable that this plugin made.
    Executable(Vec<u8>),
    /// The module: there is no such executable.
    Module,
    /// The module, as requested.
    Recompiled,
}

impl StepSource {
    /// What the bundle has for a target and a plugin.
    ///
    /// # Errors
    /// If a file cannot be read, or has changed.
    pub fn of(bundle: &Bundle, given: &Settings, target: &Target, plugin: &Path) -> Result<Self, AppError> {
        if given.recompile == Some(true) {
            return Ok(Self::Recompiled);
        }
        let executable = bundle.executable(&target.to_string(), &file_sha256(plugin)?)?;
        Ok(executable.map_or(Self::Module, Self::Executable))
    }

    /// What happens to the step, for the user.
    pub fn line(&self, target: &Target) -> String {
        match self {
            Self::Executable(_) => format!("the step is compiled already for {target}"),
            Self::Module => {
                format!("the bundle has no executable of this plugin for {target}; its module is compiled")
            }
            Self::Recompiled => format!("the bundle's module is compiled for {target}"),
        }
    }

    /// The bundle's step on devices.
    ///
    /// # Errors
    /// If the bundle is for something else, or the plugin fails. If a module to recompile is not the one that its manifest
    /// describes, for this version of hloom.
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

/// The settings of the adapters, which are compared as PEFT writes them.
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

/// The target that is given, else the only one of the bundle.
fn target(given: Option<Parsed<Target>>, bundle: &Bundle) -> Result<Parsed<Target>, AppError> {
    let targets = &bundle.manifest().targets;
    let names: Vec<&str> = targets.iter().map(|build| build.target.as_str()).collect();
    match (given, &names[..]) {
        (Some(target), _) => Ok(target),
        (None, [only]) => only.parse().map_err(|problem: ParseValueError| {
            AppError::from(TrainError::Setting {
                setting: Setting::Target,
                problem: format!("the bundle was made for a device of the user's own: {problem}"),
                hint: Some(format!(
                    "give the device's file, such as {}",
                    Setting::Target.with("mine.toml:8")
                )),
            })
        }),
        (None, several) => Err(TrainError::Setting {
            setting: Setting::Target,
            problem: format!("expected one of the bundle's targets, found none: {}", several.join(", ")),
            hint: several.first().map(|first| format!("for example {}", Setting::Target.with(first))),
        }
        .into()),
    }
}

fn differs(setting: Setting, made: String, found: String) -> AppError {
    BundleError::Differs { setting: setting.to_string(), made, found }.into()
}

/// The error for what a bundle's manifest says and no setting that is given.
pub fn wrong_manifest(bundle: &Bundle, error: &impl ToString) -> AppError {
    odd(bundle, format!("{MANIFEST}: {}", error.to_string()))
}

fn odd(bundle: &Bundle, reason: String) -> AppError {
    BundleError::NotABundle { path: bundle.folder().to_owned(), reason }.into()
}
