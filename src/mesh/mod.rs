//! Layer 2: how tensors lie on a mesh of devices.
//!
//! A mesh config is a TOML file. It names the axes of the mesh and says which of them split which named dimension: at
//! rest (`[store]`: parameters, adapters, optimizer state) and in computation (`[compute]`: batches, activations).
//! Nothing here knows a model or a plugin: the caller gives the tensors and the number of devices.

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
pub use code::Code;
pub use config::{AxisConfig, AxisSize, MeshConfig, OnViolation, Override, Policy, Rule};
pub use dim::Dim;
pub use explain::{explain, find};
pub use grid::{Mesh, MeshAxis};
pub use logical::{LogicalSharding, RuleSet, WithLogicalSharding, last_logical_sharding};
pub use names::{in_computation, matches, short};
pub use read::{Loaded, load, parse};
pub use rules::Rules;
pub use tensor::{Group, Tensor};
pub use warning::explain_warnings;
