//! A step on devices. A [`DeviceMesh`] is a target with its mesh config; [`Engine`] compiles and runs programs on
//! it; [`DeviceState`] is the state on the devices between two runs: weights, adapters, optimizer state.

pub mod bundle;
pub mod compile_worker;
mod device_mesh;
mod engine;
mod error;
mod place;
mod plugin_log;
mod program;
mod sharded;

pub use device_mesh::{DeviceMesh, DeviceMeshError};
pub use engine::{CompiledStep, Engine, StepResults};
pub use error::RuntimeError;
pub use place::{check_weights, fit_config, place_base, place_zeros};
pub use program::encode;
pub use sharded::{DeviceState, Sharded};
