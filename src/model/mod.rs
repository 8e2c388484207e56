//! Layer 3: what a Llama is. Its configuration, which of its linears are adapted, its parameters, and its mathematics
//! as a graph.

mod config;
pub mod llama;
mod lora;
pub mod nn;
mod params;

pub use config::{Config, Linear, Rope, builtin_names};
pub use lora::{Adapted, LoraPlan, LoraSpec, PeftFields, PeftModules, Scaling, Targets};
pub use params::{
    AdapterId, AdapterSpec, Factor, Features, NamedDims, Param, ParamSpec, adapter_params, base_params,
    features, layer_params, sizes,
};
