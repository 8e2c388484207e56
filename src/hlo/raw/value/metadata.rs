//! Where an instruction comes from.

use super::parts::{list, skip_unknown, small_int, string};
use crate::hlo::raw::cursor::{Cursor, Parsed, SyntaxError};

/// Numbers of `xla.ProfileType`.
const PROFILE_TYPES: std::ops::Range<i128> = 0..4;

/// `{op_name="jit(f)/add" source_line=3}`. Commas between the fields are optional, unknown fields are kept.
pub(super) fn metadata(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    let mut seen: Vec<&[u8]> = Vec::new();
    while !cursor.accept(b'}')? {
        cursor.accept(b',')?;
        let span = cursor.attribute_name("a field of metadata")?;
        let name = cursor.bytes(span.range());
        if seen.contains(&name) {
            let message = format!("duplicate field `{}`", String::from_utf8_lossy(name));
            return Err(SyntaxError::new(span.start(), message));
        }
        seen.push(name);
        match name {
            b"op_type" | b"op_name" | b"source_file" | b"deduplicated_name" | b"scheduling_name"
            | b"metadata_payload" => string(cursor)?,
            b"source_line" | b"source_end_line" | b"source_column" | b"source_end_column"
            | b"stack_frame_id" => small_int(cursor)?,
            b"profile_type" => list(cursor, profile_type).map(drop)?,
            _ => skip_unknown(cursor)?,
        }
    }
    Ok(())
}

fn profile_type(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let at = *cursor;
    let found = cursor.int("a profile type")?;
    if PROFILE_TYPES.contains(&found) { Ok(()) } else { Err(at.unexpected("a profile type from 0 to 3")) }
}

/// One metadata, or a list of them in braces.
pub(super) fn metadata_or_list(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut next = *cursor;
    next.expect(b'{')?;
    next.skip_blank()?;
    if next.peek() == b'{' { list(cursor, metadata).map(drop) } else { metadata(cursor) }
}
