use serde::{Deserialize, Serialize};

/// Memory space of an array while a program runs; PJRT calls it a memory kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemorySpace {
    /// Device memory.
    #[default]
    Device,
    /// Pinned host memory, which the device accesses directly.
    Host,
}

impl MemorySpace {
    /// Both spaces.
    pub const ALL: &[Self] = &[Self::Device, Self::Host];

    /// Name of the PJRT memory kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "pinned_host",
        }
    }

    /// Number of the XLA memory space, as layouts contain it.
    pub const fn space(self) -> i64 {
        match self {
            Self::Device => 0,
            Self::Host => 5,
        }
    }
}
