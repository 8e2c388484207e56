//! Any HLO module, as its text says it.
//!
//! This level reads everything that XLA prints and prints it again: opcodes, shapes with layouts, attributes verbatim and in
//! order, metadata, schedules. It checks the grammar, and that names refer to earlier instructions and computations, but not
//! what they mean. The typed [`Module`](crate::hlo::Module), which plugins get, is stricter.

mod access;
mod attr;
mod bodies;
mod body;
mod cursor;
mod infer;
mod literal;
mod module;
mod opcode;
mod operands;
mod parse;
mod primitive;
mod print;
mod shape;
mod span;
mod task;
#[cfg(test)]
mod tests;
mod value;

pub use access::{ArrayDims, ConvolutionDims, WindowDim};
pub use attr::AttrName;
pub use module::{CompId, InstrId, InstrRef, Module, StackFrame};
pub use opcode::{Opcode, Operands};
pub use parse::parse;
pub use primitive::PrimitiveType;
pub use print::print;
pub use shape::{Array, Dimension, Layout, Shape, ShapeId, ShapeTable};
