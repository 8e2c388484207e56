use std::path::PathBuf;

use crate::{
    base::{Diagnostics, Setting},
    data::DataError,
    pjrt::PjrtError,
    runtime::RuntimeError,
    step::StepError,
    weights::WeightsError,
};

/// An error of training, evaluation, parity or generation.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Problems of a config, a model, an adapter or a mesh.
    #[error(transparent)]
    Diagnostics(#[from] Diagnostics),
    /// Invalid samples, tokenizer or chat template.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Invalid model or adapter files.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A model without a usable tokenizer.
    #[error("no usable tokenizer in {}", path.display())]
    Tokenizer {
        /// The model's folder or file.
        path: PathBuf,
        /// The error, with the file.
        source: DataError,
    },
    /// A checkpoint that a run cannot resume from.
    #[error("cannot resume from {}", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The error.
        source: WeightsError,
    },
    /// A step that cannot be built.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A failure of the device.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file that cannot be written or read.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// The operation: `read`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A setting with an invalid value.
    #[error("{setting}: {problem}")]
    Setting {
        /// The setting.
        setting: Setting,
        /// The value found and the value expected.
        problem: String,
        /// A way to fix it.
        hint: Option<String>,
    },
    /// An output folder that already contains an adapter.
    #[error("the output folder already contains an adapter: {}", .0.display())]
    Occupied(PathBuf),
    /// An output folder that another run is writing to.
    #[error("another run is writing to the output folder: {}", .0.display())]
    InUse(PathBuf),
    /// A result that is NaN or infinite.
    #[error("not a finite number: {what}")]
    NotFinite {
        /// The value.
        what: String,
    },
    /// A training run whose loss or gradients are not finite.
    #[error("step {step}: the loss is {loss} and the gradient norm is {grad_norm}")]
    Diverged {
        /// Counted from one.
        step: usize,
        /// Mean loss.
        loss: f32,
        /// Before clipping.
        grad_norm: f32,
    },
}

impl TrainError {
    /// A way to fix it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Diagnostics(_) | Self::Io { .. } => None,
            Self::Data(error) | Self::Tokenizer { source: error, .. } => error.hint(),
            Self::Weights(error) => error.hint(),
            Self::Step(error) => error.hint(),
            Self::Runtime(error) => error.hint(),
            Self::Setting { hint, .. } => hint.clone(),
            Self::Checkpoint { .. } => Some(format!(
                "start a new run in another folder, with {} and without {}",
                Setting::Out,
                Setting::Resume
            )),
            Self::NotFinite { .. } => {
                Some("the adapter or the weights are damaged, or the learning rate is too high".into())
            }
            Self::Occupied(_) => Some(format!(
                "set another folder with {}, or continue the run in it with {}",
                Setting::Out,
                Setting::Resume
            )),
            Self::InUse(_) => {
                Some(format!("wait until it has ended, or set another folder with {}", Setting::Out))
            }
            Self::Diverged { .. } => Some(format!(
                "the output folder keeps the last finite state; start again with a lower {} or more {}",
                Setting::Lr,
                Setting::Warmup
            )),
        }
    }
}

impl From<PjrtError> for TrainError {
    fn from(error: PjrtError) -> Self {
        Self::Runtime(error.into())
    }
}
