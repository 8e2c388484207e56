//! A Hugging Face folder's tensors: one safetensors file, or shards under an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use serde::Deserialize;

use super::{WeightsError, json::read_json, layout, safetensors, tensor::MappedTensor};
use crate::base::{Finding, Findings, Place};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    metadata: Option<IndexMetadata>,
    /// Tensor name to the file that holds it.
    weight_map: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct IndexMetadata {
    /// Bytes of all tensors; older tools write it as a float.
    #[serde(default)]
    total_size: Option<f64>,
}

/// The tensors of a folder, and what its files leave open.
pub(super) struct Opened {
    pub tensors: BTreeMap<String, MappedTensor>,
    pub warnings: Vec<Finding>,
}

/// Maps every tensor of the folder: of model.safetensors, or else of the shards of an index, as transformers does it.
pub(super) fn open(folder: &Path) -> Result<Opened, WeightsError> {
    match (layout::find(folder, SINGLE)?, layout::find(folder, INDEX)?) {
        (Some(single), index) => {
            let place = Place::file(single.display().to_string());
            let unused = index.map(|_| {
                Finding::new(
                    place,
                    format!("used for the weights; {INDEX} beside it and its shards are not read"),
                )
                .with_hint("remove the one of them that is not meant")
            });
            Ok(Opened { tensors: safetensors::open(&single)?, warnings: unused.into_iter().collect() })
        }
        (None, Some(index)) => open_shards(folder, &index),
        (None, None) => Err(layout::missing(folder, "model.safetensors or model.safetensors.index.json")),
    }
}

fn open_shards(folder: &Path, index: &Path) -> Result<Opened, WeightsError> {
    let Index { metadata, weight_map } = read_json(index)?;
    let place = Place::file(index.display().to_string());
    let mut findings = Findings::default();
    let mut tensors: BTreeMap<String, MappedTensor> = BTreeMap::new();
    let mut absent = BTreeSet::new();
    for shard in weight_map.values().collect::<BTreeSet<_>>() {
        let found = if is_inside(shard) { layout::find(folder, shard)? } else { None };
        let Some(path) = found else {
            let hint = match layout::subfolder_with(folder, shard) {
                Some(subfolder) => format!("it is in the folder {subfolder}: move it beside the index"),
                None => "download the shard, or remove what the index names beyond the model".to_owned(),
            };
            let finding = Finding::new(place.clone(), format!("the folder has no such shard: {shard}"));
            findings.push(finding.with_hint(hint));
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
        let found = tensors.get(name).map(|tensor| tensor.path());
        if found.is_none_or(|path| path != folder.join(shard)) {
            findings.push(Finding::new(
                place.clone().at(name),
                format!("not in the shard the index names: {shard}"),
            ));
        }
    }
    let tensors = findings.grouped(&index.display().to_string()).into_result(tensors)?;
    let found: usize = tensors.values().map(|tensor| tensor.bytes.len()).sum();
    let total = metadata.and_then(|metadata| metadata.total_size);
    let differs = total.filter(|&total| total != found as f64).map(|total| {
        Finding::new(
            place.at("total_size"),
            format!("is {total}, but the shards hold {found} bytes of tensors"),
        )
        .with_hint("the index and the shards may be of different versions of the model")
    });
    Ok(Opened { tensors, warnings: differs.into_iter().collect() })
}

/// Whether a name leads to a file inside the folder; an index may not lead out of it.
fn is_inside(shard: &str) -> bool {
    let mut parts = Path::new(shard).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
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
            Ok(opened) => assert_eq!(opened.tensors.keys().collect::<Vec<_>>(), expect),
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
        let error = open(folder.path()).err().unwrap();
        let expect = "no model.safetensors or model.safetensors.index.json in folder: ";
        assert_eq!(error.to_string(), format!("{expect}{}", folder.path().display()));
        assert!(error.hint().unwrap().contains("config.json"));
    }

    #[test]
    fn what_the_files_leave_open_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |index: &str| fs::write(folder.path().join(INDEX), index).unwrap();
        let warnings = || {
            let texts =
                open(folder.path()).ok().unwrap().warnings.into_iter().map(|warning| warning.to_string());
            texts.collect::<String>().replace(&format!("{}/", folder.path().display()), "")
        };
        fs::create_dir(folder.path().join("inner")).unwrap();
        shard(folder.path(), "inner/1.safetensors", &["a", "b"]);
        let map = r#""weight_map": {"a": "inner/1.safetensors", "b": "inner/1.safetensors"}"#;
        write(&format!("{{{map}}}"));
        assert_eq!(warnings(), "");
        write(&format!(r#"{{"metadata": {{"total_size": 8.0}}, {map}}}"#));
        assert_eq!(warnings(), "");
        write(&format!(r#"{{"metadata": {{"total_size": 12}}, {map}}}"#));
        assert_eq!(
            warnings(),
            "model.safetensors.index.json: `total_size`: is 12, but the shards hold 8 bytes of tensors\n  \
             hint: the index and the shards may be of different versions of the model"
        );
        shard(folder.path(), SINGLE, &["a", "b"]);
        assert_eq!(
            warnings(),
            "model.safetensors: used for the weights; model.safetensors.index.json beside it and its shards are not \
             read\n  hint: remove the one of them that is not meant"
        );
    }
}
