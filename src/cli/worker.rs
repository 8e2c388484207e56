//! Worker processes of this program, in which plugins are started first.

use std::{ffi::OsString, fs, io, path::Path, thread, time::Duration};

use super::{Answer, Env, Failure};
use crate::{
    app::{AppError, START_SECONDS, Starter, timeout},
    runtime::compile_worker::{self, WorkerProgram},
};

/// Starts plugins in worker processes of this program.
pub(super) fn starter(env: &Env<'_>, seconds: Option<f64>) -> Result<Starter, AppError> {
    let worker = worker_program(env, Some(timeout(seconds.unwrap_or(START_SECONDS))?));
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    Ok(Starter::new(worker, &env.store, variables))
}

/// This program as a worker process.
pub(super) fn worker_program(env: &Env<'_>, timeout: Option<Duration>) -> WorkerProgram {
    WorkerProgram {
        program: env.program.clone(),
        args: vec![OsString::from("compile-worker")],
        environment: vec![],
        timeout,
        scratch: std::env::temp_dir(),
    }
}

/// Serves a request, in the worker process.
pub(super) fn serve(folder: &Path) -> Result<Answer, Failure> {
    // The parent holds the other end of the pipe until it exits, even if it is killed.
    let request = folder.to_owned();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // The parent may have removed the folder.
        let _ = fs::remove_dir_all(request);
        kill_self();
    });
    compile_worker::serve(folder)?;
    Ok(Answer::Yes)
}

/// Kills the process, since the plugin's exit handlers could wait for its running threads.
fn kill_self() {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::KILL);
}
