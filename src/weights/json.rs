use std::path::Path;

use serde::de::DeserializeOwned;

use super::{WeightsError, layout::refuse_dangling};
use crate::base::{FileKind, read_text_bytes};

/// Parses a JSON file; a byte order mark at its start is no part of it.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, WeightsError> {
    let bytes = read_text(path, "JSON")?;
    let parsed = serde_json::from_slice(&bytes);
    parsed.map_err(|source| match FileKind::of(&bytes) {
        found @ FileKind::Text(_) => WeightsError::Format { path: path.to_owned(), expected: "JSON", found },
        _ => WeightsError::Json { path: path.to_owned(), source },
    })
}

/// The bytes of a text file without its byte order mark. What cannot be the text that is `expected` is refused.
pub(super) fn read_text(path: &Path, expected: &'static str) -> Result<Vec<u8>, WeightsError> {
    refuse_dangling(path)?;
    // Text in another encoding is left to the parser, which names the place.
    let accept = |found: &FileKind| found.is_text() || *found == FileKind::Binary;
    let io = |source| WeightsError::Io { action: "read", path: path.to_owned(), source };
    let wrong = |found| WeightsError::Format { path: path.to_owned(), expected, found };
    read_text_bytes(path, accept).map_err(io)?.map_err(wrong)
}
