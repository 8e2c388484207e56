use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{
    CompileWorkerError, PluginDescription, WorkerProgram,
    exchange::exchange,
    request::{WorkerRequest, WorkerResponse, WorkerTask},
    run::owned,
};
use crate::base::hex;
use crate::{
    pjrt::{NamedValue, PjrtError, Plugin},
    targets::presence::{self, Presence},
    targets::{Platform, Target},
};

/// Time limit for a plugin whose devices are not detected; without them some plugins wait for a network.
const WITHOUT_DEVICES: Duration = Duration::from_secs(20);

/// A client to start.
#[derive(Clone, Copy, Debug)]
pub struct StartJob<'a> {
    /// Path of the plugin.
    pub plugin: &'a Path,
    /// Devices to find on this machine.
    pub target: &'a Target,
    /// Names of the environment variables of this process, some of which are signs of devices.
    pub variables: &'a [String],
}

/// Error of starting a plugin's client.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plugin was not loaded.
    #[error(transparent)]
    Plugin(#[from] PjrtError),
    /// It is for another platform than the target's.
    #[error("expected a plugin for {expected}, found one for {found}: {}", path.display())]
    Platform {
        /// Path of the plugin.
        path: PathBuf,
        /// The target's platform.
        expected: Platform,
        /// The plugin's platform.
        found: Platform,
    },
    /// It failed, crashed or hung.
    #[error(transparent)]
    Worker(#[from] CompileWorkerError),
    /// It failed, crashed or hung, and no device is detected.
    #[error("found no {} on this machine: {presence}; the plugin's answer: {source}", presence.platform.device_name())]
    NoDevice {
        /// Signs of devices.
        presence: Presence,
        /// How the plugin failed.
        source: CompileWorkerError,
    },
}

impl StartError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Plugin(error) => error.hint(),
            Self::Worker(error) => error.hint(),
            Self::Platform { expected, found, .. } => {
                Some(format!("use the target `{found}`, or a plugin for {expected}"))
            }
            Self::NoDevice { presence, .. } => Some(presence.hint()),
        }
    }
}

/// Starts and stops the plugin's client in a worker, to check that it does not crash or hang in this process. Success of a
/// CPU plugin is recorded in the folder `cache`, and not checked again until the machine restarts.
///
/// # Errors
/// If the plugin cannot be loaded; if its client fails, crashes or exceeds the time limit; if there is no device.
pub fn start(job: &StartJob<'_>, worker: &WorkerProgram, cache: &Path) -> Result<(), StartError> {
    let plugin = Plugin::check_file(job.plugin)?;
    let platform = job.target.platform();
    let mut options = owned(job.target.client_options());
    if matches!(platform, Platform::Cuda | Platform::Rocm) {
        // No memory is needed here, so that memory in use by others is no reason to fail.
        options.retain(|(name, _)| name != "preallocate");
        options.push(("preallocate".into(), NamedValue::Bool(false)));
    }
    let request = WorkerRequest { plugin, task: WorkerTask::Start { options } };
    let note = match platform {
        Platform::Cpu => key(&request).ok().map(|key| cache.join(key)),
        Platform::Cuda | Platform::Rocm | Platform::Tpu => None,
    };
    if note.as_ref().is_some_and(|note| note.exists()) {
        return Ok(());
    }

    let missing = presence::detect(platform, Path::new("/"), job.variables).filter(Presence::is_missing);
    let mut worker = worker.clone();
    if missing.is_some() {
        worker.timeout = Some(worker.timeout.map_or(WITHOUT_DEVICES, |timeout| timeout.min(WITHOUT_DEVICES)));
    }
    // A TPU's plugin does not wait for the network of a cloud where none of its devices is to be found.
    let environment = match platform {
        Platform::Tpu if missing.is_none() => &[],
        _ => Platform::Tpu.compile_environment(),
    };
    let failed = |source: CompileWorkerError| match missing.clone() {
        // A failure with a hint has another reason.
        Some(presence)
            if source.hint().is_none() || !matches!(source, CompileWorkerError::Refused { .. }) =>
        {
            StartError::NoDevice { presence, source }
        }
        _ => StartError::Worker(source),
    };
    let answer = exchange(&request, &[], environment, &worker).map_err(failed)?.answer;
    match &answer {
        WorkerResponse::Started { platform: found } => {
            // Names of platforms that are not known here cannot be compared.
            let found = Platform::ALL.iter().copied().find(|known| known.name() == found);
            if let Some(found) = found.filter(|found| *found != platform) {
                let path = job.plugin.to_owned();
                return Err(StartError::Platform { path, expected: platform, found });
            }
        }
        // Loading neither crashed nor hung, so this process repeats it for the typed error.
        WorkerResponse::NotLoaded { .. } => {
            Plugin::load(job.plugin)?;
            return Err(failed(answer.refusal()));
        }
        other => return Err(failed(other.refusal())),
    }
    if let Some(note) = note
        && let Err(error) = fs::create_dir_all(cache).and_then(|()| fs::write(note, ""))
    {
        tracing::debug!(%error, cache = %cache.display(), "the start of the plugin is not noted");
    }
    Ok(())
}

/// Reads API version and attributes of a plugin, without starting a client.
///
/// # Errors
/// If it cannot be loaded, crashes or exceeds the time limit.
pub fn describe(plugin: &Path, worker: &WorkerProgram) -> Result<PluginDescription, StartError> {
    let request = WorkerRequest { plugin: Plugin::check_file(plugin)?, task: WorkerTask::Describe };
    let environment: Vec<(&str, &str)> =
        Platform::ALL.iter().flat_map(|platform| platform.compile_environment()).copied().collect();
    let answer = exchange(&request, &[], &environment, worker)?.answer;
    match answer {
        WorkerResponse::Described(description) => Ok(description),
        WorkerResponse::NotLoaded { .. } => {
            // As above.
            Plugin::load(plugin)?;
            Err(answer.refusal().into())
        }
        other => Err(other.refusal().into()),
    }
}

/// A digest of the request, the plugin file's identity and the machine's current boot.
fn key(request: &WorkerRequest) -> io::Result<String> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
    let mut digest = Sha256::new();
    digest.update(boot);
    digest.update(serde_json::to_vec(request)?);
    digest.update(serde_json::to_vec(&identity(&request.plugin)?)?);
    Ok(hex(digest.finalize()))
}

/// Metadata that changes when a file is replaced or written to.
fn identity(path: &PathBuf) -> io::Result<Vec<i128>> {
    let metadata = fs::metadata(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (dev, ino) = (metadata.dev().into(), metadata.ino().into());
        let (mtime, ctime) = (metadata.mtime_nsec().into(), metadata.ctime_nsec().into());
        Ok(vec![
            dev,
            ino,
            metadata.size().into(),
            metadata.mtime().into(),
            mtime,
            metadata.ctime().into(),
            ctime,
        ])
    }
    #[cfg(not(unix))]
    Ok(vec![metadata.len().into()])
}
