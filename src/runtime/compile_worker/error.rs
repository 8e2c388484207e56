use crate::base::Setting;
use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a worker was doing with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerStage {
    /// Loading the library, which runs its initializers, and asking for its table of calls.
    Load,
    /// `PJRT_Plugin_Initialize`.
    Initialize,
    /// Starting a client, or describing devices that are not present.
    Client,
    /// Compiling.
    Compile,
}

impl fmt::Display for WorkerStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "loading",
            Self::Initialize => "initializing",
            Self::Client => "starting its client",
            Self::Compile => "compiling",
        })
    }
}

/// Why a worker did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CompileWorkerError {
    /// The folder for request and answer cannot be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The plugin, or what prepares it, refused in good order.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// The program needs more memory than the devices have, by the compiler's count.
    #[error("{message}")]
    TooLarge {
        /// The plugin's own words.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// The system took the worker's memory away, or gave it none.
    #[error("this machine has too little memory to compile it{}", words(last))]
    OutOfMemory {
        /// The last lines that the worker wrote.
        last: Vec<String>,
    },
    /// A signal ended the worker.
    #[error("the plugin crashed while {stage} (signal {signal}, {name}){}", words(last))]
    Crashed {
        /// What it was doing.
        stage: WorkerStage,
        /// The signal's number.
        signal: i32,
        /// The signal's name.
        name: &'static str,
        /// The last lines that the worker wrote.
        last: Vec<String>,
    },
    /// The worker ended by itself and left no answer.
    #[error("the plugin ended its process with code {code} while {stage}{}", words(last))]
    Exited {
        /// What it was doing.
        stage: WorkerStage,
        /// Its exit code.
        code: i32,
        /// The last lines that the worker wrote.
        last: Vec<String>,
    },
    /// The worker took too long and was stopped.
    #[error("the plugin was stopped after {seconds} s while {stage}{}", words(last))]
    TimedOut {
        /// What it was doing.
        stage: WorkerStage,
        /// The time it had.
        seconds: f64,
        /// The last lines that the worker wrote.
        last: Vec<String>,
    },
    /// The worker's answer makes no sense.
    #[error("the plugin's process gave an invalid answer: {reason}")]
    Broken {
        /// What is wrong with it.
        reason: String,
    },
}

impl CompileWorkerError {
    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { hint, .. } | Self::TooLarge { hint, .. } => hint.clone(),
            Self::OutOfMemory { .. } => {
                Some("compile on a machine with more memory, or one program at a time".into())
            }
            Self::TimedOut { stage: WorkerStage::Compile, .. } => Some(format!("allow more with {}", Setting::Timeout)),
            Self::TimedOut { .. } => Some(format!(
                "another process may hold the device, or the plugin waits for a network; {} allows more",
                Setting::Timeout
            )),
            Self::Crashed { stage: WorkerStage::Load | WorkerStage::Initialize | WorkerStage::Client, .. } => {
                Some("the plugin does not run on this machine: check the driver, or use another build of it".into())
            }
            Self::Crashed { .. } => Some(
                "plugins crash on modules or flags that they do not expect: try without flags of your own, or the \
                 other partitioner"
                    .into(),
            ),
            Self::Io { .. } | Self::Start { .. } | Self::Exited { .. } | Self::Broken { .. } => None,
        }
    }
}

/// The last lines as the end of a message.
fn words(last: &[String]) -> String {
    match last {
        [] => String::new(),
        lines => format!("; the last it wrote:\n  {}", lines.join("\n  ")),
    }
}
