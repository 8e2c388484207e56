//! Access to the files of a model's or an adapter's folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

use super::WeightsError;
use crate::base::{FileKind, read_text_bytes};

/// Path of a file in a folder, if it exists.
///
/// # Errors
/// [`WeightsError::DanglingLink`] if it is a dangling symbolic link.
pub(super) fn find(folder: &Path, file: &str) -> Result<Option<PathBuf>, WeightsError> {
    let path = folder.join(file);
    refuse_dangling(&path)?;
    Ok(path.is_file().then_some(path))
}

/// Path of a required file in a folder.
pub(super) fn require(folder: &Path, file: &'static str) -> Result<PathBuf, WeightsError> {
    find(folder, file)?.ok_or_else(|| WeightsError::MissingFile { folder: folder.to_owned(), file })
}

/// Rejects a dangling symbolic link.
///
/// # Errors
/// [`WeightsError::DanglingLink`] if `path` is one.
pub(crate) fn refuse_dangling(path: &Path) -> Result<(), WeightsError> {
    match fs::read_link(path) {
        Ok(target) if !path.exists() => Err(WeightsError::DanglingLink { path: path.to_owned(), target }),
        _ => Ok(()),
    }
}

/// Parses a JSON file, without a byte order mark at its start.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, WeightsError> {
    let bytes = read_text(path, "JSON")?;
    let parsed = serde_json::from_slice(&bytes);
    parsed.map_err(|source| match FileKind::of(&bytes) {
        found @ FileKind::Text(_) => WeightsError::Format { path: path.to_owned(), expected: "JSON", found },
        _ => WeightsError::Json { path: path.to_owned(), source },
    })
}

/// Reads a text file without its byte order mark. Content that cannot be the `expected` text is an error.
pub(super) fn read_text(path: &Path, expected: &'static str) -> Result<Vec<u8>, WeightsError> {
    refuse_dangling(path)?;
    // Text in another encoding is left to the parser, which reports the location.
    let accept = |found: &FileKind| found.is_text() || *found == FileKind::Binary;
    let io = |source| WeightsError::Io { action: "read", path: path.to_owned(), source };
    let wrong = |found| WeightsError::Format { path: path.to_owned(), expected, found };
    read_text_bytes(path, accept).map_err(io)?.map_err(wrong)
}
