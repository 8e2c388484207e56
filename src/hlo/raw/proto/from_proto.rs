//! Reading of serialized modules.

use prost::bytes::Bytes;

use super::{file, text_module, unread::unread};
use crate::{
    base::{Diagnostic, Diagnostics, Location},
    hlo::raw::{self, Module},
};

/// A module that was read from a proto.
#[derive(Debug)]
pub struct FromProto {
    /// The module.
    pub module: Module,
    /// A warning for each field of the file that is unknown or has no place in HLO text.
    pub warnings: Diagnostics,
}

/// Reads a module from a serialized `HloModuleProto`, or a message around one: `HloProto`, `HloSnapshot` or
/// `HloModuleProtoWithConfig`. `file` names it in errors.
///
/// # Errors
/// Bytes that are no such message, ids that are not defined, names and values that HLO text cannot say, and what
/// [`parse`](raw::parse) refuses of the text that XLA prints for the module. Lines and columns of the latter are those of that text.
pub fn from_proto(bytes: &[u8], file: &str) -> Result<FromProto, Diagnostics> {
    let (text, warnings) = proto_text(bytes, file)?;
    Ok(FromProto { module: raw::parse(text, file)?, warnings })
}

/// The HLO text of a serialized module, and the warnings of [`from_proto`].
pub(super) fn proto_text(bytes: &[u8], file: &str) -> Result<(String, Diagnostics), Diagnostics> {
    let bytes = Bytes::copy_from_slice(bytes);
    let invalid = |error: prost::DecodeError| {
        let message = format!("expected a serialized HloModuleProto: {error}");
        let hint = "HLO text and StableHLO have readers of their own";
        Diagnostic::error(Location::file(file), message).with_hint(hint)
    };
    let read = file::decode(&bytes).map_err(invalid)?;
    let warnings = unread(&bytes, read.message, file);
    let text = text_module::text(&read.module, read.config.as_ref(), file)?;
    Ok((text, warnings))
}
