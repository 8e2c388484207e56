use std::{fmt, io, path::PathBuf};

use super::sys::MIN_MINOR;
use crate::base::{ArrayShape, command};

/// Error of loading or calling a plugin.
#[derive(Debug, thiserror::Error)]
pub enum PjrtError {
    /// The plugin file is missing or cannot be read.
    #[error("cannot open plugin: {}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system's loader rejected the file.
    #[error("cannot load plugin: {}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// The file is not a shared library for this machine.
    #[error("cannot load plugin: {}: expected {expected}, found {found}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that this machine loads.
        expected: String,
        /// The file's format.
        found: String,
    },
    /// The file is shorter than its headers say, for example after an interrupted copy.
    #[error("cannot load plugin: {}: truncated file: expected at least {expected} bytes, found {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// End of its last segment.
        expected: u64,
        /// Its size.
        found: u64,
    },
    /// A library that the plugin links with, itself or through another library, is not installed.
    #[error("cannot load plugin: {}: missing library {library}, which {} links with", path.display(), linking(needed_by))]
    MissingLibrary {
        /// The plugin's file.
        path: PathBuf,
        /// The name of the missing library.
        library: String,
        /// The file that links with it, if found.
        needed_by: Option<PathBuf>,
    },
    /// No library defines a symbol that the plugin or one of its libraries uses.
    #[error("cannot load plugin: {}: undefined symbol `{symbol}`, which {} uses", path.display(), library.display())]
    UndefinedSymbol {
        /// The plugin's file.
        path: PathBuf,
        /// The symbol, with its version after an `@`.
        symbol: String,
        /// The file that uses it.
        library: PathBuf,
    },
    /// The plugin for AMD GPUs where ROCm is not installed.
    #[error(
        "cannot find ROCm, which the plugin needs to run: {library} is neither in LD_LIBRARY_PATH nor in the system's \
         folders, /opt/rocm/lib or Python's packages of ROCm: {}",
        path.display()
    )]
    NoRocm {
        /// The plugin's file.
        path: PathBuf,
        /// The first library that is missing.
        library: String,
    },
    /// A shared library without the entry point of a plugin.
    #[error("not a PJRT plugin, it exports no `GetPjrtApi`: {}", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
    /// The entry point returned a null pointer.
    #[error("broken PJRT plugin, `GetPjrtApi` returned a null pointer: {}", path.display())]
    NullTable {
        /// The file.
        path: PathBuf,
    },
    /// The table of calls is smaller than that of the oldest supported API.
    #[error("expected a PJRT API table of at least {expected} bytes, found a `struct_size` of {found}: {}", path.display())]
    ShortTable {
        /// The file.
        path: PathBuf,
        /// Size of the table of API 0.81.
        expected: usize,
        /// The table's `struct_size`.
        found: usize,
    },
    /// The plugin implements an unsupported version of the C API.
    #[error("expected PJRT API 0.{MIN_MINOR} or a later 0.x, found {major}.{minor}: {}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Major version of its table.
        major: i32,
        /// Minor version of its table.
        minor: i32,
    },
    /// The plugin does not implement the call: its table ends before it, or the entry is null.
    #[error("plugin of PJRT API {major}.{minor} does not implement a call: {call}")]
    MissingCall {
        /// The call's name in the C API.
        call: &'static str,
        /// Major version of the plugin's table.
        major: i32,
        /// Minor version of the plugin's table.
        minor: i32,
    },
    /// A call returned an error.
    #[error("{call} failed with {code}: {message}")]
    Failed {
        /// The call's name in the C API.
        call: &'static str,
        /// The plugin's status code.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
    /// A call reported success and returned an invalid value.
    #[error("{call} returned {what}")]
    Malformed {
        /// The call's name in the C API.
        call: &'static str,
        /// The invalid value.
        what: String,
    },
    /// The number of host bytes does not match the shape.
    #[error("expected {expected} bytes for {shape}, found {found}", expected = shape.bytes())]
    ByteCount {
        /// The array's shape.
        shape: ArrayShape,
        /// Number of bytes.
        found: usize,
    },
    /// The client has no device with this id.
    #[error("client has no device: {id}")]
    UnknownDevice {
        /// The requested id.
        id: i32,
        /// Ids of the client's devices.
        known: Vec<i32>,
    },
    /// The device has no memory of the requested kind.
    #[error("device {device} has no memory of kind {expected}")]
    NoMemory {
        /// The device's id.
        device: i32,
        /// The requested kind.
        expected: &'static str,
        /// Kinds of the device's memories.
        known: Vec<String>,
    },
    /// The number of argument lists is not the number of devices.
    #[error("expected argument lists for {expected} devices, found {found}")]
    DeviceCount {
        /// Number of devices that the executable runs on.
        expected: usize,
        /// Number of argument lists.
        found: usize,
    },
    /// The argument lists of two devices differ in length or in the arguments that are donated.
    #[error("arguments of device {device}: expected the same number and donation as on the first device")]
    UnevenArguments {
        /// Position of the device in the executable's device list.
        device: usize,
    },
    /// An argument belongs to another client.
    #[error("argument buffer belongs to another client")]
    ForeignBuffer,
    /// Compile options without a partition.
    #[error("expected at least one partition, found 0")]
    NoPartitions,
}

