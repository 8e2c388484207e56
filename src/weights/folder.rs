//! A Hugging Face folder's tensors: one safetensors file, or shards under an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;

use super::{WeightsError, json::read_json, safetensors, tensor::MappedTensor};
use crate::base::{Finding, Findings, Place};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    /// Tensor name to the file that holds it.
    weight_map: BTreeMap<String, String>,
}

/// Maps every tensor of the folder.
pub(super) fn open(folder: &Path) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
    let single = folder.join(SINGLE);
    if single.exists() {
        return safetensors::open(&single);
    }
    let index = folder.join(INDEX);
    if index.exists() {
        return open_shards(folder, &index);
    }
    Err(WeightsError::MissingFile {
        folder: folder.to_owned(),
        file: "model.safetensors or model.safetensors.index.json",
    })
}

fn open_shards(folder: &Path, index: &Path) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
    let Index { weight_map } = read_json(index)?;
    let place = Place::file(index.display().to_string());
    let mut findings = Findings::default();
    let mut tensors: BTreeMap<String, MappedTensor> = BTreeMap::new();
    let mut absent = BTreeSet::new();
    for shard in weight_map.values().collect::<BTreeSet<_>>() {
        let Some(path) = shard_path(folder, shard).filter(|path| path.is_file()) else {
            findings.push(
                Finding::new(place.clone(), format!("the folder has no such shard: {shard}"))
                    .with_hint("download the shard, or remove what the index names beyond the model"),
            );
            absent.insert(shard);
            continue;
        };
        for (name, tensor) in safetensors::open(&path)? {
            match tensors.get(&name) {
                Some(other) => {
                    let files = format!("{} and {}", other.path().display(), path.display());
                    findings.push(Finding::new(place.clone().at(name), format!("in two shards: {files}")));
                }
                None => {
                    tensors.insert(name, tensor);
                }
            }
        }
    }
    for (name, shard) in weight_map.iter().filter(|(_, shard)| !absent.contains(shard)) {
        let found = tensors.get(name).and_then(|tensor| tensor.path().file_name());
        if found.is_none_or(|file| file != shard.as_str()) {
            findings.push(Finding::new(
                place.clone().at(name),
                format!("not in the shard the index names: {shard}"),
            ));
        }
    }
    findings.into_result(tensors).map_err(WeightsError::from)
}

/// The shard inside the folder; an index may not lead out of it.
fn shard_path(folder: &Path, shard: &str) -> Option<PathBuf> {
    let path = Path::new(shard);
    let plain = matches!(path.components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    plain.then(|| folder.join(path))
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
            Ok(tensors) => assert_eq!(tensors.keys().collect::<Vec<_>>(), expect),
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
                "model.safetensors.index.json: the folder has no such shard: ../3.safetensors",
                "  hint: download the shard, or remove what the index names beyond the model",
                "model.safetensors.index.json: the folder has no such shard: 4.safetensors",
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
    fn a_folder_without_weights_says_what_it_should_hold() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path()).unwrap_err();
        let expect = "no model.safetensors or model.safetensors.index.json in folder: ";
        assert_eq!(error.to_string(), format!("{expect}{}", folder.path().display()));
        assert!(error.hint().unwrap().contains("config.json"));
    }
}
