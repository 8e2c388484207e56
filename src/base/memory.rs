use serde::{Deserialize, Serialize};

/// Where an array lies while a program runs: a memory space in XLA's terms, a memory kind in PJRT's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemorySpace {
    /// The device's own.
    #[default]
    Device,
    /// The host's, pinned, so that the device reads and writes it by itself.
    Host,
}

impl MemorySpace {
    /// Both of them.
    pub const ALL: &[Self] = &[Self::Device, Self::Host];

    /// PJRT's name of the kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "pinned_host",
        }
    }

    /// XLA's number of the space, as it stands in layouts.
    pub const fn space(self) -> i64 {
        match self {
            Self::Device => 0,
            Self::Host => 5,
        }
    }
}
