//! The HLO intermediate representation, independent of models, meshes and devices.
//!
//! A [`Module`] is an arena of [`Computation`]s, a computation is an arena of [`Instr`]s. An instruction has only earlier
//! operands, and a computation calls only earlier computations. Ascending ids are therefore a topological order, and
//! recursion is impossible.
//!
//! [`ModuleBuilder`] builds modules from Rust, [`text::parse()`] from HLO text. [`verify()`] turns a module into a
//! [`Verified`] one or reports every error in it; printers, encoders and plugins take only verified modules.

mod annotations;
mod attrs;
mod builder;
mod ids;
mod infer;
mod inlined;
mod limits;
mod loops;
mod memory;
pub mod metadata;
mod module;
mod names;
mod opcode;
mod origin;
pub mod proto;
pub mod raw;
mod sharding;
pub mod shardy;
mod side_table;
mod slices;
pub mod stablehlo;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
mod tree;
mod value;
mod verify;

pub use annotations::{Annotation, Annotations};
pub use attrs::{
    Attrs, ComparisonDirection, CustomCall, DotDims, GatherDims, PadDim, ScatterDims, SideEffect, SliceDim,
    UnknownComparisonDirection,
};
pub use builder::{Builder, ModuleBuilder, Value};
pub use ids::{CompId, InstrId};
pub use infer::infer;
pub use inlined::InlinedOpName;
#[cfg(test)]
pub(crate) use limits::MAX_CALL_DEPTH;
pub use loops::Iteration;
pub use metadata::{MetadataTable, OpMetadata};
pub use module::{Alias, Computation, Instr, Module};
pub use opcode::{AttrsKind, Opcode, OpcodeClass, ShapeRule, UnknownOpcode};
pub use sharding::{Sharding, TileAssignment, Tiling};
pub use tree::ValueTree;
pub(crate) use tree::value_tree;
pub use verify::{Verified, verify};
