//! Layer 5: a step on devices. [`Devices`] says which, and how tensors lie on them; [`Engine`] compiles programs for
//! them, [`State`] holds what lives there between two runs: weights, adapters, optimizer.

mod boxes;
pub mod bundle;
pub mod compile_worker;
mod devices;
mod engine;
mod error;
mod place;
mod sharded;

pub use devices::{Devices, DevicesError};
pub use engine::{Compiled, Engine, Results};
pub use error::RuntimeError;
pub use place::{check_weights, fit_config, place_base, place_zeros};
pub use sharded::{Sharded, State};
