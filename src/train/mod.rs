//! Uses of a step. [`run()`](run::run) trains, [`parity`] compares with reference values, [`generate`] decodes.
//! Nothing here prints: events go to an [`Observer`].

mod adapter;
pub mod checkpoint;
mod config;
mod encoded;
mod error;
mod events;
mod factors;
pub mod generate;
mod metrics;
mod model;
mod named_params;
pub mod parity;
pub mod run;
mod trainer;

pub use adapter::{OpenedAdapter, adapter_config, lora_spec, open_adapter};
pub use config::{RunConfig, RunSettings, Start};
pub use encoded::{Encoded, RunData};
pub use error::TrainError;
pub use events::{Event, Observer, StepRecord, Summary, When};
pub use factors::{TrainableValues, initial_factors, peft_tensors, stack_factors};
pub use model::{Model, model_config};
pub use named_params::named_params;
pub use trainer::{StepMetrics, Trainer};
