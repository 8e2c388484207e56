use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pjrt::{CompileOptions, MemoryStats, NamedValue, ProgramFormat, targets::Platform};

pub(super) const REQUEST: &str = "request.json";
pub(super) const PROGRAM: &str = "program.bin";
pub(super) const ANSWER: &str = "answer.json";
pub(super) const EXECUTABLE: &str = "executable.bin";
pub(super) const OPTIMIZED: &str = "optimized.bin";
/// What the child writes to its standard error.
pub(super) const LOG: &str = "stderr.txt";
/// The folder for libraries that stand in for missing ones.
pub(super) const STAND_INS: &str = "stand-ins";

/// What the child is to compile; the program itself lies beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub plugin: PathBuf,
    pub platform: Platform,
    pub devices: Devices,
    pub format: ProgramFormat,
    pub options: CompileOptions,
}

/// How the plugin learns what to compile for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Devices {
    /// Devices that need not be present.
    Described { name: String, options: Vec<(String, NamedValue)> },
    /// Those that the plugin finds.
    Present { options: Vec<(String, NamedValue)> },
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Program and optimized program lie beside it.
    Compiled(Report),
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

/// What the child says of a program that it compiled.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub api_version: (i32, i32),
    pub memory: MemoryStats,
    pub memory_limit: Option<u64>,
    pub devices: usize,
    pub hosts: usize,
    pub optimized_format: String,
    pub compile_seconds: f64,
    pub stand_ins: Vec<String>,
}

/// A program that a child compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
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
    pub stand_ins: Vec<String>,
    /// What the compiler warned of, each text once.
    pub warnings: Vec<String>,
}
