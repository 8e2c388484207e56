use std::{path::Path, sync::Arc};

use super::{Env, progress::Reporter, worker};
use crate::{
    app::{
        AppError, OwnedWorkload, Parsed, Starter,
        resolve::{self, BatchShards},
        resources::{Resources, templates},
        settings::{DeviceArgs, PluginArgs, WorkloadArgs},
    },
    mesh::Loaded,
    pjrt::Plugin,
    runtime::DeviceMesh,
    store::Network,
    targets::{Platform, Target},
    templates::TemplateLibrary,
};

/// Devices, plugin and templates of a command that runs programs.
#[derive(clap::Args, Debug)]
pub(super) struct RunArgs {
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    plugin: PluginArgs,
}

impl RunArgs {
    pub(super) fn devices(&self) -> Result<DeviceMesh, AppError> {
        resolve::devices(self.device.target.as_ref(), self.device.mesh.as_deref())
    }

    pub(super) fn templates(&self, devices: &DeviceMesh) -> Result<TemplateLibrary, AppError> {
        templates(self.plugin.templates.as_deref(), Some(devices.target().platform()))
    }

    pub(super) fn starter(&self, env: &Env<'_>) -> Result<Starter, AppError> {
        worker::starter(env, self.device.timeout)
    }

    pub(super) fn resources(&self, store: &Path) -> Resources {
        Resources::new(store, network(self.plugin.offline))
    }

    pub(super) fn plugin(
        &self,
        devices: &DeviceMesh,
        resources: &Resources,
        starter: &Starter,
        reporter: &mut Reporter<'_>,
    ) -> Result<Arc<Plugin>, AppError> {
        resources.plugin(devices.target(), self.plugin.plugin.as_deref(), starter, reporter)
    }
}

/// Whether packages may be fetched.
pub(super) fn network(offline: Option<bool>) -> Network {
    if offline == Some(true) { Network::Offline } else { Network::Allowed }
}

/// Model, adapters and batch of a command that needs no weights.
#[derive(clap::Args, Debug)]
pub(super) struct ModelArgs {
    /// A built-in model, a Hugging Face folder or a GGUF file
    #[arg(long, value_name = "NAME|DIR", required = true)]
    model: Option<String>,
    #[command(flatten)]
    workload: WorkloadArgs,
}

impl ModelArgs {
    /// The model's name or path. Only a flag that excludes all others may leave it out.
    pub(super) fn name(&self) -> &str {
        self.model.as_deref().expect("the model is required")
    }

    /// The workload for targets of `platforms`.
    pub(super) fn resolve(
        &self,
        shards: BatchShards,
        platforms: &[Platform],
    ) -> Result<OwnedWorkload, AppError> {
        OwnedWorkload::new(self.name(), &self.workload.clone().into(), shards, platforms)
    }
}

/// The number of devices, for commands that need no device.
#[derive(clap::Args, Debug)]
pub(super) struct TargetArg {
    /// Target devices: `cpu:8`, `mi300x:4x8`, `v5e:2x4`, or a device file, `mine.toml:8` [default: as many as the mesh has]
    #[arg(long, value_name = "TARGET")]
    target: Option<Parsed<Target>>,
}

impl TargetArg {
    /// The target, if it was given.
    pub(super) fn target(&self) -> Option<&Target> {
        self.target.as_ref().map(|target| &target.0)
    }

    /// The platform of the devices, if they were given.
    pub(super) fn platform(&self) -> Option<Platform> {
        self.target().map(Target::platform)
    }

    /// The same as a list.
    pub(super) fn platforms(&self) -> Vec<Platform> {
        self.platform().into_iter().collect()
    }

    /// The number of devices, if it was given.
    pub(super) fn devices(&self) -> Option<usize> {
        self.target().map(Target::devices)
    }

    /// Sharding of a batch on a mesh of these devices.
    pub(super) fn batch_shards(&self, mesh: &Loaded) -> BatchShards {
        BatchShards::of_mesh(mesh, self.devices().unwrap_or(mesh.config.written_devices()))
    }
}
