//! The training step as one module.
//!
//! All layers have the same computation, so the forward pass is a loop over stacked parameters, and the backward pass another
//! loop, which calls the layer's backward computation. Arguments and results are described by [`Slot`]s; loading, donation and
//! checkpoints use these, never positions.

mod build;
mod builder;
mod head;
mod inputs;
mod layer;
mod layer_slice;
mod micro;
mod options;
mod passes;
mod remat;
pub mod scopes;
mod slots;
mod spec;
mod tensors;
mod update;

pub use build::{build, slots};
pub use options::{Remat, StepOptions};
pub use slots::{Role, Slot, StepProgram};
pub use spec::{StepError, StepKind, StepSpec};
pub use tensors::{Packing, Workload, roles, tensors};
