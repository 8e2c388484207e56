//! `HloModuleProto`, the form in which plugins take a module.
//!
//! The messages are the part of XLA's `hlo.proto` and `xla_data.proto` that the IR can hold.

mod decode;
mod encode;
mod messages;
mod sharding;
mod values;
mod wire;

pub use decode::{ProtoError, decode};
pub use encode::encode;
pub use values::{ComputedValue, computed_values};

#[cfg(test)]
mod tests;
