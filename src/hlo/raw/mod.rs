//! Any HLO module, as its text says it.
//!
//! This level reads everything that XLA prints and prints it again: opcodes, shapes with layouts, attributes verbatim and in
//! order, metadata, schedules. It checks the grammar, and that names refer to earlier instructions and computations, but not
//! what they mean. The typed [`Module`](crate::hlo::Module), which plugins get, is stricter.
//!
//! ```
//! use hloom::hlo::raw::{self, Opcode};
//!
//! let text = "
//! ENTRY main {
//!   x = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)
//!   start = ((bf16[8,128]), bf16[8,128], s32[]) negate-start(x)
//!   ROOT done = bf16[8,128] negate-done(start)
//! }";
//! let module = raw::parse(text, "negate.hlo")?;
//! let start = module.instructions(module.entry()).nth(1).expect("the entry has three instructions");
//! assert_eq!((start.opcode(), start.wrapped()), (Opcode::AsyncStart, Some(Opcode::Negate)));
//! assert_eq!(module.shapes().text(start.shape()), "((bf16[8,128]), bf16[8,128], s32[])");
//! # Ok::<(), hloom::base::Diagnostics>(())
//! ```

mod access;
mod attr;
mod bodies;
mod body;
mod check;
mod check_module;
mod cursor;
mod dot;
mod groups;
mod infer;
mod json;
mod literal;
mod module;
mod opcode;
mod operands;
mod parse;
mod part;
mod primitive;
mod print;
mod proto;
mod shape;
mod span;
mod task;
#[cfg(test)]
mod tests;
mod value;
mod words;

pub use access::{ArrayDims, ConvolutionDims, WindowDim};
pub use attr::AttrName;
pub use dot::dot;
pub use groups::ReplicaGroups;
pub use json::json;
pub use module::{CompId, InstrId, InstrRef, Module, StackFrame};
pub use opcode::{Opcode, Operands};
pub use parse::parse;
pub use part::part;
pub use primitive::PrimitiveType;
pub use print::print;
pub use proto::{AsyncOps, FromProto, ProtoFile, ToProto, from_proto, to_proto};
pub use shape::{Array, Dimension, Layout, Shape, ShapeId, ShapeTable};
pub(crate) use span::MAX_TEXT;
