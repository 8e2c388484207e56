//! Types that every other layer uses. Element types, shapes, host arrays, diagnostics with their locations, names of
//! settings, input and output files.

pub mod codebook;
mod diagnostic;
mod diagnostic_group;
mod dtype;
mod hex;
mod lines;
mod literal;
mod location;
mod memory;
mod named_enum;
mod nd_copy;
mod nearest;
pub mod output;
mod partitioner;
mod process;
mod scheme;
mod setting;
mod shape;
mod sniff;
mod text;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use dtype::DType;
pub(crate) use hex::hex;
pub(crate) use lines::LineIndex;
pub use literal::Literal;
pub use location::Location;
pub use memory::MemorySpace;
pub(crate) use named_enum::named_enum;
pub(crate) use nd_copy::{ArrayWindow, at_origin, copy_window, full_window};
pub use nearest::did_you_mean;
pub(crate) use nearest::{nearest, nearest_hint};
pub use partitioner::Partitioner;
pub(crate) use process::KillOnDrop;
pub use scheme::{Extent, Part, PartFormat, Scheme};
pub use setting::{Setting, command};
pub use shape::{ArrayShape, Shape};
pub use sniff::FileKind;
pub(crate) use sniff::MAX_SAFETENSORS_HEADER;
pub(crate) use text::{read_text, read_text_bytes, wrong_format};
