//! `HloModuleProto`, one of the formats in which plugins take a module.
//!
//! The messages are those parts of XLA's `hlo.proto` and `xla_data.proto` that the IR represents.

mod decode;
mod decode_attrs;
mod decode_shape;
mod encode;
mod ints;
mod messages;
mod sharding;
mod values;
mod wire;

pub use decode::{ProtoError, decode};
pub use encode::encode;
pub use values::{ComputedValue, computed_values};

#[cfg(test)]
mod tests;
