use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{
    CompileWorkerError, WorkerStage,
    request::{LOG, PROGRAM, REQUEST, RESPONSE, STAGE, STUB_LIBS, WorkerRequest, WorkerResponse},
};
use crate::{base::KillOnDrop, pjrt::LOG_LEVEL};

/// Interval of checks whether the worker has ended.
const POLL: Duration = Duration::from_millis(5);
/// Time limit for a worker to exit after its response: some plugins hang on shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Limits of the worker's output in an error.
const LAST_LINES: usize = 12;
const LAST_BYTES: u64 = 16 << 10;
const LINE_CHARS: usize = 400;

/// Program of a worker and its limits.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The program, usually the running one.
    pub program: PathBuf,
    /// Its arguments, before the folder of the request.
    pub args: Vec<OsString>,
    /// Environment variables in addition to those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Time limit, if any.
    pub timeout: Option<Duration>,
    /// Parent of the temporary folder of the request.
    pub scratch: PathBuf,
}

/// A worker's response and its files.
pub(super) struct Answered {
    pub answer: WorkerResponse,
    folder: TempDir,
}

impl Answered {
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, CompileWorkerError> {
        let path = self.folder.path().join(name);
        fs::read(&path).map_err(|source| CompileWorkerError::Io { path, source })
    }
}

/// Runs a request in a worker and waits for its response. A crash or hang of the worker is an error.
pub(super) fn exchange(
    request: &WorkerRequest,
    program: &[u8],
    environment: &[(&str, &str)],
    worker: &WorkerProgram,
) -> Result<Answered, CompileWorkerError> {
    let folder = tempfile::Builder::new()
        .prefix("hloom-compile-")
        .tempdir_in(&worker.scratch)
        .map_err(|source| CompileWorkerError::Io { path: worker.scratch.clone(), source })?;
    let place = |name: &str| folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(place(name), bytes).map_err(|source| CompileWorkerError::Io { path: place(name), source })
    };
    let text = serde_json::to_vec(request)
        .map_err(|error| CompileWorkerError::Broken { reason: error.to_string() })?;
    write(REQUEST, &text)?;
    write(PROGRAM, program)?;
    fs::create_dir(place(STUB_LIBS))
        .map_err(|source| CompileWorkerError::Io { path: place(STUB_LIBS), source })?;

    let kills_before = oom_kills();
    let status = run(environment, worker, folder.path())?;
    let last = || last_lines(&place(LOG));
    let stage = fs::read(place(STAGE)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let stage = stage.unwrap_or_else(|| request.task.first_stage());
    match (fs::read(place(RESPONSE)), status) {
        // A response is valid, however the plugin exits afterwards.
        (Ok(answer), _) => {
            let broken = |error: serde_json::Error| CompileWorkerError::Broken { reason: error.to_string() };
            Ok(Answered { answer: serde_json::from_slice(&answer).map_err(broken)?, folder })
        }
        (Err(_), None) => {
            let seconds = worker.timeout.unwrap_or_default().as_secs_f64();
            Err(CompileWorkerError::TimedOut { stage, seconds, last: last() })
        }
        (Err(_), Some(status)) => Err(explain(stage, status, last(), oom_kills() > kills_before)),
    }
}

/// Starts the worker and waits until it exits or reaches the time limit; then it is killed.
fn run(
    environment: &[(&str, &str)],
    worker: &WorkerProgram,
    folder: &Path,
) -> Result<Option<ExitStatus>, CompileWorkerError> {
    let log = folder.join(LOG);
    let stderr = File::create(&log).map_err(|source| CompileWorkerError::Io { path: log, source })?;
    let start_error = |source| CompileWorkerError::Start { program: worker.program.clone(), source };
    let spawned = Command::new(&worker.program)
        .args(&worker.args)
        .arg(folder)
        // Warnings are part of the response.
        .env(LOG_LEVEL, "1")
        .envs(environment.iter().copied())
        .envs(worker.environment.iter().map(|(name, value)| (name, value)))
        // Nothing is written to the pipe: its end of file tells the worker that this process has exited.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(start_error)?;
    let mut spawned = KillOnDrop(spawned);
    let start = Instant::now();
    let mut answered: Option<Instant> = None;
    loop {
        if let Some(status) = spawned.0.try_wait().map_err(start_error)? {
            return Ok(Some(status));
        }
        if answered.is_none() && folder.join(RESPONSE).exists() {
            answered = Some(Instant::now());
        }
        let is_over = match answered {
            Some(since) => since.elapsed() >= GRACE,
            None => worker.timeout.is_some_and(|timeout| start.elapsed() >= timeout),
        };
        if is_over {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// The error for a worker without a response.
fn explain(
    stage: WorkerStage,
    status: ExitStatus,
    last: Vec<String>,
    system_killed: bool,
) -> CompileWorkerError {
    const NO_MEMORY: &[&str] = &["bad_alloc", "Cannot allocate memory", "out of memory"];
    let signal = signal(status);
    let says_so = last.iter().any(|line| NO_MEMORY.iter().any(|sign| line.contains(sign)));
    match signal {
        Some((9, _)) if system_killed => CompileWorkerError::OutOfMemory { last },
        Some(_) if says_so => CompileWorkerError::OutOfMemory { last },
        Some((signal, name)) => CompileWorkerError::Crashed { stage, signal, name, last },
        None => CompileWorkerError::Exited { stage, code: status.code().unwrap_or_default(), last },
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

/// Number of processes that the system has killed for lack of memory; 0 if unknown.
fn oom_kills() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// The last lines of a worker's output.
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
