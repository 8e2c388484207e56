//! Training from a bundle: what the bundle fixes, and that nothing else is asked for.

use std::path::Path;

use super::{
    compile::{file_sha256, replaced},
    plan,
    settings::{MethodArgs, OptimizerArgs, Ordered, Settings},
    words::Word,
    workload::load_mesh,
};
use crate::{
    base::DType,
    model::{LoraSpec, Scaling},
    pjrt::targets::Target,
    runtime::{
        Compiled, Engine, RuntimeError,
        bundle::{Bundle, BundleError, Manifest, Optimizer},
    },
    step::{Packing, StepSpec},
    templates::Templates,
    train::{TrainError, adapter_config, lora_spec},
};

/// The settings that are given, with those that a bundle fixes.
///
/// # Errors
/// If a setting that is given asks for something else than the bundle was made for.
pub fn settings(given: Settings, bundle: &Bundle) -> Result<Settings, TrainError> {
    let Manifest { made, .. } = bundle.manifest();
    let Optimizer { beta1, beta2, eps, weight_decay, max_grad_norm } = made.optimizer;
    let dtype = made.dtype.parse::<DType>().map_err(|error| odd(bundle, error.to_string()))?;
    let fixed = Settings {
        batch: Some(made.batch),
        seq: Some(made.seq),
        pack: Some(made.packing == Packing::On),
        accumulate: Some(1),
        dtype: Some(Word(dtype)),
        beta1: Some(beta1),
        beta2: Some(beta2),
        eps: Some(eps),
        weight_decay: Some(weight_decay),
        max_grad_norm: Some(max_grad_norm.unwrap_or(f64::INFINITY)),
        ..plan::method_settings(&made.method)
    };
    let spelled = |settings: &Settings| {
        let count = |value: Option<usize>| value.map(|value| value.to_string());
        let sizes = [
            ("--batch".to_owned(), count(settings.batch)),
            ("--seq".to_owned(), count(settings.seq)),
            ("--pack".to_owned(), settings.pack.map(|pack| pack.to_string())),
            ("--accumulate".to_owned(), count(settings.accumulate)),
            ("--dtype".to_owned(), settings.dtype.as_ref().map(Word::to_string)),
        ];
        let groups = [OptimizerArgs::spelled(settings), MethodArgs::spelled(settings)];
        sizes.into_iter().chain(groups.concat()).collect::<Vec<_>>()
    };
    for ((flag, found), (_, made)) in spelled(&given).into_iter().zip(spelled(&fixed)) {
        if let Some(found) = found.filter(|found| Some(found) != made.as_ref()) {
            return Err(differs(&flag, made.unwrap_or_else(|| "its default".to_owned()), found));
        }
    }
    check_mesh(given.mesh.as_deref(), bundle)?;
    let settings = adapters(given, bundle)?;
    let (mesh, target) = (bundle.mesh(), Some(target(settings.target.clone(), bundle)?));
    // What the module was made without, such as --remat-every, is none of the given settings either.
    Ok(Settings { mesh, target, ..fixed.or(settings) })
}

/// Refuses other templates than those that the bundle was made with.
///
/// # Errors
/// If they are others.
pub fn check_templates(templates: &Templates, bundle: &Bundle) -> Result<(), TrainError> {
    let (made, found) = (&bundle.manifest().made.templates, replaced(templates));
    if *made == found {
        return Ok(());
    }
    let names = |all: Vec<&String>| match all[..] {
        [] => "the built-in templates".to_owned(),
        _ => all.into_iter().cloned().collect::<Vec<_>>().join(", "),
    };
    Err(differs("--templates", names(made.keys().collect()), names(found.keys().collect())))
}

/// The executable that the bundle has for a target and a plugin, if it has one.
///
/// # Errors
/// If a file cannot be read, or has changed.
pub fn executable(bundle: &Bundle, target: &Target, plugin: &Path) -> Result<Option<Vec<u8>>, TrainError> {
    Ok(bundle.executable(&target.to_string(), &file_sha256(plugin)?)?)
}

