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
/// The worker's standard error.
pub(super) const LOG: &str = "stderr.txt";
/// The folder of stub libraries.
pub(super) const STUB_LIBS: &str = "stub-libs";

/// The stage that the worker has reached.
pub(super) const STAGE: &str = "stage.json";

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerRequest {
    pub plugin: PathBuf,
    pub task: WorkerTask,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerTask {
    /// Compile the program in the request's folder.
    Compile(CompileTask),
    /// Start a client with these options, and stop it.
    Start { options: Vec<(String, NamedValue)> },
    /// Read the plugin's attributes.
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
    /// The stage of a worker that has not written one.
    pub(super) fn first_stage(&self) -> WorkerStage {
        match self {
            Self::Compile(_) => WorkerStage::Compile,
            Self::Start { .. } | Self::Describe => WorkerStage::Load,
        }
    }
}

/// Devices to compile for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RequestedDevices {
    /// A topology of devices that need not be present.
    Described { name: String, options: Vec<(String, NamedValue)> },
    /// Devices that the plugin finds.
    Present { options: Vec<(String, NamedValue)> },
}

/// Response of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerResponse {
    /// Compiled; executable and optimized program are in the same folder.
    Compiled(CompileResponse),
    /// The client of this platform started.
    Started {
        platform: String,
    },
    Described(PluginDescription),
    /// The file was not loaded, or is not a plugin; no call was made.
    NotLoaded {
        message: String,
        hint: Option<String>,
    },
    Refused {
        message: String,
        hint: Option<String>,
    },
    /// The program exceeds the devices' memory.
    TooLarge {
        message: String,
        hint: Option<String>,
    },
}

impl WorkerResponse {
    /// The error of a response that is not a result of the task.
    pub(super) fn refusal(&self) -> CompileWorkerError {
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

/// API version and attributes of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginDescription {
    /// Major and minor version of its C API.
    pub api_version: (i32, i32),
    /// Its attributes, such as `xla_version`.
    pub attributes: BTreeMap<String, NamedValue>,
}

/// Report on a compiled program.
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
    /// Serialized executable for [`Client::deserialize`](crate::pjrt::Client::deserialize), of the same plugin and devices.
    #[serde(skip)]
    pub executable: Vec<u8>,
    /// The program after all compiler passes.
    #[serde(skip)]
    pub optimized: Vec<u8>,
    /// Its format, usually `hlo_with_config`.
    pub optimized_format: String,
    /// Memory on each device.
    pub memory: MemoryStats,
    /// Memory of each device in bytes, if the plugin reports it.
    pub memory_limit: Option<u64>,
    /// Number of devices.
    pub devices: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Major and minor version of the plugin's C API.
    pub api_version: (i32, i32),
    /// Compile time in seconds.
    pub compile_seconds: f64,
    /// Missing libraries that were replaced by stubs.
    pub stub_libs: Vec<String>,
    /// The compiler's warnings, each once.
    pub warnings: Vec<String>,
}
