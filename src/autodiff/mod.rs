//! Reverse-mode differentiation of straight-line computations.
//!
//! [`backward()`] adds the backward computation of a computation, from the cotangent of its result to those of chosen
//! parameters. Only values on paths from these parameters to the result get cotangents, so that frozen weights cost
//! nothing. Primal values are residuals or are computed again, by the [`SavePolicy`].
//!
//! Loops are not differentiated: a backward loop is written by hand around the backward computation of its body. A
//! `call` may have a custom derivative, from the [`VjpTable`].

mod backward;
mod error;
mod rules;
mod save_policy;
mod tape;
mod vjp_table;

pub use backward::{Backward, backward};
pub use error::AutodiffError;
pub use save_policy::{SavePolicy, forward_with_residuals};
pub use vjp_table::VjpTable;
