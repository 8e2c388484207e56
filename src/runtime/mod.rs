//! Layer 5: a step on a device. [`Target`] says which, [`Engine`] compiles programs for it, [`State`] holds what lives
//! there between two runs: weights, adapters, optimizer.

mod engine;
mod error;
mod place;
mod target;

pub use engine::{Compiled, Engine, Results, State};
pub use error::RuntimeError;
pub use place::{check_weights, place_base, place_zeros};
pub use target::{Target, TargetError};
