use crate::base::Setting;
use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Stage of a worker's work with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerStage {
    /// Loading the library, which runs its initializers, and getting its table of calls.
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

/// Error of a request to a worker.
#[derive(Debug, thiserror::Error)]
pub enum CompileWorkerError {
    /// The folder for request and response cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The plugin, or its preparation, returned an error.
    #[error("{message}")]
    Refused {
        /// The message.
        message: String,
        /// A hint, if there is one.
        hint: Option<String>,
    },
    /// The program exceeds the devices' memory, according to the compiler.
    #[error("{message}")]
    TooLarge {
        /// The plugin's message.
        message: String,
        /// A hint, if there is one.
        hint: Option<String>,
    },
    /// The worker ran out of host memory.
    #[error("this machine has too little memory to compile it{}", words(last))]
    OutOfMemory {
        /// Last lines of the worker's output.
        last: Vec<String>,
    },
    /// A signal ended the worker.
    #[error("the plugin crashed while {stage} (signal {signal}, {name}){}", words(last))]
    Crashed {
        /// Its stage.
        stage: WorkerStage,
        /// The signal's number.
        signal: i32,
        /// The signal's name.
        name: &'static str,
        /// Last lines of the worker's output.
        last: Vec<String>,
    },
    /// The worker exited without a response.
    #[error("the plugin ended its process with code {code} while {stage}{}", words(last))]
    Exited {
        /// Its stage.
        stage: WorkerStage,
        /// Its exit code.
        code: i32,
        /// Last lines of the worker's output.
        last: Vec<String>,
    },
    /// The worker exceeded the time limit and was killed.
    #[error("the plugin was stopped after {seconds} s while {stage}{}", words(last))]
    TimedOut {
        /// Its stage.
        stage: WorkerStage,
        /// The limit in seconds.
        seconds: f64,
        /// Last lines of the worker's output.
        last: Vec<String>,
    },
    /// The worker's response is invalid.
    #[error("the plugin's process gave an invalid answer: {reason}")]
    Broken {
        /// The reason.
        reason: String,
    },
}

impl CompileWorkerError {
    /// A hint for the user, if there is one.
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

/// Formats the last lines for the end of a message.
fn words(last: &[String]) -> String {
    match last {
        [] => String::new(),
        lines => format!("; the last it wrote:\n  {}", lines.join("\n  ")),
    }
}
