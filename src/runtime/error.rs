use crate::{
    base::{ArrayShape, Setting},
    hlo::stablehlo::StablehloError,
    pjrt::PjrtError,
    step::Role,
    targets::{CudaToolkitError, Platform},
    weights::WeightsError,
};

/// Error of a step on devices.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The plugin or the device failed.
    #[error(transparent)]
    Pjrt(#[from] PjrtError),
    /// The CUDA toolkit is incomplete.
    #[error(transparent)]
    CudaToolkit(#[from] CudaToolkitError),
    /// The program has no form in StableHLO.
    #[error(transparent)]
    Stablehlo(#[from] StablehloError),
    /// A model file is invalid.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A value that the program needs is missing.
    #[error("missing value of `{role}`, which the program needs")]
    Missing {
        /// The role.
        role: Role,
    },
    /// The plugin returned another number of results than the program has.
    #[error("expected {expected} results of the program, found {found}")]
    Results {
        /// Number of results of the program.
        expected: usize,
        /// Number of results returned.
        found: usize,
    },
    /// The plugin finds fewer devices than the target has.
    #[error("expected {expected} devices, the {platform} plugin found {found}")]
    Devices {
        /// The platform.
        platform: Platform,
        /// Number of devices of the target.
        expected: usize,
        /// Number of devices of the plugin.
        found: usize,
    },
    /// The partitions are not on the devices of the shards.
    #[error("expected partitions on the devices {expected:?}, found {found:?}")]
    DeviceOrder {
        /// The devices of the shards.
        expected: Vec<i32>,
        /// The devices of the partitions.
        found: Vec<i32>,
    },
    /// A value has another shape than its role.
    #[error("expected `{role}` to be {expected}, found {found}")]
    Shape {
        /// The role.
        role: Role,
        /// Shape in the program.
        expected: ArrayShape,
        /// Shape of the value.
        found: ArrayShape,
    },
    /// A shard of a result has an unexpected shape.
    #[error("expected `{role}` to be {expected} on each device, found {found}")]
    ShardShape {
        /// The role.
        role: Role,
        /// Shape in the program.
        expected: ArrayShape,
        /// Shape of the shard.
        found: ArrayShape,
    },
    /// A sharding does not apply to the shape of the value.
    #[error("invalid sharding of `{role}`: {sharding}")]
    Sharding {
        /// The role.
        role: Role,
        /// Its sharding.
        sharding: String,
    },
}

impl RuntimeError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pjrt(error) => error.hint(),
            Self::CudaToolkit(error) => Some(error.hint()),
            Self::Stablehlo(error) => Some(error.hint().to_owned()),
            Self::Weights(error) => error.hint(),
            Self::Missing { .. } => {
                Some("donated state is lost when a run fails: continue from the last checkpoint".into())
            }
            Self::Devices { .. } => Some(format!("set another {}, or check the driver", Setting::Target)),
            Self::Results { .. }
            | Self::DeviceOrder { .. }
            | Self::Shape { .. }
            | Self::ShardShape { .. }
            | Self::Sharding { .. } => None,
        }
    }
}
