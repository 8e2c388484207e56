use crate::{pjrt::PjrtError, step::Role, weights::WeightsError};

/// What can go wrong on a device, or on the way to it.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The plugin or the device failed.
    #[error(transparent)]
    Pjrt(#[from] PjrtError),
    /// The model's files are not right.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The program needs a value that nobody gave.
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
    /// The target has no device.
    #[error("the {platform} plugin found no device")]
    NoDevice {
        /// The platform.
        platform: String,
    },
}

impl RuntimeError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pjrt(error) => error.hint(),
            Self::Weights(error) => error.hint(),
            Self::Missing { .. } => Some(
                "a run that failed takes its donated state with it: start again from the last checkpoint"
                    .into(),
            ),
            Self::NoDevice { .. } => Some("give another --target, or check the driver".into()),
            Self::Results { .. } => None,
        }
    }
}
