use std::path::Path;

use super::{
    CompileWorkerError, CompiledProgram, WorkerProgram,
    exchange::exchange,
    request::{
        CompileTask, EXECUTABLE, LOG, OPTIMIZED, RequestedDevices, WorkerRequest, WorkerResponse, WorkerTask,
    },
};
use crate::{
    pjrt::{CompileOptions, NamedValue, PjrtProgram},
    runtime::plugin_log,
    targets::Target,
};

/// A compilation.
#[derive(Clone, Copy, Debug)]
pub struct CompileJob<'a> {
    /// Path of the plugin.
    pub plugin: &'a Path,
    /// The target. Devices with a device model need not be present; the plugin must find others, and the CPU.
    pub target: &'a Target,
    /// The module.
    pub program: PjrtProgram<'a>,
    /// Options; [`Target::compile_options`] has the target's.
    pub options: &'a CompileOptions,
}

/// Compiles in a worker process and waits for it. A crash or hang of the plugin is an error.
///
/// # Errors
/// If the plugin fails, if the worker crashes, runs out of memory or time, or if files cannot be written.
pub fn compile_in_worker(
    job: &CompileJob<'_>,
    worker: &WorkerProgram,
) -> Result<CompiledProgram, CompileWorkerError> {
    let environment = job.target.platform().compile_environment();
    let answered = exchange(&request(job), job.program.bytes, environment, worker)?;
    let report = match &answered.answer {
        WorkerResponse::Compiled(report) => report.clone(),
        other => return Err(other.refusal()),
    };
    Ok(CompiledProgram {
        executable: answered.read(EXECUTABLE)?,
        optimized: answered.read(OPTIMIZED)?,
        optimized_format: report.optimized_format,
        memory: report.memory,
        memory_limit: report.memory_limit,
        devices: report.devices,
        hosts: report.hosts,
        api_version: report.api_version,
        compile_seconds: report.compile_seconds,
        stub_libs: report.stub_libs,
        warnings: plugin_log::warnings(String::from_utf8_lossy(&answered.read(LOG)?).lines()),
    })
}

pub(super) fn request(job: &CompileJob<'_>) -> WorkerRequest {
    let described = job.target.device().and_then(|device| device.topology_options(job.target.shape()));
    let devices = match described {
        Some((name, options)) => RequestedDevices::Described { name, options: owned(options) },
        None => RequestedDevices::Present { options: owned(job.target.client_options()) },
    };
    WorkerRequest {
        plugin: job.plugin.to_owned(),
        task: WorkerTask::Compile(CompileTask {
            platform: job.target.platform(),
            devices,
            format: job.program.format,
            options: job.options.clone(),
        }),
    }
}

/// Options with owned names, for a request.
pub(super) fn owned(options: Vec<(&'static str, NamedValue)>) -> Vec<(String, NamedValue)> {
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
