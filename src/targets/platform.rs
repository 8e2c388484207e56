use std::fmt;

use serde::{Deserialize, Serialize};

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
