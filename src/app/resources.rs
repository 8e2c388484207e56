//! Finds models, plugins and templates, and fetches packages that are missing if downloads are allowed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{AppError, Starter, Status, defaults, quantized_cache};
use crate::{
    base::{Diagnostic, Setting, did_you_mean, nearest_hint},
    model::{BaseStorage, Config, builtin_names},
    pjrt::Plugin,
    step::StepError,
    store::{Network, PACKAGES, Package, Store, package},
    targets::{Platform, Target},
    templates::TemplateLibrary,
    train::{Model, TrainError, model_config},
    weights::refuse_dangling,
};

/// Name of the quick start's model on the Hugging Face Hub.
const QUICKSTART_BASE: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// A model and its name in adapter configs.
pub struct NamedModel {
    /// The model.
    pub model: Model,
    /// `base_model_name_or_path` of adapters of the model.
    pub base: String,
}

/// Package of the quick start's model in the store.
const QUICKSTART_PACKAGE: &str = "smollm2";

/// The store, and whether it may download.
pub struct Resources {
    store: Store,
    network: Network,
}

impl Resources {
    /// The store in a folder.
    pub fn new(store: &Path, network: Network) -> Self {
        Self { store: Store::at(store), network }
    }

    /// Opens the model at a path. `smollm2-135m`, which is the default, is fetched if the store lacks it.
    pub fn model(&self, named: Option<&str>, status: &mut dyn Status) -> Result<NamedModel, AppError> {
        let named = named.unwrap_or(defaults::MODEL);
        refuse_dangling(Path::new(named))?;
        let named = if Path::new(named).exists() {
            NamedModel { model: Model::open(Path::new(named))?, base: named.to_owned() }
        } else if named == defaults::MODEL {
            let mut progress = |what: &str, done, total| status.fetched(what, done, total);
            let package = known_package(QUICKSTART_PACKAGE)?;
            let model = Model::open(&self.store.ensure(package, self.network, &mut progress)?)?;
            NamedModel { model, base: QUICKSTART_BASE.to_owned() }
        } else {
            return Err(no_model(named));
        };
        named.model.warnings.iter().for_each(|warning| status.warning(&warning.to_string()));
        Ok(named)
    }

    /// Takes the weights of `model` from the store, quantized as `base` says; they are quantized on first use.
    ///
    /// # Errors
    /// If a weight cannot be read, or the store cannot be written.
    pub fn quantize(
        &self,
        model: &mut Model,
        base: BaseStorage,
        status: &mut dyn Status,
    ) -> Result<(), AppError> {
        quantized_cache::quantized(model, base, &self.store, status)
    }

    /// Loads the plugin for a target: the given file, else the one in the store, else the one installed in Python, else one
    /// that is fetched.
    pub fn plugin(
        &self,
        target: &Target,
        given: Option<&Path>,
        starter: &Starter,
        status: &mut dyn Status,
    ) -> Result<Arc<Plugin>, AppError> {
        starter.load(&self.plugin_file(target, given, status)?, target)
    }

    /// The file that [`Self::plugin`] loads.
    pub fn plugin_file(
        &self,
        target: &Target,
        given: Option<&Path>,
        status: &mut dyn Status,
    ) -> Result<PathBuf, AppError> {
        if let Some(path) = given {
            return Ok(path.to_owned());
        }
        let package = known_package(target.platform().name())?;
        match self.present(package)? {
            Some(path) => Ok(path),
            None => self.fetch(package, status),
        }
    }

    /// The package's file, if the store or Python has it.
    pub fn present(&self, package: &Package) -> Result<Option<PathBuf>, AppError> {
        if let Some(found) = self.store.find(package, None)? {
            return Ok(Some(found.path));
        }
        // An error of Python is ignored: if the package has to be fetched, `fetch` reports it.
        let found = self.store.find_in_python(package).ok().flatten();
        Ok(found.map(|found| found.path))
    }

    /// The package's file, fetched if the store lacks it.
    pub fn fetch(&self, package: &Package, status: &mut dyn Status) -> Result<PathBuf, AppError> {
        let mut progress = |what: &str, done, total| status.fetched(what, done, total);
        let path = self.store.ensure(package, self.network, &mut progress)?;
        status.done();
        Ok(path)
    }
}

/// The config of a built-in model, or of a model on disk with warnings about its files.
pub fn config(named: &str) -> Result<(Config, Vec<Diagnostic>), AppError> {
    let path = Path::new(named);
    refuse_dangling(path)?;
    if path.exists() {
        return Ok(model_config(path)?);
    }
    if builtin_names().any(|name| name == named) {
        return Ok((Config::builtin(named)?, vec![]));
    }
    let hint = did_you_mean(named, builtin_names().collect::<Vec<_>>(), "built-in models");
    let problem = format!("expected a folder, a GGUF file or a built-in model, found none: {named}");
    Err(TrainError::Setting { setting: Setting::Model, problem, hint: Some(hint) }.into())
}

/// The built-in templates, some replaced by those of a folder.
pub fn templates(folder: Option<&Path>, platform: Option<Platform>) -> Result<TemplateLibrary, AppError> {
    let platforms: Vec<&str> = Platform::ALL.iter().map(|platform| platform.name()).collect();
    let read = |folder| TemplateLibrary::replaced_from(folder, platform.map(Platform::name), &platforms);
    let replaced = folder.map(read).transpose().map_err(StepError::from)?;
    Ok(replaced.unwrap_or_else(TemplateLibrary::embedded))
}

/// Looks up a package by name.
pub fn known_package(name: &str) -> Result<&'static Package, AppError> {
    package(name).ok_or_else(|| {
        let names = || PACKAGES.iter().map(|package| package.key);
        let hint = did_you_mean(name, names(), "packages");
        let problem = format!("unknown package: {name}");
        AppError::from(TrainError::Setting { setting: Setting::Package, problem, hint: Some(hint) })
    })
}

fn no_model(named: &str) -> AppError {
    let (problem, hint) = if builtin_names().any(|name| name == named) {
        let problem = format!("{named} is a built-in config without weights");
        (problem, "set the folder or GGUF file with its weights".to_owned())
    } else {
        let problem = format!("expected a folder, a GGUF file or `{}`, found none: {named}", defaults::MODEL);
        let hint = match nearest_hint(named, [defaults::MODEL]) {
            Some(hint) => hint,
            // `organisation/model`, as a hub names it.
            None if named.split('/').filter(|part| !part.is_empty()).count() == 2 => {
                "models are not downloaded from a hub; download it and set its folder".to_owned()
            }
            None => {
                "a Hugging Face folder contains config.json, tokenizer.json and model.safetensors".to_owned()
            }
        };
        (problem, hint)
    };
    TrainError::Setting { setting: Setting::Model, problem, hint: Some(hint) }.into()
}
