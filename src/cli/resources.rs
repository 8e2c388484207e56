//! What commands work with: models, plugins, templates; found, or fetched where that is allowed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Env, plan, progress::Reporter, start::Starter, value_parsers::Parsed};
use crate::{
    base::{Diagnostic, nearest},
    model::{Config, builtin_names},
    pjrt::Plugin,
    runtime::DeviceMesh,
    step::StepError,
    store::{Network, PACKAGES, Package, Store, package},
    targets::{Platform, Target},
    templates::TemplateLibrary,
    train::{Model, TrainError, model_config, quickstart_model},
    weights::refuse_dangling,
};

/// The model that the store has, by the name of its built-in configuration, and its name on the model hub.
const FETCHED: &str = "smollm2-135m";
const FETCHED_BASE: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// Where a command runs and with what, for those that take no run file.
#[derive(clap::Args, Debug)]
pub struct DeviceArgs {
    /// Where to run: `cpu:8`, `mi300x:8`, `h100`, `v5e:2x4`, or `rocm:8` for what is there [default: cpu, with as many
    /// devices as --mesh makes]
    #[arg(long, value_name = "TARGET")]
    target: Option<Parsed<Target>>,
    /// How the tensors lie on several devices
    #[arg(long, value_name = "F.toml")]
    mesh: Option<PathBuf>,
    /// The PJRT plugin to use, instead of the store's
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// Seconds that the plugin may take to start [default: 120]
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    /// Fetch nothing
    #[arg(long)]
    offline: bool,
    /// A folder of templates that replace the built-in ones of the same name
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

impl DeviceArgs {
    pub fn devices(&self) -> Result<DeviceMesh, TrainError> {
        plan::devices(self.target.as_ref(), self.mesh.as_deref())
    }

    pub fn templates(&self, devices: &DeviceMesh) -> Result<TemplateLibrary, TrainError> {
        templates(self.templates.as_deref(), Some(devices.target().platform()))
    }

    pub fn starter(&self, env: &Env<'_>) -> Result<Starter, TrainError> {
        Starter::new(env, self.timeout)
    }

    pub fn resources(&self, store: &Path) -> Resources {
        Resources::new(store, if self.offline { Network::Offline } else { Network::Allowed })
    }

    pub fn plugin(
        &self,
        devices: &DeviceMesh,
        resources: &Resources,
        starter: &Starter,
        reporter: &mut Reporter<'_>,
    ) -> Result<Arc<Plugin>, TrainError> {
        resources.plugin(devices.target(), self.plugin.as_deref(), starter, reporter)
    }
}

/// A model, and what an adapter's config calls it.
pub struct NamedModel {
    pub model: Model,
    pub base: String,
}

/// The store, and whether it may fetch.
pub struct Resources {
    store: Store,
    network: Network,
}

impl Resources {
    pub fn new(store: &Path, network: Network) -> Self {
        Self { store: Store::at(store), network }
    }

    /// The model that `named` says: a path, or the one that can be fetched, which is also the default.
    pub fn model(&self, named: Option<&str>, reporter: &mut Reporter<'_>) -> Result<NamedModel, TrainError> {
        let named = named.unwrap_or(FETCHED);
        refuse_dangling(Path::new(named))?;
        let named = if Path::new(named).exists() {
            NamedModel { model: Model::open(Path::new(named))?, base: named.to_owned() }
        } else if named == FETCHED {
            let mut progress = |what: &str, done, total| reporter.fetched(what, done, total);
            let model = quickstart_model(&self.store, self.network, &mut progress)?;
            NamedModel { model, base: FETCHED_BASE.to_owned() }
        } else {
            return Err(no_model(named));
        };
        named.model.warnings.iter().for_each(|warning| reporter.warning(&warning.to_string()));
        Ok(named)
    }

    /// The plugin for a target: the file given, else the store's, else Python's, else it is fetched.
    pub fn plugin(
        &self,
        target: &Target,
        given: Option<&Path>,
        starter: &Starter,
        reporter: &mut Reporter<'_>,
    ) -> Result<Arc<Plugin>, TrainError> {
        starter.load(&self.plugin_file(target, given, reporter)?, target)
    }

