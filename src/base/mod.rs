//! Layer 0: what every other layer speaks of. Element types, shapes, host values, the names of tensor
//! dimensions, places in source files and the problems found there.

mod dim;
mod dtype;
mod finding;
mod group;
mod hex;
mod lines;
mod literal;
mod memory;
pub mod output;
mod partitioner;
mod shape;
mod sniff;
mod tag;
mod text;

pub use dim::Dim;
pub use dtype::DType;
pub use finding::{Finding, Findings, Place, nearest};
pub use hex::hex;
pub use lines::LineIndex;
pub use literal::Literal;
pub use memory::Memory;
pub use partitioner::Partitioner;
pub use shape::{ArrayShape, Shape};
pub use sniff::FileKind;
pub use tag::{Tag, Use};
pub use text::{read_text, read_text_bytes};
