use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::AppError;
use crate::{
    base::Setting,
    pjrt::Plugin,
    runtime::compile_worker::{self, PluginDescription, StartJob, WorkerProgram},
    targets::Target,
    train::TrainError,
};

/// Starts plugins, first in a worker process, since a plugin may crash or hang.
pub struct Starter {
    worker: WorkerProgram,
    cache: PathBuf,
    variables: Vec<String>,
}

impl Starter {
    /// A starter that uses `worker`, whose timeout is that of a start. Successful starts are remembered in the folder `store`;
    /// `variables` are the names of the environment's variables, some of which announce devices.
    pub fn new(worker: WorkerProgram, store: &Path, variables: Vec<String>) -> Self {
        Self { worker, cache: store.join("started"), variables }
    }

    /// Checks that the plugin's client starts on this machine.
    ///
    /// # Errors
    /// If it fails, crashes, or exceeds the timeout.
    pub fn check(&self, plugin: &Path, target: &Target) -> Result<(), AppError> {
        let job = StartJob { plugin, target, variables: &self.variables };
        Ok(compile_worker::start(&job, &self.worker, &self.cache)?)
    }

    /// Loads a plugin whose client starts on this machine.
    ///
    /// # Errors
    /// As [`Starter::check`], or if the plugin cannot be loaded.
    pub fn load(&self, plugin: &Path, target: &Target) -> Result<Arc<Plugin>, AppError> {
        self.check(plugin, target)?;
        Ok(Plugin::load(plugin)?)
    }

    /// The plugin's API version and attributes.
    ///
    /// # Errors
    /// As [`Starter::check`].
    pub fn describe(&self, plugin: &Path) -> Result<PluginDescription, AppError> {
        Ok(compile_worker::describe(plugin, &self.worker)?)
    }
}

/// A timeout in seconds.
///
/// # Errors
/// If the number is not above zero.
pub fn timeout(seconds: f64) -> Result<Duration, AppError> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    Ok(duration.ok_or_else(|| TrainError::Setting {
        setting: Setting::Timeout,
        problem: format!("expected a number of seconds above zero, found: {seconds}"),
        hint: Some(format!("for example {}", Setting::Timeout.with(600))),
    })?)
}
