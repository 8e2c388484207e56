use std::{fs, path::Path};

use serde::de::DeserializeOwned;

use super::WeightsError;

/// Parses a JSON file; a byte order mark at its start is no part of it.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, WeightsError> {
    let bytes = read_text(path)?;
    serde_json::from_slice(&bytes).map_err(|source| WeightsError::Json { path: path.to_owned(), source })
}

/// The bytes of a text file without its byte order mark.
pub(super) fn read_text(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let mut bytes = fs::read(path).map_err(|source| WeightsError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}
