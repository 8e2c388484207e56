//! Layer 3: what a Llama is. Its configuration, which of its linears are adapted, its parameters, and its mathematics
//! as a graph.

mod adapters;
mod config;
mod linear;
pub mod llama;
mod lora;
mod names;
pub mod nn;
mod params;

pub use adapters::{AdapterId, AdapterSpec, adapter_params};
pub use config::{Config, Rope, builtin_names};
pub use linear::Linear;
pub use lora::{Adapted, LoraPlan, LoraSpec, PeftFields, PeftModules, Scaling, Targets};
pub use names::{Factor, Param};
pub use params::{Features, NamedDims, ParamSpec, base_params, features, layer_params, sizes};
