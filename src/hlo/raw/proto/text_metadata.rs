//! Metadata as text.

use std::fmt::Write;

use super::{
    escape::push_quoted,
    messages_data::{OpMetadata, Payload},
    text_shape::join,
};
use crate::base::Diagnostic;

/// The bytes of a payload, which are in it or in a list of the module.
pub(super) fn payload<'p>(payload: &'p Payload, payloads: &'p [Vec<u8>]) -> Result<&'p [u8], Diagnostic> {
    match (&payload.value, payload.id) {
        (Some(value), _) => Ok(value),
        (None, None) => Ok(&[]),
        (None, Some(id)) => {
            let found = usize::try_from(id).ok().and_then(|id| payloads.get(id));
            found.map(Vec::as_slice).ok_or_else(|| format!("unknown payload: {id}").into())
        }
    }
}

/// Appends `op_name="a" source_line=3`.
pub(super) fn push_metadata(
    out: &mut String,
    metadata: &OpMetadata,
    payloads: &[Vec<u8>],
) -> Result<(), Diagnostic> {
    let start = out.len();
    let mut field = |name: &str, value: &dyn std::fmt::Display| {
        let space = if out.len() == start { "" } else { " " };
        let _ = write!(out, "{space}{name}={value}");
    };
    let quoted = |text: &[u8]| {
        let mut out = String::new();
        push_quoted(&mut out, text);
        out
    };
    for (name, text) in [
        ("op_type", &metadata.op_type),
        ("op_name", &metadata.op_name),
        ("source_file", &metadata.source_file),
    ] {
        if !text.is_empty() {
            field(name, &quoted(text.as_bytes()));
        }
    }
    for (name, number) in [
        ("source_line", metadata.source_line),
        ("source_end_line", metadata.source_end_line),
        ("source_column", metadata.source_column),
        ("source_end_column", metadata.source_end_column),
    ] {
        if number != 0 {
            field(name, &number);
        }
    }
    if !metadata.profile_type.is_empty() {
        field("profile_type", &format_args!("{{{}}}", join(&metadata.profile_type)));
    }
    for (name, text) in
        [("deduplicated_name", &metadata.deduplicated_name), ("scheduling_name", &metadata.scheduling_name)]
    {
        if !text.is_empty() {
            field(name, &quoted(text.as_bytes()));
        }
    }
    if metadata.stack_frame_id != 0 {
        field("stack_frame_id", &metadata.stack_frame_id);
    }
    if let Some(found) = &metadata.metadata_payload {
        field("metadata_payload", &quoted(payload(found, payloads)?));
    }
    Ok(())
}
