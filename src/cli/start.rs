//! Plugins and the processes in which they are tried.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use super::{Answer, Env, Failure};
use crate::{
    pjrt::Plugin,
    runtime::compile_worker::{self, Description, StartJob, WorkerProgram},
    targets::Target,
    train::TrainError,
};

/// Seconds that a plugin may take to start where nothing else is said.
const START_SECONDS: f64 = 120.0;

/// Starts plugins: first in a child, which may crash or hang.
pub struct Starter {
    child: WorkerProgram,
    cache: PathBuf,
    variables: Vec<String>,
}

impl Starter {
    /// # Errors
    /// If `seconds`, which is how long a plugin may take to start, is none.
    pub fn new(env: &Env<'_>, seconds: Option<f64>) -> Result<Self, TrainError> {
        let timeout = duration(seconds.unwrap_or(START_SECONDS))?;
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Ok(Self {
            child: worker_program(env, Some(timeout)),
            cache: env.store.join("started"),
            variables: names.collect(),
        })
    }

    /// Sees that the plugin's client starts on this machine.
    pub fn check(&self, plugin: &Path, target: &Target) -> Result<(), TrainError> {
        let job = StartJob { plugin, target, variables: &self.variables };
        Ok(compile_worker::start(&job, &self.child, &self.cache)?)
    }

    /// The plugin, whose client starts on this machine.
    pub fn load(&self, plugin: &Path, target: &Target) -> Result<Arc<Plugin>, TrainError> {
        self.check(plugin, target)?;
        Ok(Plugin::load(plugin)?)
    }

    /// What a plugin says of itself.
    pub fn describe(&self, plugin: &Path) -> Result<Description, TrainError> {
        Ok(compile_worker::describe(plugin, &self.child)?)
    }
}

/// This program as a compile worker.
pub fn worker_program(env: &Env<'_>, timeout: Option<Duration>) -> WorkerProgram {
    WorkerProgram {
        program: env.program.clone(),
        args: vec![OsString::from("compile-worker")],
        environment: vec![],
        timeout,
        scratch: std::env::temp_dir(),
    }
}

/// The limit that `--timeout` sets.
pub fn duration(seconds: f64) -> Result<Duration, TrainError> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| TrainError::Setting {
        setting: "--timeout",
        problem: format!("expected a number of seconds above zero, found: {seconds}"),
        hint: Some("for example `--timeout 600`".into()),
    })
}

/// The child's side.
pub fn serve(folder: &Path) -> Result<Answer, Failure> {
    // The parent holds the other end of the pipe as long as it lives, however it ends.
    let request = folder.to_owned();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Nothing is left to remove where the parent has.
        let _ = fs::remove_dir_all(request);
        kill_self();
    });
    compile_worker::serve(folder)?;
    Ok(Answer::Yes)
}

/// Ends the process without the plugin's exit handlers, which could wait for what it does at this moment.
fn kill_self() {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::KILL);
}
