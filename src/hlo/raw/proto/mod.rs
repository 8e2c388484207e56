//! Modules of the raw level as serialized protos.

mod describe;
mod escape;
mod file;
mod from_proto;
mod messages;
mod messages_data;
mod messages_instr;
mod number;
mod text_attrs;
mod text_instr;
mod text_module;
mod text_shape;
mod text_sharding;
mod to_attrs;
mod to_header;
mod to_instr;
mod to_literal;
mod to_module;
mod to_proto;
mod to_shape;
mod to_sharding;
mod unread;
mod value;

pub use from_proto::{FromProto, from_proto};
pub use text_module::AsyncOps;
pub use to_proto::{ProtoFile, ToProto, to_proto};
