use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{CompileWorkerError, WorkerStage};
use crate::{
    pjrt::{CompileOptions, MemoryStats, NamedValue, ProgramFormat},
    targets::Platform,
};

pub(super) const REQUEST: &str = "request.json";
pub(super) const PROGRAM: &str = "program.bin";
pub(super) const RESPONSE: &str = "response.json";
pub(super) const EXECUTABLE: &str = "executable.bin";
pub(super) const OPTIMIZED: &str = "optimized.bin";
/// What the worker writes to its standard error.
pub(super) const LOG: &str = "stderr.txt";
/// The folder of stub libraries.
pub(super) const STUB_LIBS: &str = "stub-libs";

/// The stage that the worker has reached.
pub(super) const STAGE: &str = "stage.json";

/// What the worker is to do with a plugin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerRequest {
    pub plugin: PathBuf,
    pub task: WorkerTask,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerTask {
    /// Compile the program that lies beside the request.
    Compile(CompileTask),
    /// Start a client with these options, and end.
    Start { options: Vec<(String, NamedValue)> },
    /// Read what the plugin says of itself.
    Describe,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CompileTask {
    pub platform: Platform,
    pub devices: RequestedDevices,
    pub format: ProgramFormat,
    pub options: CompileOptions,
}

impl WorkerTask {
    /// The stage that a worker is in before it has written one.
    pub fn first_stage(&self) -> WorkerStage {
        match self {
            Self::Compile(_) => WorkerStage::Compile,
            Self::Start { .. } | Self::Describe => WorkerStage::Load,
        }
    }
}

/// How the plugin learns what to compile for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RequestedDevices {
    /// RequestedDevices that need not be present.
    Described { name: String, options: Vec<(String, NamedValue)> },
    /// Those that the plugin finds.
    Present { options: Vec<(String, NamedValue)> },
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerResponse {
    /// PjrtProgram and optimized program lie beside it.
    Compiled(CompileResponse),
    /// The client of this platform started.
    Started {
        platform: String,
    },
    Described(PluginDescription),
    /// The file was not loaded, or is no plugin; none of its calls were made.
    NotLoaded {
        message: String,
        hint: Option<String>,
    },
    Refused {
        message: String,
        hint: Option<String>,
    },
    /// The compiler counted more memory than the devices have.
    TooLarge {
        message: String,
        hint: Option<String>,
    },
}

impl WorkerResponse {
    /// The error of an answer that is not the one that the task asks for.
    pub fn refusal(&self) -> CompileWorkerError {
        match self {
            Self::NotLoaded { message, hint } | Self::Refused { message, hint } => {
                CompileWorkerError::Refused { message: message.clone(), hint: hint.clone() }
            }
            Self::TooLarge { message, hint } => {
                CompileWorkerError::TooLarge { message: message.clone(), hint: hint.clone() }
            }
            Self::Compiled(_) | Self::Started { .. } | Self::Described(_) => {
                CompileWorkerError::Broken { reason: "it answers another request".into() }
            }
        }
    }
}

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginDescription {
    /// Major and minor version of its C API.
    pub api_version: (i32, i32),
    /// Its attributes, such as `xla_version`.
    pub attributes: BTreeMap<String, NamedValue>,
}

/// What the worker says of a program that it compiled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CompileResponse {
    pub api_version: (i32, i32),
    pub memory: MemoryStats,
    pub memory_limit: Option<u64>,
    pub devices: usize,
    pub hosts: usize,
    pub optimized_format: String,
    pub compile_seconds: f64,
    pub stub_libs: Vec<String>,
}

/// A program that a worker compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompiledProgram {
    /// What [`Client::deserialize`](crate::pjrt::Client::deserialize) takes, on the same plugin and devices.
    #[serde(skip)]
    pub executable: Vec<u8>,
    /// The program after all of the compiler's passes.
    #[serde(skip)]
    pub optimized: Vec<u8>,
    /// The form of that, usually `hlo_with_config`.
    pub optimized_format: String,
    /// What it needs on each device.
    pub memory: MemoryStats,
    /// The memory of each device, where the plugin says it.
    pub memory_limit: Option<u64>,
    /// How many devices the plugin made of the target.
    pub devices: usize,
    /// On how many hosts.
    pub hosts: usize,
    /// Major and minor version of the plugin's C API.
    pub api_version: (i32, i32),
    /// Seconds that the compiler alone took.
    pub compile_seconds: f64,
    /// Libraries that are not on this machine and that others stood in for.
    pub stub_libs: Vec<String>,
    /// What the compiler warned of, each text once.
    pub warnings: Vec<String>,
}
