//! A Hugging Face folder's tensors: one safetensors file, or shards under an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    WeightsError, bitsandbytes,
    files::{self, read_json},
    layout, safetensors,
    tensor::MappedTensor,
};
use crate::base::{Diagnostic, Diagnostics, Location};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    /// File name of the shard of each tensor.
    weight_map: BTreeMap<String, String>,
    #[serde(default)]
    metadata: Value,
}

/// A folder's tensors, and warnings about its files.
#[derive(Debug)]
pub(super) struct Folder {
    pub tensors: BTreeMap<String, MappedTensor>,
    pub warnings: Vec<Diagnostic>,
}

/// Maps every tensor of the folder.
pub(super) fn open(folder: &Path) -> Result<Folder, WeightsError> {
    match (files::find(folder, SINGLE)?, files::find(folder, INDEX)?) {
        (Some(single), index) => {
            let mut warnings = Vec::new();
            if index.is_some() {
                let message =
                    format!("two sets of weights: {SINGLE} is read, {INDEX} and its shards are not");
                let diagnostic = Diagnostic::error(Location::file(folder.display().to_string()), message);
                warnings.push(diagnostic.with_hint("remove the set that is out of date"));
            }
            Ok(Folder { tensors: bitsandbytes::join(safetensors::open(&single)?)?, warnings })
        }
        (None, Some(index)) => {
            let Folder { tensors, warnings } = open_shards(folder, &index)?;
            Ok(Folder { tensors: bitsandbytes::join(tensors)?, warnings })
        }
        (None, None) => Err(layout::no_weights(folder)),
    }
}

fn open_shards(folder: &Path, index: &Path) -> Result<Folder, WeightsError> {
    let Index { weight_map, metadata } = read_json(index)?;
    let location = Location::file(index.display().to_string());
    let mut diagnostics = Diagnostics::default();
    let mut tensors: BTreeMap<String, MappedTensor> = BTreeMap::new();
    let mut shard_of: BTreeMap<String, &str> = BTreeMap::new();
    let mut absent = BTreeSet::new();
    for shard in weight_map.values().collect::<BTreeSet<_>>() {
        let path = match shard_path(folder, shard) {
            Some(path) => path,
            None => {
                let message = format!("a shard outside of the folder: {shard}");
                diagnostics.push(Diagnostic::error(location.clone(), message));
                absent.insert(shard);
                continue;
            }
        };
        files::refuse_dangling(&path)?;
        if !path.is_file() {
            diagnostics.push(
                Diagnostic::error(location.clone(), format!("missing shard: {shard}"))
                    .with_hint("download the shard, or remove what the index names beyond the model"),
            );
            absent.insert(shard);
            continue;
        }
        for (name, tensor) in safetensors::open(&path)? {
            match tensors.get(&name) {
                Some(other) => {
                    let files = format!("{} and {}", other.path().display(), path.display());
                    diagnostics.push(Diagnostic::error(
                        location.clone().at(name),
                        format!("in two shards: {files}"),
                    ));
                }
                None => {
                    shard_of.insert(name.clone(), shard);
                    tensors.insert(name, tensor);
                }
            }
        }
    }
    for (name, shard) in weight_map.iter().filter(|(_, shard)| !absent.contains(shard)) {
        if shard_of.get(name) != Some(&shard.as_str()) {
            diagnostics.push(Diagnostic::error(
                location.clone().at(name),
                format!("not in the shard the index names: {shard}"),
            ));
        }
    }
    let warnings = check_size(&metadata, &tensors, &location).into_iter().collect();
    let diagnostics = diagnostics.grouped(&location.file);
    diagnostics.into_result(Folder { tensors, warnings }).map_err(WeightsError::from)
}

/// A warning if the size of the shards is not that of the index.
fn check_size(
    metadata: &Value,
    tensors: &BTreeMap<String, MappedTensor>,
    location: &Location,
) -> Option<Diagnostic> {
    let expected = metadata.get("total_size")?.as_f64()?;
    let found: usize = tensors.values().map(|tensor| tensor.bytes.len()).sum();
    (expected != found as f64).then(|| {
        let message = format!("expected {expected} bytes of tensors, the shards hold {found}");
        let diagnostic = Diagnostic::error(location.clone().at("metadata.total_size"), message);
        diagnostic.with_hint("check that index and shards are of the same model and version")
    })
}

