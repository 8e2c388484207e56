//! Modules of the raw level as serialized protos: `HloModuleProto`, as PJRT plugins take it and as dump folders have it in
//! `*.hlo.pb`.
//!
//! A proto is read as the HLO text that XLA prints for it, with its schedule, layouts, metadata and all elements of its
//! constants. Computations are in the order of the proto, which XLA sorts when it prints.
//!
//! What the text cannot carry, and what becomes of it:
//! - Ids are new: XLA's numbering, computation by computation. Names that two computations share get numbers.
//! - Fields without a place in HLO text and fields that these messages do not know are named in a warning, with their path.
//!   Settings such as `num_partitions` are in `HloModuleProtoWithConfig`, not in `HloModuleProto`.
//! - Async ops that start one instruction have its name, its parameters' names and its metadata in
//!   [`AsyncOps::Explicit`] only. XLA prints [`AsyncOps::Sugar`], and a warning says what that leaves out.
//! - An array without a layout gets the default one, and fields that are missing get what XLA sets: precisions, group
//!   counts of convolutions, the type of a comparison, the names of parameters in `host_program_shape`.
//! - Minus zero stays minus zero, where XLA reads `-0` as zero.
//!
//! ```
//! use hloom::hlo::raw::{self, AsyncOps, ProtoFile};
//!
//! let text = "ENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x), metadata={op_name=\"n\"} }";
//! let module = raw::parse(text, "negate.hlo")?;
//! let proto = raw::to_proto(&module, ProtoFile::Module)?;
//! let again = raw::from_proto(&proto.bytes, "negate.hlo.pb", AsyncOps::Sugar)?;
//! assert!(again.warnings.is_empty());
//! let negate = again.module.instructions(again.module.entry()).last().expect("two instructions");
//! assert_eq!(negate.metadata("op_name"), Some("n"));
//! # Ok::<(), hloom::base::Diagnostics>(())
//! ```

mod describe;
mod escape;
mod file;
mod from_proto;
mod messages;
mod messages_data;
mod messages_instr;
mod number;
#[cfg(test)]
mod tests;
mod text_attrs;
mod text_common;
mod text_header;
mod text_instr;
mod text_literal;
mod text_metadata;
mod text_module;
mod text_scope;
mod text_shape;
mod text_sharding;
mod to_attrs;
mod to_header;
mod to_instr;
mod to_literal;
mod to_module;
mod to_parts;
mod to_proto;
mod to_shape;
mod to_sharding;
mod unread;
mod value;

pub use from_proto::{FromProto, from_proto};
pub use text_module::AsyncOps;
pub use to_proto::{ProtoFile, ToProto, to_proto};