    /// The file of that plugin.
    pub fn plugin_file(
        &self,
        target: &Target,
        given: Option<&Path>,
        reporter: &mut Reporter<'_>,
    ) -> Result<PathBuf, TrainError> {
        if let Some(path) = given {
            return Ok(path.to_owned());
        }
        let package = known_package(target.platform().name())?;
        match self.present(package)? {
            Some(path) => Ok(path),
            None => self.fetch(package, reporter),
        }
    }

    /// The package's file, if the store or Python has it.
    pub fn present(&self, package: &Package) -> Result<Option<PathBuf>, TrainError> {
        if let Some(found) = self.store.find(package, None)? {
            return Ok(Some(found.path));
        }
        // Without Python there is nothing in it; whether that matters is told when something is to be fetched.
        let found = self.store.find_in_python(package).ok().flatten();
        Ok(found.map(|found| found.path))
    }

    /// The package's file, fetched where the store lacks it.
    pub fn fetch(&self, package: &Package, reporter: &mut Reporter<'_>) -> Result<PathBuf, TrainError> {
        let mut progress = |what: &str, done, total| reporter.fetched(what, done, total);
        let path = self.store.ensure(package, self.network, &mut progress)?;
        reporter.rest();
        Ok(path)
    }
}

/// The configuration of a built-in model, or of a model on disk with what its files leave open or contradict.
pub fn config(named: &str) -> Result<(Config, Vec<Diagnostic>), TrainError> {
    let path = Path::new(named);
    refuse_dangling(path)?;
    if path.exists() {
        return model_config(path);
    }
    if builtin_names().any(|name| name == named) {
        return Ok((Config::builtin(named)?, vec![]));
    }
    let hint = match nearest(named, builtin_names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("built-in models: {}", builtin_names().collect::<Vec<_>>().join(", ")),
    };
    let problem = format!("expected a folder, a GGUF file or a built-in model, found none: {named}");
    Err(TrainError::Setting { setting: "--model", problem, hint: Some(hint) })
}

/// The built-in templates, with those of a folder in place of the ones of the same name.
pub fn templates(folder: Option<&Path>, platform: Option<Platform>) -> Result<TemplateLibrary, TrainError> {
    let platforms: Vec<&str> = Platform::ALL.iter().map(|platform| platform.name()).collect();
    let read = |folder| TemplateLibrary::replaced_from(folder, platform.map(Platform::name), &platforms);
    let replaced = folder.map(read).transpose().map_err(StepError::from)?;
    Ok(replaced.unwrap_or_else(TemplateLibrary::embedded))
}

/// The package of a name.
pub fn known_package(name: &str) -> Result<&'static Package, TrainError> {
    package(name).ok_or_else(|| {
        let names = || PACKAGES.iter().map(|package| package.key);
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("packages: {}", names().collect::<Vec<_>>().join(", ")),
        };
        let problem = format!("no such package: {name}");
        TrainError::Setting { setting: "plugin", problem, hint: Some(hint) }
    })
}

fn no_model(named: &str) -> TrainError {
    let (problem, hint) = if builtin_names().any(|name| name == named) {
        let problem = format!("{named} is known by its sizes only, without weights");
        (problem, "give the folder or GGUF file that holds its weights".to_owned())
    } else {
        let problem = format!("expected a folder, a GGUF file or `{FETCHED}`, found none: {named}");
        let hint = match nearest(named, [FETCHED]) {
            Some(near) => format!("did you mean `{near}`?"),
            // `organisation/model`, as a hub names it.
            None if named.split('/').filter(|part| !part.is_empty()).count() == 2 => {
                "models are not fetched from a hub: download it, and give its folder".to_owned()
            }
            None => {
                "a Hugging Face folder holds config.json, tokenizer.json and model.safetensors".to_owned()
            }
        };
        (problem, hint)
    };
    TrainError::Setting { setting: "--model", problem, hint: Some(hint) }
}
