//! Layer 6: what a user does with a step. [`run`] trains, [`parity`] compares with golden values, [`generate`] writes
//! a few tokens. Nothing here prints: what happens is told to an [`Observer`].

mod adapter;
pub mod checkpoint;
mod encoded;
mod error;
pub mod generate;
mod model;
pub mod parity;
pub mod run;
mod trainer;

pub use adapter::{
    OpenedAdapter, adapter_config, initial_factors, lora_spec, open_adapter, peft_tensors, stack_factors,
};
pub use encoded::{Encoded, RunData};
pub use error::TrainError;
pub use model::{Model, model_config};
pub use run::{Event, Observer};
pub use trainer::{StepMetrics, Trainer};