/// The bundle's step on devices: its executable, else its module compiled.
///
/// # Errors
/// If the bundle is for something else, or the plugin fails.
pub fn step(
    bundle: &Bundle,
    executable: Option<&[u8]>,
    engine: &Engine,
    spec: &StepSpec<'_>,
) -> Result<Compiled, TrainError> {
    let program = bundle.program(spec)?;
    let compiled: Result<Compiled, RuntimeError> = match executable {
        Some(bytes) => engine.load(program, bytes),
        None => engine.compile(program, spec.mesh),
    };
    Ok(compiled?)
}

/// The settings of the adapters, which are compared as PEFT writes them.
fn adapters(given: Settings, bundle: &Bundle) -> Result<Settings, TrainError> {
    const FLAGS: [(&str, &str); 6] = [
        ("r", "--rank"),
        ("lora_alpha", "--alpha"),
        ("use_rslora", "--rslora"),
        ("target_modules", "--targets"),
        ("rank_pattern", "rank-pattern"),
        ("alpha_pattern", "alpha-pattern"),
    ];
    let made = &bundle.manifest().made.lora;
    let LoraSpec { rank, alpha, scaling, targets, rank_pattern, alpha_pattern, .. } = lora_spec(made);
    let fixed = Settings {
        rank: Some(rank),
        alpha: Some(alpha),
        rslora: Some(scaling == Scaling::RankStabilized),
        targets: Some(Word(targets)),
        rank_pattern: Some(Ordered(rank_pattern)),
        alpha_pattern: Some(Ordered(alpha_pattern)),
        ..Settings::default()
    };
    let asked = given.or(fixed);
    let found = adapter_config(&plan::lora(&asked), None);
    let json = |config| serde_json::to_value(config).unwrap_or_default();
    let (made, found) = (json(made), json(&found));
    for (field, flag) in FLAGS {
        let text =
            |config: &serde_json::Value| config.get(field).map(ToString::to_string).unwrap_or_default();
        if made.get(field) != found.get(field) {
            return Err(differs(flag, text(&made), text(&found)));
        }
    }
    Ok(asked)
}

fn check_mesh(given: Option<&Path>, bundle: &Bundle) -> Result<(), TrainError> {
    let Some(given) = given else { return Ok(()) };
    let found = load_mesh(given)?.config.to_string();
    if bundle.mesh_text()?.as_deref() == Some(found.as_str()) {
        return Ok(());
    }
    let mesh = bundle.manifest().made.mesh.clone();
    let made =
        mesh.map_or("a single device".to_owned(), |mesh| format!("the mesh config in mesh.toml ({mesh})"));
    Err(differs("--mesh", made, given.display().to_string()))
}

/// The target that is given, else the only one of the bundle.
fn target(given: Option<Word<Target>>, bundle: &Bundle) -> Result<Word<Target>, TrainError> {
    let targets = &bundle.manifest().targets;
    let names: Vec<&str> = targets.iter().map(|build| build.target.as_str()).collect();
    match (given, &names[..]) {
        (Some(target), _) => Ok(target),
        (None, [only]) => only.parse().map_err(|problem: String| TrainError::Setting {
            setting: "--target",
            problem: format!("the bundle was made for a device of the user's own: {problem}"),
            hint: Some("give the device's file, such as `--target mine.toml:8`".into()),
        }),
        (None, several) => Err(TrainError::Setting {
            setting: "--target",
            problem: format!("expected one of the bundle's targets, found none: {}", several.join(", ")),
            hint: several.first().map(|first| format!("for example `--target {first}`")),
        }),
    }
}

fn differs(setting: &str, made: String, found: String) -> TrainError {
    BundleError::Differs { setting: setting.to_owned(), made, found }.into()
}

fn odd(bundle: &Bundle, reason: String) -> TrainError {
    BundleError::NotABundle { path: bundle.folder().to_owned(), reason }.into()
}
