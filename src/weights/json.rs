//! Text files of a model or an adapter, and what is there in place of them.

use std::{fs, path::Path};

use serde::de::DeserializeOwned;

use super::WeightsError;
use crate::base::FileKind;

/// Parses a JSON file; a byte order mark at its start is no part of it.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, WeightsError> {
    let bytes = read_text(path, "JSON")?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(value),
        Err(source) => match FileKind::of(start(&bytes)) {
            found @ FileKind::Text(_) => Err(wrong_format(path, "JSON", found)),
            _ => Err(WeightsError::Json { path: path.to_owned(), source }),
        },
    }
}

/// The bytes of a text file without its byte order mark. `expected` names its format.
pub(super) fn read_text(path: &Path, expected: &'static str) -> Result<Vec<u8>, WeightsError> {
    let mut bytes = fs::read(path).map_err(|source| WeightsError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    match FileKind::of(start(&bytes)) {
        FileKind::Json | FileKind::Text(_) => {}
        found => return Err(wrong_format(path, expected, found)),
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// The beginning of a file, by which its format is known.
pub(super) fn start(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(FileKind::START)]
}

pub(super) fn wrong_format(path: &Path, expected: &'static str, found: FileKind) -> WeightsError {
    WeightsError::Format { path: path.to_owned(), expected, found }
}
