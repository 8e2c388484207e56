//! Resolves settings: defaults, and checks of values.

mod values;

mod batch;

mod devices;

mod lora;

mod optimizer;

mod step_options;

mod run;

#[cfg(test)]
mod tests;

pub use batch::{BatchShape, BatchShards, DataSource, batch_shape, packing};
pub use devices::{devices, load_mesh, target};
pub use lora::{lora, lora_plan};
pub use optimizer::{max_grad_norm, optimizer, schedule};
pub use run::{data, run_settings};
pub use step_options::{base_storage, options, settings_of_options};
