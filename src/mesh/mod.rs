//! How tensors are sharded over a mesh of devices.
//!
//! A mesh config is a TOML file. `[mesh]` names the axes with their sizes; `[store]` maps named dimensions of parameters,
//! adapters and optimizer state to axes, `[compute]` those of batches and activations:
//!
//! ```
//! use std::path::Path;
//!
//! use hloom::{
//!     base::DType,
//!     mesh,
//!     model::{Config, LoraSpec},
//!     step::{self, Packing, Workload},
//! };
//!
//! let loaded = mesh::parse(
//!     r#"
//!     [mesh]
//!     fsdp = 4
//!     tensor = 2
//!
//!     [store]
//!     embed = "fsdp"              # ZeRO-3: gathered where it is used
//!     heads = "tensor"
//!     kv_heads = "tensor"
//!
//!     [compute]
//!     batch = "fsdp"
//!     heads = "tensor"
//!     kv_heads = "tensor"
//!
//!     [[override]]                # of single parameters
//!     param = "lm_head"
//!     dims = { embed = "none" }
//!     "#,
//!     Path::new("mesh.toml"),
//! );
//! let config = Config::builtin("llama3.1-8b")?;
//! let lora = LoraSpec::all_linear(16, 32.0).resolve(&config)?;
//! let workload =
//!     Workload::new(&config, &lora, DType::BF16, 8, 2048);
//! // Every problem of the config for this workload is reported at once.
//! let plan = loaded.plan(&step::tensors(workload), 8)?;
//! let query = plan.get("model.layers.*.self_attn.q_proj.weight").unwrap();
//! assert_eq!(query.shard_shape().to_string(), "bf16[32,16,128,1024]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/mesh-configs.md` describes every table and key. Nothing here knows a model or a plugin: the caller passes the tensors
//! and the number of devices.

mod code;
mod config;
mod dim;
mod logical;
mod read;

mod grid;
mod names;
mod rules;
mod tensor;

mod annotate;
mod assign;
mod check;
mod explain;
mod print;
mod warning;

#[cfg(test)]
mod tests;

pub use annotate::annotate;
pub use assign::{DimSharding, TensorSharding, Violation, assign};
pub use check::{DeviceBytes, MeshReport, Plan, PolicyNote, Replicated, check};
pub use code::MeshCode;
pub use config::{AxisConfig, AxisSize, MeshConfig, OnViolation, Override, Policy, Rule};
pub use dim::Dim;
pub use explain::{explain, find_matching};
pub use grid::{Mesh, MeshAxis};
pub use logical::{LogicalSharding, RuleSet, WithLogicalSharding, last_logical_sharding};
pub use names::{in_computation, matches, short};
pub use read::{Loaded, load, parse};
pub use rules::Rules;
pub use tensor::{Tensor, TensorGroup};
pub use warning::explain_warnings;
