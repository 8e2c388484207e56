//! Low-rank adapters as Python's PEFT writes and reads them: adapter_config.json beside adapter_model.safetensors.

mod adapter;

mod config;
mod fit;
mod patterns;

pub use adapter::{Adapter, read_adapter, write_adapter};
pub use config::{AdapterConfig, Targets};
pub use patterns::Patterns;
