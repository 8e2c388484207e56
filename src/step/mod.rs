//! Layer 4: the whole training step as one module.
//!
//! The model is a stack of equal layers, so the forward pass is one loop over it and the backward pass another, which
//! runs the backward computation of a layer. What a program takes and gives is described by its [`Slot`]s: loading,
//! donation and checkpoints go by them and by nothing else.

mod build;
mod head;
mod layer;
mod layer_slice;
mod micro;
mod options;
mod passes;
mod slots;
mod tensors;
mod update;

pub use build::{Program, StepError, StepSpec, build, slots};
pub use options::{Remat, StepOptions};
pub use slots::{Role, Slot, StepProgram};
pub use tensors::{Packing, Workload, roles, tensors};
