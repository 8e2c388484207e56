//! Reading of serialized modules.

use prost::bytes::Bytes;

use super::{
    file,
    text_module::{self, AsyncOps},
    unread::unread,
};
use crate::{
    base::{Diagnostic, Diagnostics, Location},
    hlo::raw::{module::Module, parse::parse},
};

/// A module that was read from a proto.
#[derive(Debug)]
pub struct FromProto {
    /// The module.
    pub module: Module,
    /// Computations of the message, with those that async ops wrap.
    pub num_computations: usize,
    /// Instructions of all computations of the message.
    pub num_instructions: usize,
    /// A warning for each field of the file that is unknown or has no place in HLO text.
    pub warnings: Diagnostics,
}

/// Reads a module from a serialized `HloModuleProto`, or a message around one: `HloProto`, `HloSnapshot`,
/// `HloUnoptimizedSnapshot` or `HloModuleProtoWithConfig`, as its text that XLA prints. `file` names it in errors.
///
/// # Errors
/// Bytes that are no such message, ids that are not defined, names and values that HLO text cannot say, and what
/// [`parse`] refuses of the text. Lines and columns of the latter are those of the text.
pub fn from_proto(bytes: &[u8], file: &str, async_ops: AsyncOps) -> Result<FromProto, Diagnostics> {
    let bytes = Bytes::copy_from_slice(bytes);
    let invalid = |error: prost::DecodeError| {
        let message = format!("expected a serialized HloModuleProto: {error}");
        let hint = "HLO text and StableHLO have readers of their own";
        Diagnostic::error(Location::file(file), message).with_hint(hint)
    };
    let read = file::decode(&bytes).map_err(invalid)?;
    let mut warnings = unread(&bytes, read.message, file);
    let (text, left_out) = text_module::text(&read.module, read.config.as_ref(), async_ops, file)?;
    let computations = &read.module.computations;
    let num_computations = computations.len();
    let num_instructions = computations.iter().map(|computation| file::num_instructions(computation)).sum();
    drop((bytes, read));
    for (count, what) in [
        (left_out.wrapped, "instructions that async ops start have metadata of their own"),
        (left_out.spellings, "async ops are spelled like opcodes, such as `all-gather-start`"),
    ] {
        if count > 0 {
            let message = format!("{count} {what}, which the text of XLA does not tell apart");
            warnings.push(Diagnostic::warning(Location::file(file), message));
        }
    }
    Ok(FromProto { module: parse(text, file)?, num_computations, num_instructions, warnings })
}