/// Path of a shard; `None` if it is outside of the folder.
fn shard_path(folder: &Path, shard: &str) -> Option<PathBuf> {
    let path = Path::new(shard);
    let inside = path.components().all(|component| matches!(component, Component::Normal(_)));
    (inside && !shard.is_empty()).then(|| folder.join(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{base::Literal, weights::write_safetensors};

    fn shard(folder: &Path, file: &str, names: &[&str]) {
        let tensors = names.iter().map(|name| ((*name).to_owned(), Literal::f32s([1], &[1.0]))).collect();
        write_safetensors(&folder.join(file), &tensors, &BTreeMap::new()).unwrap();
    }

    fn check(index: &str, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        shard(folder.path(), "1.safetensors", &["a", "b"]);
        shard(folder.path(), "2.safetensors", &["b", "c"]);
        shard(folder.path(), "3.safetensors", &["d"]);
        fs::write(folder.path().join(INDEX), format!("\u{feff}{{\"weight_map\": {index}}}")).unwrap();
        match open(folder.path()) {
            Ok(folder) => assert_eq!(folder.tensors.keys().collect::<Vec<_>>(), expect),
            Err(error) => {
                let text = error.to_string().replace(&format!("{}/", folder.path().display()), "");
                assert_eq!(text.lines().collect::<Vec<_>>(), expect);
            }
        }
    }

    #[test]
    fn shards_are_put_together() {
        check(r#"{"a": "1.safetensors", "b": "1.safetensors", "d": "3.safetensors"}"#, &["a", "b", "d"]);
    }

    #[test]
    fn an_index_that_does_not_fit_its_shards_is_refused() {
        check(
            r#"{"a": "4.safetensors", "d": "../3.safetensors"}"#,
            &[
                "model.safetensors.index.json: a shard outside of the folder: ../3.safetensors",
                "model.safetensors.index.json: missing shard: 4.safetensors",
                "  hint: download the shard, or remove what the index names beyond the model",
            ],
        );
        check(
            r#"{"a": "1.safetensors", "c": "1.safetensors"}"#,
            &["model.safetensors.index.json: `c`: not in the shard the index names: 1.safetensors"],
        );
        check(
            r#"{"a": "1.safetensors", "c": "2.safetensors"}"#,
            &["model.safetensors.index.json: `b`: in two shards: 1.safetensors and 2.safetensors"],
        );
    }

    #[test]
    fn which_set_was_read_and_a_wrong_size_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let warnings = || open(folder.path()).unwrap().warnings;
        fs::create_dir(folder.path().join("sub")).unwrap();
        shard(folder.path(), "sub/1.safetensors", &["a", "b"]);
        let index = |size| {
            format!(r#"{{"metadata": {{"total_size": {size}}}, "weight_map": {{"a": "sub/1.safetensors"}}}}"#)
        };
        fs::write(folder.path().join(INDEX), index(8)).unwrap();
        assert_eq!(warnings(), []);
        fs::write(folder.path().join(INDEX), index(9)).unwrap();
        assert_eq!(warnings()[0].message, "expected 9 bytes of tensors, the shards hold 8");
        shard(folder.path(), SINGLE, &["c"]);
        let expect = "two sets of weights: model.safetensors is read, model.safetensors.index.json and its shards are not";
        assert_eq!(warnings()[0].message, expect);
        assert!(open(folder.path()).unwrap().tensors.contains_key("c"));
    }

    #[test]
    fn a_folder_without_weights_says_what_it_should_hold() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path()).unwrap_err();
        let expect = "no model.safetensors or model.safetensors.index.json in folder: ";
        assert_eq!(error.to_string(), format!("{expect}{}", folder.path().display()));
        assert!(error.hint().unwrap().contains("config.json"));
    }
}
