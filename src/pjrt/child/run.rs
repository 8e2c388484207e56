use std::path::Path;

use super::{
    ChildError, ChildProgram, Compiled,
    ask::ask,
    request::{Answer, CompileTask, Devices, EXECUTABLE, LOG, OPTIMIZED, Request, Task},
};
use crate::pjrt::{CompileOptions, NamedValue, Program, log, targets::Target};

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileJob<'a> {
    /// The plugin's file.
    pub plugin: &'a Path,
    /// What for. Devices with a description need not be present; on the CPU, and where there is none, the plugin
    /// must find them.
    pub target: &'a Target,
    /// The module.
    pub program: Program<'a>,
    /// How; [`Target::compile_options`] is where to start.
    pub options: &'a CompileOptions,
}

/// Compiles in a child process and waits for it. Whatever the plugin does to the child becomes an error.
///
/// # Errors
/// If the plugin refuses, the child crashes, runs out of memory or time, or files cannot be written.
pub fn compile_in_child(job: &CompileJob<'_>, child: &ChildProgram) -> Result<Compiled, ChildError> {
    let environment = job.target.platform().compile_environment();
    let answered = ask(&request(job), job.program.bytes, environment, child)?;
    let report = match &answered.answer {
        Answer::Compiled(report) => report.clone(),
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
        stand_ins: report.stand_ins,
        warnings: log::warnings(String::from_utf8_lossy(&answered.read(LOG)?).lines()),
    })
}

pub(super) fn request(job: &CompileJob<'_>) -> Request {
    let described = job.target.device().and_then(|device| device.topology_options(job.target.shape()));
    let devices = match described {
        Some((name, options)) => Devices::Described { name, options: owned(options) },
        None => Devices::Present { options: owned(job.target.client_options()) },
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
