//! Layer 5: a step on devices. [`DeviceMesh`] says which, and how tensors lie on them; [`Engine`] compiles programs for
//! them, [`DeviceState`] holds what lives there between two runs: weights, adapters, optimizer.

pub mod bundle;
pub mod compile_worker;
mod device_mesh;
mod engine;
mod error;
mod place;
mod plugin_log;
mod sharded;

pub use device_mesh::{DeviceMesh, DeviceMeshError};
pub use engine::{CompiledStep, Engine, StepResults};
pub use error::RuntimeError;
pub use place::{check_weights, fit_config, place_base, place_zeros};
pub use sharded::{DeviceState, Sharded};
