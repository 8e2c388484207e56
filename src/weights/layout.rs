//! Errors for paths that are not a model or an adapter: what was found, and the path to use.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{WeightsError, error::MODEL, files::read_json};
use crate::base::FileKind;

/// Limit of folder entries that are read.
const MAX_ENTRIES: usize = 1000;

pub(super) const CONFIG: &str = "config.json";
pub(super) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// The error for a folder without config.json as a model.
pub(super) fn not_a_model(folder: &Path) -> WeightsError {
    if folder.join(ADAPTER_CONFIG).is_file() {
        let config: Option<Value> = read_json(&folder.join(ADAPTER_CONFIG)).ok();
        let base = config.and_then(|config| config["base_model_name_or_path"].as_str().map(str::to_owned));
        let base = base.map_or("its base model".to_owned(), |base| format!("its base model, {base},"));
        let hint = format!("give {base} as the model, and this folder as the adapter");
        return layout(
            folder,
            "an adapter without its model: found adapter_config.json and no config.json",
            hint,
        );
    }
    let missing = WeightsError::MissingFile { folder: folder.to_owned(), file: CONFIG };
    elsewhere(folder, CONFIG).unwrap_or_else(|| match gguf_files(folder) {
        files if files.is_empty() => missing,
        files => layout(folder, "no config.json, but GGUF files", give(&files)),
    })
}

/// The error for a path without adapter_config.json as an adapter.
pub(super) fn not_an_adapter(path: &Path) -> WeightsError {
    if path.is_file() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let hint = format!("give the folder that holds it: {}", folder.display());
        return layout(path, "expected the folder of an adapter, found a file", hint);
    }
    if path.join(CONFIG).is_file() {
        let hint =
            "give it as the model, or the folder of an adapter that holds adapter_config.json".to_owned();
        return layout(path, "a model, not an adapter: found config.json and no adapter_config.json", hint);
    }
    let missing = WeightsError::MissingFile { folder: path.to_owned(), file: ADAPTER_CONFIG };
    elsewhere(path, ADAPTER_CONFIG).unwrap_or(missing)
}

/// The error for a file that is not GGUF as a model.
pub(super) fn not_a_model_file(path: &Path) -> Result<WeightsError, WeightsError> {
    let kind = FileKind::of_file(path);
    let found = kind.map_err(|source| WeightsError::Io { action: "read", path: path.to_owned(), source })?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if found == FileKind::Safetensors && folder.join(CONFIG).is_file() {
        let hint = format!("give the folder that holds it: {}", folder.display());
        return Ok(layout(
            path,
            "expected a Hugging Face folder or a GGUF file, found a safetensors file",
            hint,
        ));
    }
    Ok(WeightsError::Format { path: path.to_owned(), expected: MODEL, found })
}

/// The error for a folder with config.json without supported weights.
pub(super) fn no_weights(folder: &Path) -> WeightsError {
    let names = names(folder);
    let ends = |ends: &[&str]| names.iter().find(|name| ends.iter().any(|end| name.ends_with(end)));
    let other = ends(&[".safetensors"]);
    let (found, hint) = if let Some(name) = other.filter(|name| name.contains("-of-")) {
        (name, "download model.safetensors.index.json too, which says what is in the shards".to_owned())
    } else if let Some(name) = other.filter(|name| *name != "adapter_model.safetensors") {
        (name, "if these are the model's weights, rename the file to model.safetensors".to_owned())
    } else if let Some(name) = ends(&[".gguf"]) {
        (name, format!("give the GGUF file itself: {}", folder.join(name).display()))
    } else if let Some(name) = ends(&[".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"]) {
        let hint = "convert the weights to safetensors: load the model with transformers and call `save_pretrained` \
                    with a new folder";
        (name, hint.to_owned())
    } else {
        let file = "model.safetensors or model.safetensors.index.json";
        return WeightsError::MissingFile { folder: folder.to_owned(), file };
    };
    layout(folder, &format!("no model.safetensors or model.safetensors.index.json, found {found}"), hint)
}

/// The error for a hub's cache, or for a folder with the file in a subfolder.
fn elsewhere(folder: &Path, file: &str) -> Option<WeightsError> {
    let snapshots = folder.join("snapshots");
    if snapshots.is_dir() {
        let main = fs::read_to_string(folder.join("refs/main")).ok().map(|hash| snapshots.join(hash.trim()));
        let found = match main.filter(|main| main.join(file).exists()) {
            Some(main) => vec![main],
            None => holding(&snapshots, file),
        };
        return Some(match &found[..] {
            [] => layout(
                folder,
                "a hub's cache without a complete snapshot",
                "download the model again".to_owned(),
            ),
            found => layout(folder, "a hub's cache, expected one of its snapshots", give(found)),
        });
    }
    let found = holding(folder, file);
    (!found.is_empty()).then(|| layout(folder, &format!("no {file} here, but in a subfolder"), give(&found)))
}

/// Subfolders with a file, sorted.
fn holding(folder: &Path, file: &str) -> Vec<PathBuf> {
    names(folder).iter().map(|name| folder.join(name)).filter(|path| path.join(file).is_file()).collect()
}

fn gguf_files(folder: &Path) -> Vec<PathBuf> {
    names(folder).iter().filter(|name| name.ends_with(".gguf")).map(|name| folder.join(name)).collect()
}

/// Names of the entries of a folder, sorted, without those that are not UTF-8.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn give(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
    let more = if paths.len() > shown.len() { ", ..." } else { "" };
    format!("give {}{more}", shown.join(" or "))
}

fn layout(path: &Path, problem: &str, hint: String) -> WeightsError {
    WeightsError::Layout { path: path.to_owned(), problem: problem.to_owned(), hint }
}
