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
mod unread;

pub use from_proto::{FromProto, from_proto};
