//! What programs are compiled for: kinds of devices, described by one small file each, and how many of them stand
//! where. A user's own file is read as those that are built in are.

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

pub use device::{DeviceSpec, Hardware, TpuInfo};
pub use gpu::GpuInfo;
pub use presence::Presence;
pub use read::DeviceError;
pub use shape::TargetShape;
pub use target::{GpuMemory, Target, TargetError};

/// The kinds of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// The host's own processor.
    Cpu,
    /// GPUs of NVIDIA.
    Cuda,
    /// GPUs of AMD.
    Rocm,
    /// Google's TPUs.
    Tpu,
}

impl Platform {
    /// Every platform.
    pub const ALL: &[Platform] = &[Self::Cpu, Self::Cuda, Self::Rocm, Self::Tpu];

    /// Its name in commands and files, which is also the key of the package that brings its plugin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Tpu => "tpu",
        }
    }

    /// One of its devices, in an error.
    pub const fn device_name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Cuda => "NVIDIA GPU",
            Self::Rocm => "AMD GPU",
            Self::Tpu => "TPU",
        }
    }

    /// What the environment of a process must say before it loads the plugin only to compile.
    pub const fn compile_environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Else the plugin asks the cloud's metadata server which TPU this machine is and who its neighbours are,
            // and takes a lock that is meant for those who use a TPU.
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
    "cpu", "mi300x", "mi325x", "mi355x", "h100", "h200", "b200", "rtx4090", "v4", "v5e", "v5p", "v6e",
    "tpu7x"
);

/// The devices that need no file of the user's, by name.
///
/// # Panics
/// If a file that is built in is wrong, which a test excludes.
pub fn devices() -> &'static [DeviceSpec] {
    static DEVICES: LazyLock<Vec<DeviceSpec>> = LazyLock::new(|| {
        let parse = |&(name, text): &(&str, &str)| {
            DeviceSpec::parse(name, &format!("{name}.toml"), text).unwrap_or_else(|error| panic!("{error}"))
        };
        FILES.iter().map(parse).collect()
    });
    &DEVICES
}
