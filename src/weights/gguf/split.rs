//! Models in several files, as llama.cpp's `gguf-split` writes them: `NAME-00001-of-00003.gguf` and so on.

use std::path::{Path, PathBuf};

use super::{super::WeightsError, metadata::Metadata};

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
const TENSORS: &str = "split.tensors.count";

/// The files of the model, in order. The first has all metadata.
pub(super) fn paths(metadata: &Metadata) -> Result<Vec<PathBuf>, WeightsError> {
    let n_parts = metadata.size(COUNT)?.unwrap_or(1);
    if n_parts <= 1 {
        return Ok(vec![metadata.path.clone()]);
    }
    let name = metadata.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let prefix = name.strip_suffix(&format!("-of-{n_parts:05}.gguf")).and_then(|rest| {
        let (prefix, number) = rest.rsplit_once('-')?;
        (number.len() == 5 && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(prefix)
    });
    let Some(prefix) = prefix else {
        return Err(WeightsError::Setting {
            path: metadata.path.clone(),
            key: COUNT.to_owned(),
            problem: format!("expected a file name that ends in -00001-of-{n_parts:05}.gguf, found {name}"),
            hint: Some("keep the names under which the parts were published"),
        });
    };
    let mut paths = Vec::new();
    for number in 1..=n_parts {
        let part = format!("{prefix}-{number:05}-of-{n_parts:05}.gguf");
        let path = metadata.path.with_file_name(&part);
        if !path.is_file() {
            return Err(WeightsError::Setting {
                path: metadata.path.clone(),
                key: COUNT.to_owned(),
                problem: format!("expected {n_parts} parts, found none under the name {part}"),
                hint: Some("download every part of the model into one folder"),
            });
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Checks that the index of a file, from zero, is that of its name.
pub(super) fn check_part(metadata: &Metadata, index: usize, n_parts: usize) -> Result<(), WeightsError> {
    if n_parts == 1 {
        return Ok(());
    }
    for (key, expected) in [(COUNT, n_parts), (NUMBER, index)] {
        let found = metadata.required(key, metadata.size(key)?)?;
        if found != expected {
            return Err(
                metadata.wrong(key, format!("expected {expected}, as the file name says, found {found}"))
            );
        }
    }
    Ok(())
}

/// Checks that the number of tensors in all files is that in the metadata.
pub(super) fn check_tensors(metadata: &Metadata, n_tensors: usize) -> Result<(), WeightsError> {
    match metadata.size(TENSORS)? {
        Some(expected) if expected != n_tensors => {
            Err(metadata
                .wrong(TENSORS, format!("expected {expected} tensors in all parts, found {n_tensors}")))
        }
        _ => Ok(()),
    }
}

/// The error for a tensor in two files.
pub(super) fn duplicate(path: &Path, name: &str, other: &Path) -> WeightsError {
    let problem = format!("duplicate; also in {}", other.display());
    WeightsError::Tensor { path: path.to_owned(), name: name.to_owned(), problem }
}
