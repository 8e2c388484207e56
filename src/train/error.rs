use std::path::PathBuf;

use crate::{
    base::Diagnostics,
    data::DataError,
    pjrt::PjrtError,
    runtime::compile_worker::{CompileWorkerError, StartError},
    runtime::{DeviceMeshError, RuntimeError, bundle::BundleError},
    step::StepError,
    store::StoreError,
    weights::WeightsError,
};

/// What can stop a command.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Several problems of a config, a model or an adapter.
    #[error(transparent)]
    Diagnostics(#[from] Diagnostics),
    /// The data are not right.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model's files are not right.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The model's tokenizer or chat template is not right.
    #[error("no usable tokenizer in {}", path.display())]
    Tokenizer {
        /// The model's folder or file.
        path: PathBuf,
        /// Which part of it, and why.
        source: DataError,
    },
    /// A run cannot go on from its checkpoint.
    #[error("cannot resume from {}", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        source: WeightsError,
    },
    /// The templates are not right.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A package is missing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle is not right.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A plugin could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Nothing could be compiled.
    #[error("{target}: {source}")]
    Compile {
        /// The target.
        target: String,
        /// Why.
        source: CompileWorkerError,
    },
    /// The devices cannot be used so.
    #[error("--target: {0}")]
    Target(#[from] DeviceMeshError),
    /// The device failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file could not be written or read.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A setting is not possible.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What would be right.
        hint: Option<String>,
    },
    /// The output folder holds an adapter already.
    #[error("the output folder already holds an adapter: {}", .0.display())]
    Occupied(PathBuf),
    /// Another run writes to the output folder.
    #[error("another run is writing to the output folder: {}", .0.display())]
    InUse(PathBuf),
    /// A result is not a number that anyone could use.
    #[error("not a finite number: {what}")]
    NotFinite {
        /// What it is.
        what: String,
    },
    /// Training has left the finite numbers.
    #[error("step {step}: the loss is {loss} and the norm of the gradients {grad_norm}")]
    Diverged {
        /// Counted from one.
        step: usize,
        /// Mean loss.
        loss: f32,
        /// Before clipping.
        grad_norm: f32,
    },
}

/// Whose fault it is, for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The answer is no.
    Answer,
    /// What was given is not right.
    Input,
    /// A plugin or a device failed.
    Device,
}

impl TrainError {
    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self {
            // A path that holds no plugin was given by the user; what a plugin then does was not.
            Self::Runtime(RuntimeError::Pjrt(error)) | Self::Start(StartError::Plugin(error))
                if error.is_wrong_file() =>
            {
                Class::Input
            }
            Self::Start(StartError::Platform { .. }) => Class::Input,
            Self::Runtime(RuntimeError::Weights(_)) => Class::Input,
            Self::Runtime(_) | Self::Start(_) | Self::Compile { .. } => Class::Device,
            Self::Diverged { .. } | Self::NotFinite { .. } => Class::Answer,
            Self::Diagnostics(_)
            | Self::Target(_)
            | Self::Bundle(_)
            | Self::Data(_)
            | Self::Tokenizer { .. }
            | Self::Checkpoint { .. }
            | Self::Weights(_)
            | Self::Step(_)
            | Self::Store(_)
            | Self::Io { .. }
            | Self::Setting { .. }
            | Self::Occupied(_)
            | Self::InUse(_) => Class::Input,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Diagnostics(_) | Self::Io { .. } => None,
            Self::Target(error) => error.hint(),
            Self::Bundle(error) => error.hint(),
            Self::Start(error) => error.hint(),
            Self::Compile { source, .. } => source.hint(),
            Self::Data(error) | Self::Tokenizer { source: error, .. } => error.hint(),
            Self::Checkpoint { .. } => {
                Some("start afresh in another folder, with --out and without --resume".into())
            }
            Self::NotFinite { .. } => {
                Some("the adapter or the weights are damaged, or the learning rate is too high".into())
            }
            Self::Weights(error) => error.hint(),
            Self::Step(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Runtime(error) => error.hint(),
            Self::Setting { hint, .. } => hint.clone(),
            Self::Occupied(_) => {
                Some("give another folder with --out, or go on from it with --resume".into())
            }
            Self::InUse(_) => Some("wait for its end, or give another folder with --out".into()),
            Self::Diverged { .. } => {
                Some("the output folder keeps the state from before; start again with a lower --lr or more --warmup".into())
            }
        }
    }
}

impl From<PjrtError> for TrainError {
    fn from(error: PjrtError) -> Self {
        Self::Runtime(error.into())
    }
}
