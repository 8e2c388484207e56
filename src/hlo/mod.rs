//! Layer 1: the HLO intermediate representation. It knows no model, mesh or device.
//!
//! A [`Module`] is an arena of [`Computation`]s, a computation an arena of [`Instr`]s. References point only
//! backwards: an instruction names earlier operands, a computation calls earlier computations. Ascending ids are
//! therefore a topological order, and nothing here is ever recursive in itself.
//!
//! [`ModuleBuilder`] makes modules from Rust, [`text::parse()`] from HLO text. [`verify()`] turns a module into a
//! [`Verified`] one or lists all that is wrong with it; printers, encoders and plugins take only the latter.

mod annotations;
mod attrs;
mod builder;
mod infer;
mod limits;
mod loops;
mod memory;
mod module;
mod opcode;
pub mod proto;
mod sharding;
pub mod shardy;
mod slices;
#[cfg(test)]
mod testing;
pub mod text;
mod tree;
mod value;
mod verify;

pub use annotations::{Annotation, Annotations};
pub use attrs::{
    Attrs, ComparisonDirection, CustomCall, DotDims, GatherDims, PadDim, ScatterDims, SideEffect, SliceDim,
};
pub use builder::{Builder, ModuleBuilder};
pub use infer::infer;
#[cfg(test)]
pub(crate) use limits::{MAX_CALL_DEPTH, tests::nested_calls};
pub use loops::Iteration;
pub use module::{Alias, CompId, Computation, Instr, InstrId, Module};
pub use opcode::{AttrsKind, Opcode, ShapeRule};
pub use sharding::{Sharding, TileAssignment, Tiling};
pub use tree::ValueTree;
pub(crate) use tree::value_tree;
pub use value::Value;
pub use verify::{Verified, verify};
