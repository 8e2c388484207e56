use std::{fmt, io, path::PathBuf};

use super::sys::MIN_MINOR;
use crate::base::{ArrayShape, command};

/// What can go wrong between hloom and a plugin.
#[derive(Debug, thiserror::Error)]
pub enum PjrtError {
    /// The plugin's file is not there or cannot be read.
    #[error("cannot open plugin: {}", path.display())]
    Open {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system's loader refused the file.
    #[error("cannot load plugin: {}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's own text.
        reason: String,
    },
    /// The file is no shared library, or one for another machine.
    #[error("cannot load plugin: {}: expected {expected}, found {found}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that this machine loads.
        expected: String,
        /// The file's format.
        found: String,
    },
    /// The file ends before what its headers promise, after an interrupted copy for example.
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
        /// The file that links with it, where it was found.
        needed_by: Option<PathBuf>,
    },
    /// No library defines a symbol that the plugin, or a library of it, uses.
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
    /// The entry point gave no table of calls.
    #[error("broken PJRT plugin, `GetPjrtApi` returned a null pointer: {}", path.display())]
    NullTable {
        /// The file.
        path: PathBuf,
    },
    /// The table of calls is smaller than that of the oldest API in use.
    #[error("expected a PJRT API table of at least {expected} bytes, found a `struct_size` of {found}: {}", path.display())]
    ShortTable {
        /// The file.
        path: PathBuf,
        /// Size of the table of API 0.81.
        expected: usize,
        /// The table's `struct_size`.
        found: usize,
    },
    /// The plugin speaks a version of the C API that hloom does not.
    #[error("expected PJRT API 0.{MIN_MINOR} or a later 0.x, found {major}.{minor}: {}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Major version of its table.
        major: i32,
        /// Minor version of its table.
        minor: i32,
    },
    /// The plugin's table ends before the call, or its slot is empty.
    #[error("plugin of PJRT API {major}.{minor} does not offer a call: {call}")]
    MissingCall {
        /// The call's name in the C API.
        call: &'static str,
        /// Major version of the plugin's table.
        major: i32,
        /// Minor version of the plugin's table.
        minor: i32,
    },
    /// The plugin answered with an error.
    #[error("{call} failed with {code}: {message}")]
    Failed {
        /// The call's name in the C API.
        call: &'static str,
        /// The plugin's status code.
        code: ErrorCode,
        /// The plugin's own text.
        message: String,
    },
    /// The plugin reported success and gave something that cannot be.
    #[error("{call} gave {what}")]
    Malformed {
        /// The call's name in the C API.
        call: &'static str,
        /// What it gave.
        what: String,
    },
    /// Host bytes that do not fit the shape.
    #[error("expected {expected} bytes for {shape}, found {found}", expected = shape.bytes())]
    ByteCount {
        /// The array's shape.
        shape: ArrayShape,
        /// How many bytes there were.
        found: usize,
    },
    /// A device id that the client does not have.
    #[error("client has no device: {id}")]
    UnknownDevice {
        /// The id asked for.
        id: i32,
        /// The ids there are.
        known: Vec<i32>,
    },
    /// A device has no memory of a kind.
    #[error("device {device} has no memory of the kind {expected}")]
    NoMemory {
        /// The device's id.
        device: i32,
        /// The kind asked for.
        expected: &'static str,
        /// The kinds there are.
        known: Vec<String>,
    },
    /// An execution got argument lists for another number of devices.
    #[error("expected argument lists for {expected} devices, found {found}")]
    DeviceCount {
        /// Devices that the executable runs on.
        expected: usize,
        /// Argument lists that were given.
        found: usize,
    },
    /// The argument lists of two devices differ in length, or in which arguments are donated.
    #[error("arguments of device {device} are kept and donated unlike those of the first")]
    UnevenArguments {
        /// Position of the device in the executable's device list.
        device: usize,
    },
    /// An argument that another client holds.
    #[error("argument buffer belongs to another client")]
    ForeignBuffer,
    /// A compilation for no device at all.
    #[error("expected at least one partition, found 0")]
    NoPartitions,
}

impl PjrtError {
    /// Whether the file that was named as a plugin is none that this program can use, as opposed to a plugin or a device
    /// that fails.
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

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { .. }
            | Self::Format { .. }
            | Self::Truncated { .. }
            | Self::NotAPlugin { .. }
            | Self::NullTable { .. }
            | Self::ShortTable { .. }
            | Self::Version { .. } => {
                Some(format!("{} (or cuda, rocm, tpu) fetches a plugin that works", command("plugin install cpu", &[])))
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
                "it does not fit in the device's memory: use more devices, a smaller batch or shorter \
                 sequences, or save less with a stricter remat policy"
                    .into(),
            ),
            Self::Failed { message, .. } if message.contains("libtpu_lockfile") => Some(
                "another process uses the TPU: end it, or remove /tmp/libtpu_lockfile if it ended without doing so"
                    .into(),
            ),
            Self::Failed { call: "PJRT_Executable_DeserializeAndLoad", .. } => Some(
                "the executable is damaged, or was made on another kind of machine: compile its module instead, as \
                 setting `recompile` does"
                    .into(),
            ),
            Self::Failed { message, .. } if message.starts_with("Unexpected option name passed to") => {
                Some("the plugin is probably for other devices than the target's: give a target that it is for".into())
            }
            Self::Failed { message, .. } if message.contains("annotate_device_placement") => {
                Some("this plugin moves nothing between memories: use a newer one, or keep all on the device".into())
            }
            Self::Failed { message, .. } if message.starts_with("No such compile option") => {
                Some("flags are XLA's debug options, such as xla_gpu_enable_latency_hiding_scheduler".into())
            }
            Self::UnknownDevice { known, .. } => {
                let known: Vec<String> = known.iter().map(i32::to_string).collect();
                Some(format!("known devices: {}", known.join(", ")))
            }
            Self::NoMemory { known, .. } => Some(format!("its memories: {}", known.join(", "))),
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

/// The file that links with a missing library, in an error.
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
            /// A number that the header does not name.
            Other(i32),
        }

        impl ErrorCode {
            /// The code of a number in the C API.
            pub fn from_number(number: i32) -> Self {
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