impl PjrtError {
    /// Whether the given file is not a supported plugin, as opposed to an error of a plugin or a device.
    pub fn is_wrong_file(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Format { .. }
                | Self::Truncated { .. }
                | Self::NotAPlugin { .. }
                | Self::Version { .. }
        )
    }

    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { .. }
            | Self::Format { .. }
            | Self::Truncated { .. }
            | Self::NotAPlugin { .. }
            | Self::NullTable { .. }
            | Self::ShortTable { .. }
            | Self::Version { .. } => {
                Some(format!("{} (or cuda, rocm, tpu) fetches a supported plugin", command("plugin install cpu", &[])))
            }
            Self::Load { .. } => {
                Some("the plugin was probably built for another system: use a build for this one".into())
            }
            Self::MissingLibrary { library, .. } => {
                Some(format!("install the package that has {library}, or put its folder in LD_LIBRARY_PATH"))
            }
            Self::UndefinedSymbol { .. } => Some(
                "the plugin and a library that it links with probably have different versions: install matching ones, \
                 or another build of the plugin"
                    .into(),
            ),
            Self::NoRocm { .. } => Some(format!(
                "install ROCm 7, or set LD_LIBRARY_PATH to its folder; {} for AMD GPUs needs none",
                command("compile", &[])
            )),
            Self::MissingCall { .. } => Some("use a newer plugin".into()),
            Self::Failed { code: ErrorCode::ResourceExhausted, .. } => Some(
                "the program exceeds the device's memory: use more devices, a smaller batch, shorter sequences, or a remat \
                 policy that saves less"
                    .into(),
            ),
            Self::Failed { message, .. } if message.contains("libtpu_lockfile") => Some(
                "another process uses the TPU: end it, or remove /tmp/libtpu_lockfile if that process has already ended"
                    .into(),
            ),
            Self::Failed { call: "PJRT_Executable_DeserializeAndLoad", .. } => Some(
                "the executable is damaged, or was compiled on another kind of machine: compile its module instead, as \
                 setting `recompile` does"
                    .into(),
            ),
            Self::Failed { message, .. } if message.starts_with("Unexpected option name passed to") => {
                Some("the plugin is probably for another platform than the target: set a target of its platform".into())
            }
            Self::Failed { message, .. } if message.contains("annotate_device_placement") => {
                Some("this plugin does not support transfers between memories: use a newer one, or keep all tensors in device memory".into())
            }
            Self::Failed { message, .. } if message.starts_with("No such compile option") => {
                Some("flags are XLA's debug options, such as xla_gpu_enable_latency_hiding_scheduler".into())
            }
            Self::UnknownDevice { known, .. } => {
                let known: Vec<String> = known.iter().map(i32::to_string).collect();
                Some(format!("known devices: {}", known.join(", ")))
            }
            Self::NoMemory { known, .. } => Some(format!("known kinds: {}", known.join(", "))),
            Self::Failed { .. }
            | Self::Malformed { .. }
            | Self::ByteCount { .. }
            | Self::DeviceCount { .. }
            | Self::UnevenArguments { .. }
            | Self::ForeignBuffer
            | Self::NoPartitions => None,
        }
    }
}

/// The file that links with a missing library, for messages.
fn linking(file: &Option<PathBuf>) -> String {
    file.as_ref().map_or("one of its libraries".into(), |file| file.display().to_string())
}

macro_rules! codes {
    ($( $variant:ident = $number:literal, $name:literal; )*) => {
        /// `PJRT_Error_Code`.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorCode {
            $( $variant, )*
            /// A code that the header does not define.
            Other(i32),
        }

        impl ErrorCode {
            /// Converts a number of the C API.
            pub(crate) fn from_number(number: i32) -> Self {
                match number { $( $number => Self::$variant, )* other => Self::Other(other) }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant => f.write_str($name), )*
                    Self::Other(number) => write!(f, "code {number}"),
                }
            }
        }
    };
}

codes! {
    Cancelled = 1, "CANCELLED";
    Unknown = 2, "UNKNOWN";
    InvalidArgument = 3, "INVALID_ARGUMENT";
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    NotFound = 5, "NOT_FOUND";
    AlreadyExists = 6, "ALREADY_EXISTS";
    PermissionDenied = 7, "PERMISSION_DENIED";
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    Aborted = 10, "ABORTED";
    OutOfRange = 11, "OUT_OF_RANGE";
    Unimplemented = 12, "UNIMPLEMENTED";
    Internal = 13, "INTERNAL";
    Unavailable = 14, "UNAVAILABLE";
    DataLoss = 15, "DATA_LOSS";
    Unauthenticated = 16, "UNAUTHENTICATED";
}
