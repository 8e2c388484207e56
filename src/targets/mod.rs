//! Compile targets: device models, each described by a TOML file, and the number and arrangement of devices. Users' device
//! files have the same format as the built-in ones.

pub(crate) mod cuda_toolkit;
mod device;

mod gpu;

pub(crate) mod presence;

mod read;

mod shape;

mod target;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use cuda_toolkit::CudaToolkitError;
pub use device::{DeviceSpec, Hardware, TpuInfo};
pub use gpu::{GpuInfo, MatrixUnits};
pub use presence::Presence;
pub use read::DeviceError;
pub use shape::TargetShape;
pub use target::{GpuMemory, Target, TargetError};

/// Device platforms; each has its own plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// The host's processor.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// AMD GPUs.
    Rocm,
    /// Google TPUs.
    Tpu,
}

impl Platform {
    /// Every platform.
    pub const ALL: &[Platform] = &[Self::Cpu, Self::Cuda, Self::Rocm, Self::Tpu];

    /// Name in commands and files, and key of the package with its plugin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Tpu => "tpu",
        }
    }

    /// Name of one of its devices in messages.
    pub const fn device_name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Cuda => "NVIDIA GPU",
            Self::Rocm => "AMD GPU",
            Self::Tpu => "TPU",
        }
    }

    /// Environment variables for a process that loads the plugin only to compile.
    pub const fn compile_environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Without these libtpu queries the cloud's metadata server for this machine's TPU and its neighbours, and
            // takes the lock of processes that use a TPU.
            Self::Tpu => &[
                ("TPU_SKIP_MDS_QUERY", "1"),
                ("TPU_WORKER_HOSTNAMES", "localhost"),
                ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
            ],
            Self::Cpu | Self::Cuda | Self::Rocm => &[],
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! built_in {
    ($( $name:literal ),*) => {
        const FILES: &[(&str, &str)] = &[$( ($name, include_str!(concat!($name, ".toml"))) ),*];
    };
}

built_in!(
    "cpu", "mi300x", "mi325x", "mi355x", "mi300a", "mi250x", "h100", "h200", "b200", "b300", "gb200",
    "a100-40", "a100-80", "l40s", "a6000", "rtx4090", "rtx3090", "v4", "v5e", "v5p", "v6e", "tpu7x"
);

/// The built-in device models.
///
/// # Panics
/// If a built-in file is invalid; a test reads them all.
pub fn devices() -> &'static [DeviceSpec] {
    static DEVICES: LazyLock<Vec<DeviceSpec>> = LazyLock::new(|| {
        let parse = |&(name, text): &(&str, &str)| {
            DeviceSpec::parse(name, &format!("{name}.toml"), text).unwrap_or_else(|error| panic!("{error}"))
        };
        FILES.iter().map(parse).collect()
    });
    &DEVICES
}
