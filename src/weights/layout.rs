//! Folders that hold something else than a model where one is expected: what they hold, and which path works.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::WeightsError;

/// The file `name` of a folder, if there is one.
///
/// # Errors
/// If the name is a symbolic link that leads nowhere, as an interrupted download leaves it.
pub(super) fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>, WeightsError> {
    let path = folder.join(name);
    if path.is_file() {
        return Ok(Some(path));
    }
    match fs::read_link(&path) {
        Ok(target) if !path.exists() => Err(WeightsError::DanglingLink { path, target }),
        _ => Ok(None),
    }
}

/// The file `name` of a folder that must hold it.
///
/// # Errors
/// If it does not, with what the folder seems to be.
pub(super) fn require(folder: &Path, name: &'static str) -> Result<PathBuf, WeightsError> {
    find(folder, name)?.ok_or_else(|| missing(folder, name))
}

/// The error for a folder without the file `name`.
pub(super) fn missing(folder: &Path, name: &'static str) -> WeightsError {
    let names = names(folder);
    let found = |matches: &dyn Fn(&str) -> bool| names.iter().find(|name| matches(name)).map(String::as_str);
    let explained = hub_cache(folder).or_else(|| {
        let (problem, hint) = if found(&|name| name == "adapter_config.json").is_some() {
            (
                "this folder holds an adapter and no model".to_owned(),
                "give the folder of its base model".to_owned(),
            )
        } else if let Some(gguf) = found(&|name| name.ends_with(".gguf")) {
            let file = folder.join(gguf).display().to_string();
            (format!("this folder holds GGUF files and no {name}"), format!("give the file itself: {file}"))
        } else if let Some(weights) = found(&is_pytorch) {
            let problem = format!("expected weights in safetensors, found those of PyTorch: {weights}");
            (problem, "convert them: load the model with transformers and call `save_pretrained`".to_owned())
        } else if let Some(shard) = found(&|name| name.ends_with(".safetensors"))
            && name.starts_with("model.safetensors")
        {
            let problem = format!("no {name}, though there are tensors: {shard}");
            (problem, "download the index that names the shards, model.safetensors.index.json".to_owned())
        } else {
            let inner = names.iter().map(|name| folder.join(name));
            let inner = inner.clone().find(|inner| inner.join("config.json").is_file())?;
            (format!("no {name} in this folder, but in one inside it"), format!("give {}", inner.display()))
        };
        Some((problem, hint))
    });
    match explained {
        Some((problem, hint)) => WeightsError::Layout { path: folder.to_owned(), problem, hint },
        None => WeightsError::MissingFile { folder: folder.to_owned(), file: name },
    }
}

/// What to say of the folder of a model in a hub's cache, which holds its files under `snapshots/REVISION`.
fn hub_cache(folder: &Path) -> Option<(String, String)> {
    let snapshots = names(&folder.join("snapshots"));
    let problem = "this is a model's folder in a hub's cache: its files are in a snapshot".to_owned();
    let newest = fs::read_to_string(folder.join("refs/main")).ok();
    let newest = newest.map(|revision| revision.trim().to_owned()).filter(|name| snapshots.contains(name));
    let snapshot = newest.or_else(|| snapshots.first().cloned())?;
    Some((problem, format!("give {}", folder.join("snapshots").join(snapshot).display())))
}

/// The subfolder of a folder that holds a file of this name.
pub(super) fn subfolder_with(folder: &Path, file: &str) -> Option<String> {
    names(folder).into_iter().find(|name| folder.join(name).join(file).is_file())
}

fn is_pytorch(name: &str) -> bool {
    let weights = name.starts_with("pytorch_model") || name.starts_with("consolidated");
    weights && [".bin", ".pth", ".pt"].iter().any(|end| name.ends_with(end))
}

/// The names in a folder, sorted; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error and its hint for a folder of these files without config.json.
    #[track_caller]
    fn check(files: &[&str], name: &'static str, expect: &str) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let error = require(folder.path(), name).unwrap_err();
        let text = format!("{error}\n{}", error.hint().unwrap());
        assert_eq!(text.replace(&folder.path().display().to_string(), "DIR"), expect);
    }

    #[test]
    fn folders_of_another_kind_are_named_with_the_path_that_works() {
        const CONFIG: &str = "config.json";
        check(
            &["adapter_config.json", "adapter_model.safetensors"],
            CONFIG,
            "DIR: this folder holds an adapter and no model\ngive the folder of its base model",
        );
        check(
            &["a.Q4_K_M.gguf"],
            CONFIG,
            "DIR: this folder holds GGUF files and no config.json\ngive the file itself: DIR/a.Q4_K_M.gguf",
        );
        let cache = "DIR: this is a model's folder in a hub's cache: its files are in a snapshot\n";
        check(&["snapshots/abc/config.json"], CONFIG, &format!("{cache}give DIR/snapshots/abc"));
        check(
            &["inner/config.json"],
            CONFIG,
            "DIR: no config.json in this folder, but in one inside it\ngive DIR/inner",
        );
        let weights = "model.safetensors or model.safetensors.index.json";
        check(
            &["config.json", "pytorch_model-00001-of-00002.bin"],
            weights,
            "DIR: expected weights in safetensors, found those of PyTorch: pytorch_model-00001-of-00002.bin\n\
             convert them: load the model with transformers and call `save_pretrained`",
        );
        check(
            &["config.json", "model-00001-of-00002.safetensors"],
            weights,
            "DIR: no model.safetensors or model.safetensors.index.json, though there are tensors: \
             model-00001-of-00002.safetensors\n\
             download the index that names the shards, model.safetensors.index.json",
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_link_that_leads_nowhere_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("../blobs/1", folder.path().join("config.json")).unwrap();
        let error = require(folder.path(), "config.json").unwrap_err();
        let expect = format!(
            "{}/config.json is a symbolic link to a file that does not exist: ../blobs/1",
            folder.path().display()
        );
        assert_eq!(error.to_string(), expect);
        assert!(error.hint().unwrap().starts_with("the download is incomplete"));
    }
}
