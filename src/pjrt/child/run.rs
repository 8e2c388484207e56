use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{
    ChildError, Compiled,
    request::{ANSWER, Answer, Devices, EXECUTABLE, LOG, OPTIMIZED, PROGRAM, REQUEST, Request, STAND_INS},
};
use crate::pjrt::{
    CompileOptions, LOG_LEVEL, NamedValue, Program, log,
    process::KillOnDrop,
    targets::{Platform, Target},
};

/// How often it is looked whether the child has ended.
const POLL: Duration = Duration::from_millis(5);
/// How much of what the child wrote goes into an error.
const LAST_LINES: usize = 12;
const LAST_BYTES: u64 = 16 << 10;
const LINE_CHARS: usize = 400;

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

/// How a child is started.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    /// The program, usually the running one.
    pub program: PathBuf,
    /// Its arguments; the folder of the request comes after them.
    pub args: Vec<OsString>,
    /// What its environment says beside what this process's own says.
    pub environment: Vec<(OsString, OsString)>,
    /// How long it may take, if there is a limit.
    pub timeout: Option<Duration>,
    /// Where the folder of the request is made, which goes afterwards.
    pub scratch: PathBuf,
}

/// Compiles in a child process and waits for it. Whatever the plugin does to the child becomes an error.
///
/// # Errors
/// If the plugin refuses, the child crashes, runs out of memory or time, or files cannot be written.
pub fn compile_in_child(job: &CompileJob<'_>, child: &ChildProgram) -> Result<Compiled, ChildError> {
    let folder = tempfile::Builder::new()
        .prefix("hloom-compile-")
        .tempdir_in(&child.scratch)
        .map_err(|source| ChildError::Io { path: child.scratch.clone(), source })?;
    let folder = folder.path();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|source| ChildError::Io { path, source })
    };
    let request = serde_json::to_vec(&request(job))
        .map_err(|error| ChildError::Broken { reason: error.to_string() })?;
    write(REQUEST, &request)?;
    write(PROGRAM, job.program.bytes)?;
    let stand_ins = folder.join(STAND_INS);
    fs::create_dir(&stand_ins).map_err(|source| ChildError::Io { path: stand_ins, source })?;

    let kills_before = oom_kills();
    let status = run(job.target.platform(), child, folder)?;
    let log = folder.join(LOG);
    match (fs::read(folder.join(ANSWER)), status) {
        // An answer counts, however the plugin ends afterwards.
        (Ok(answer), _) => read_answer(&answer, folder),
        (Err(_), None) => Err(ChildError::TimedOut {
            seconds: child.timeout.unwrap_or_default().as_secs_f64(),
            last: last_lines(&log),
        }),
        (Err(_), Some(status)) => Err(explain(status, last_lines(&log), oom_kills() > kills_before)),
    }
}

pub(super) fn request(job: &CompileJob<'_>) -> Request {
    let owned = |options: Vec<(&'static str, NamedValue)>| {
        options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let described = job.target.device().and_then(|device| device.topology_options(job.target.shape()));
    let devices = match described {
        Some((name, options)) => Devices::Described { name, options: owned(options) },
        None => Devices::Present { options: owned(job.target.client_options()) },
    };
    Request {
        plugin: job.plugin.to_owned(),
        platform: job.target.platform(),
        devices,
        format: job.program.format,
        options: job.options.clone(),
    }
}

/// Starts the child and waits for its end, or for the time that it has; then it is stopped.
fn run(platform: Platform, child: &ChildProgram, folder: &Path) -> Result<Option<ExitStatus>, ChildError> {
    let log = folder.join(LOG);
    let stderr = File::create(&log).map_err(|source| ChildError::Io { path: log, source })?;
    let start_error = |source| ChildError::Start { program: child.program.clone(), source };
    let spawned = Command::new(&child.program)
        .args(&child.args)
        .arg(folder)
        // Warnings are part of the answer.
        .env(LOG_LEVEL, "1")
        .envs(platform.compile_environment().iter().copied())
        .envs(child.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(start_error)?;
    let mut spawned = KillOnDrop(spawned);
    let start = Instant::now();
    loop {
        if let Some(status) = spawned.0.try_wait().map_err(start_error)? {
            return Ok(Some(status));
        }
        if child.timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn read_answer(answer: &[u8], folder: &Path) -> Result<Compiled, ChildError> {
    let answer =
        serde_json::from_slice(answer).map_err(|error| ChildError::Broken { reason: error.to_string() })?;
    let report = match answer {
        Answer::Compiled(report) => report,
        Answer::Refused { message, hint } => return Err(ChildError::Refused { message, hint }),
        Answer::TooLarge { message, hint } => return Err(ChildError::TooLarge { message, hint }),
    };
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|source| ChildError::Io { path, source })
    };
    Ok(Compiled {
        executable: read(EXECUTABLE)?,
        optimized: read(OPTIMIZED)?,
        optimized_format: report.optimized_format,
        memory: report.memory,
        memory_limit: report.memory_limit,
        devices: report.devices,
        hosts: report.hosts,
        api_version: report.api_version,
        compile_seconds: report.compile_seconds,
        stand_ins: report.stand_ins,
        warnings: log::warnings(String::from_utf8_lossy(&read(LOG)?).lines()),
    })
}

/// Why a child left no answer.
fn explain(status: ExitStatus, last: Vec<String>, system_killed: bool) -> ChildError {
    const NO_MEMORY: &[&str] = &["bad_alloc", "Cannot allocate memory", "out of memory"];
    let signal = signal(status);
    let says_so = last.iter().any(|line| NO_MEMORY.iter().any(|sign| line.contains(sign)));
    match signal {
        Some((9, _)) if system_killed => ChildError::OutOfMemory { last },
        Some(_) if says_so => ChildError::OutOfMemory { last },
        Some((signal, name)) => ChildError::Crashed { signal, name, last },
        None => ChildError::Exited { code: status.code().unwrap_or_default(), last },
    }
}

/// The signal that ended a process, by number and name.
#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<(i32, &'static str)> {
    const NAMES: &[(i32, &str)] = &[
        (2, "interrupted"),
        (4, "illegal instruction"),
        (6, "aborted"),
        (8, "arithmetic error"),
        (9, "killed"),
        (11, "segmentation fault"),
        (15, "terminated"),
    ];
    let signal = std::os::unix::process::ExitStatusExt::signal(&status)?;
    let name = NAMES.iter().find(|(number, _)| *number == signal).map_or("unknown", |(_, name)| *name);
    Some((signal, name))
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<(i32, &'static str)> {
    None
}

/// How many processes the system has killed so far for lack of memory; 0 where it does not say.
fn oom_kills() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// The last lines of what a child wrote.
fn last_lines(path: &Path) -> Vec<String> {
    let tail = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(LAST_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = tail().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    last.iter().map(|line| line.chars().take(LINE_CHARS).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_long_log_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log: String = (0..10_000).map(|line| format!("line {line}\n\n")).collect();
        fs::write(&path, log + &"x".repeat(1000)).unwrap();
        let last = last_lines(&path);
        assert_eq!((last.len(), last[0].as_str()), (LAST_LINES, "line 9989"));
        assert_eq!(last[LAST_LINES - 1].len(), LINE_CHARS);
        assert!(last_lines(&folder.path().join("none")).is_empty());
    }
}
