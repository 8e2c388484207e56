use std::path::Path;

use super::{
    CompileWorkerError, Compiled, WorkerProgram,
    exchange::exchange,
    request::{CompileTask, EXECUTABLE, LOG, OPTIMIZED, Request, RequestedDevices, Response, Task},
};
use crate::{
    pjrt::{CompileOptions, NamedValue, Program, log},
    targets::Target,
};

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileJob<'a> {
    /// The plugin's file.
    pub plugin: &'a Path,
    /// What for. RequestedDevices with a description need not be present; on the CPU, and where there is none, the plugin
    /// must find them.
    pub target: &'a Target,
    /// The module.
    pub program: Program<'a>,
    /// How; [`Target::compile_options`] is where to start.
    pub options: &'a CompileOptions,
}

/// Compiles in a worker process and waits for it. Whatever the plugin does to the worker becomes an error.
///
/// # Errors
/// If the plugin refuses, the worker crashes, runs out of memory or time, or files cannot be written.
pub fn compile_in_worker(
    job: &CompileJob<'_>,
    worker: &WorkerProgram,
) -> Result<Compiled, CompileWorkerError> {
    let environment = job.target.platform().compile_environment();
    let answered = exchange(&request(job), job.program.bytes, environment, worker)?;
    let report = match &answered.answer {
        Response::Compiled(report) => report.clone(),
        other => return Err(other.refusal()),
    };
    Ok(Compiled {
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
        warnings: log::warnings(String::from_utf8_lossy(&answered.read(LOG)?).lines()),
    })
}

pub(super) fn request(job: &CompileJob<'_>) -> Request {
    let described = job.target.device().and_then(|device| device.topology_options(job.target.shape()));
    let devices = match described {
        Some((name, options)) => RequestedDevices::Described { name, options: owned(options) },
        None => RequestedDevices::Present { options: owned(job.target.client_options()) },
    };
    Request {
        plugin: job.plugin.to_owned(),
        task: Task::Compile(CompileTask {
            platform: job.target.platform(),
            devices,
            format: job.program.format,
            options: job.options.clone(),
        }),
    }
}

/// Options as a request holds them.
pub(super) fn owned(options: Vec<(&'static str, NamedValue)>) -> Vec<(String, NamedValue)> {
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
