use crate::{
    base::Diagnostics,
    data::DataError,
    runtime::{
        DeviceMeshError, RuntimeError,
        bundle::BundleError,
        compile_worker::{CompileWorkerError, StartError},
    },
    step::StepError,
    store::StoreError,
    templates::TemplateError,
    train::TrainError,
    weights::WeightsError,
};

/// Any error that ends a command.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An error of training, evaluation, parity or generation, or of their inputs.
    #[error(transparent)]
    Train(TrainError),
    /// A package that is missing or cannot be fetched.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An invalid bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A plugin that cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A step that does not compile.
    #[error("{target}: {source}")]
    Compile {
        /// The target.
        target: String,
        /// The error of the worker process.
        source: CompileWorkerError,
    },
    /// Devices that cannot be used.
    #[error("{}: {source}", crate::base::Setting::Target)]
    Devices {
        /// The invalid target, or the missing mesh config.
        #[from]
        source: DeviceMeshError,
    },
    /// Any other error, with its context.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// The kind of an error, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The check that was requested failed.
    Failed,
    /// Invalid arguments or input.
    Input,
    /// A plugin or a device failed.
    Device,
}

impl AppError {
    /// The kind of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            // A file that is not a plugin is a wrong argument; what a plugin does once loaded is a failure of the device.
            Self::Train(TrainError::Runtime(RuntimeError::Pjrt(error)))
            | Self::Start(StartError::Plugin(error))
                if error.is_wrong_file() =>
            {
                ErrorClass::Input
            }
            Self::Start(StartError::Platform { .. })
            | Self::Train(TrainError::Runtime(RuntimeError::Weights(_))) => ErrorClass::Input,
            Self::Train(TrainError::Runtime(_)) | Self::Start(_) | Self::Compile { .. } => ErrorClass::Device,
            Self::Train(TrainError::Diverged { .. } | TrainError::NotFinite { .. }) => ErrorClass::Failed,
            Self::Train(_) | Self::Devices { .. } | Self::Bundle(_) | Self::Store(_) | Self::Other(_) => {
                ErrorClass::Input
            }
        }
    }

    /// A remedy, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Bundle(error) => error.hint(),
            Self::Start(error) => error.hint(),
            Self::Compile { source, .. } => source.hint(),
            Self::Devices { source } => source.hint(),
            Self::Other(_) => None,
        }
    }

    /// The diagnostics, if the error is a list of diagnostics.
    pub fn diagnostics(&self) -> Option<&Diagnostics> {
        match self {
            Self::Train(
                TrainError::Diagnostics(diagnostics)
                | TrainError::Data(DataError::InvalidSamples(diagnostics))
                | TrainError::Weights(WeightsError::Problems(diagnostics))
                | TrainError::Step(
                    StepError::Build(diagnostics) | StepError::Template(TemplateError::Parse(diagnostics)),
                ),
            ) => Some(diagnostics),
            _ => None,
        }
    }
}

impl<E: Into<TrainError>> From<E> for AppError {
    fn from(error: E) -> Self {
        Self::Train(error.into())
    }
}
