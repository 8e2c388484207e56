//! Reverse-mode differentiation of straight-line computations.
//!
//! [`backward()`] adds the backward computation of a computation, from the cotangent of its result to those of chosen
//! parameters. Only values on paths from these parameters to the result get cotangents, so that frozen weights cost
//! nothing. Primal values are residuals or are computed again, by the [`SavePolicy`].
//!
//! Loops are not differentiated: a backward loop is written by hand around the backward computation of its body. A
//! `call` may have a custom derivative, from the [`VjpTable`].
//!
//! In the metadata of the backward computation, the operations of a cotangent are in the scope of the primal operation:
//! its `op_name` and its line. A primal value that is computed again is in the scope [`REMATTED`] besides.

mod backward;
mod error;
mod rules;
mod save_policy;
mod tape;
mod vjp_table;

pub use backward::{Backward, backward};
pub use error::AutodiffError;
pub use save_policy::{SavePolicy, forward_with_residuals};
pub use tape::REMATTED;
pub use vjp_table::VjpTable;
