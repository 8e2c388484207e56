use crate::{
    base::{ArrayShape, Setting},
    pjrt::PjrtError,
    step::Role,
    targets::{CudaToolkitError, Platform},
    weights::WeightsError,
};

/// What can go wrong on a device, or on the way to it.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The plugin or the device failed.
    #[error(transparent)]
    Pjrt(#[from] PjrtError),
    /// The CUDA toolkit is incomplete.
    #[error(transparent)]
    CudaToolkit(#[from] CudaToolkitError),
    /// The model's files are not right.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A value that the program needs is missing.
    #[error("the program needs `{role}`, which is not on the device")]
    Missing {
        /// Which.
        role: Role,
    },
    /// The plugin gave another number of results than the program has.
    #[error("expected {expected} results of the program, found {found}")]
    Results {
        /// What the program says.
        expected: usize,
        /// What the plugin gave.
        found: usize,
    },
    /// The target has fewer devices than it is meant to have.
    #[error("expected {expected} devices, the {platform} plugin found {found}")]
    Devices {
        /// The platform.
        platform: Platform,
        /// What the target says.
        expected: usize,
        /// What the plugin drives.
        found: usize,
    },
    /// The plugin put the partitions onto other devices than the shards lie on.
    #[error("expected the partitions on the devices {expected:?}, found them on {found:?}")]
    DeviceOrder {
        /// The devices of the shards.
        expected: Vec<i32>,
        /// The devices of the partitions.
        found: Vec<i32>,
    },
    /// A value has another shape than its role.
    #[error("expected `{role}` to be {expected}, found {found}")]
    Shape {
        /// Which.
        role: Role,
        /// What the program says.
        expected: ArrayShape,
        /// What was given.
        found: ArrayShape,
    },
    /// The plugin split a result otherwise than the program says.
    #[error("expected `{role}` to be {expected} on each device, found {found}")]
    ShardShape {
        /// Which.
        role: Role,
        /// What the program says.
        expected: ArrayShape,
        /// What the plugin gave.
        found: ArrayShape,
    },
    /// A sharding does not fit the value.
    #[error("`{role}` cannot lie as {sharding}")]
    Sharding {
        /// Which.
        role: Role,
        /// How it was to lie.
        sharding: String,
    },
}

impl RuntimeError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pjrt(error) => error.hint(),
            Self::CudaToolkit(error) => Some(error.hint()),
            Self::Weights(error) => error.hint(),
            Self::Missing { .. } => Some(
                "a run that failed takes its donated state with it: start again from the last checkpoint"
                    .into(),
            ),
            Self::Devices { .. } => Some(format!("set another {}, or check the driver", Setting::Target)),
            Self::Results { .. }
            | Self::DeviceOrder { .. }
            | Self::Shape { .. }
            | Self::ShardShape { .. }
            | Self::Sharding { .. } => None,
        }
    }
}
