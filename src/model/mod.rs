//! Llama and the architectures like it: configuration, adapted linears, parameters, and layers as HLO.

pub mod arch;
mod config;
mod linear;
pub mod llama;
mod lora;
mod names;
pub mod nn;
mod params;
mod parts;
mod trainable;

pub use config::{Config, Rope, builtin_names};
pub use linear::Linear;
pub use lora::{Adapted, LoraPlan, LoraSpec, PeftFields, PeftModules, Scaling, Targets};
pub use names::{Factor, Param};
pub(crate) use params::layer_params;
pub use params::{Features, NamedDims, ParamSpec, base_params, features, sizes};
pub use parts::{BaseStorage, PartId, PartSpec};
pub use trainable::{AdapterId, FullTraining, TrainableId, TrainableSet, TrainableSpec};
pub(crate) use trainable::{adapter_params, trainable_params};
