//! Layer 0: what every other layer speaks of. Element types, shapes, host values, the names of tensor
//! dimensions, places in source files and the problems found there.

mod diagnostic;
mod dim;
mod dtype;
mod group;
mod hex;
mod lines;
mod literal;
mod logical;
mod memory;
pub mod output;
mod partitioner;
mod process;
mod shape;
mod sniff;
mod text;

pub use diagnostic::{Diagnostic, Diagnostics, Location, nearest};
pub use dim::Dim;
pub use dtype::DType;
pub use hex::hex;
pub use lines::LineIndex;
pub use literal::Literal;
pub use logical::{LogicalSharding, RuleSet};
pub use memory::MemorySpace;
pub use partitioner::Partitioner;
pub use process::KillOnDrop;
pub use shape::{ArrayShape, Shape};
pub use sniff::FileKind;
pub use text::read_text;
