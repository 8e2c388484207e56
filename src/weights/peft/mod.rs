//! LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.

mod adapter;

mod config;
mod fit;
mod patterns;

pub use adapter::{Adapter, read_adapter, write_adapter};
pub use config::{AdapterConfig, TargetModules};
pub use patterns::Patterns;
