//! Hugging Face folders of models.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ModelFiles, QuantizedWeight, WeightsError, safetensors::write_safetensors};
use crate::base::{
    Literal,
    output::{parent, sync_folder, temporary, write_file},
};

/// Size of the tensors of a shard in bytes, above which another begins.
const SHARD: usize = 1 << 30;

/// Files that are copied from the model's folder, where it has them.
const COPIED: [&str; 6] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
];

/// Folder of further chat templates, copied too.
const TEMPLATES: &str = "additional_chat_templates";

/// A folder that is written beside its path and renamed when it is complete.
#[derive(Debug)]
pub struct FolderWriter {
    path: PathBuf,
    beside: TempDir,
    shard: BTreeMap<String, Literal>,
    /// The names in each shard that is written.
    written: Vec<Vec<String>>,
    bytes: usize,
}

impl FolderWriter {
    /// Begins a folder at `path`, whose parent exists and which does not.
    ///
    /// # Errors
    /// [`WeightsError::Io`] if `path` exists, or its parent cannot be written.
    pub fn create(path: &Path) -> Result<Self, WeightsError> {
        if path.symlink_metadata().is_ok() {
            return Err(failed("create", path)(io::ErrorKind::AlreadyExists.into()));
        }
        let beside = temporary(0o777).tempdir_in(parent(path)).map_err(failed("create", path))?;
        Ok(Self { path: path.to_owned(), beside, shard: BTreeMap::new(), written: vec![], bytes: 0 })
    }

    /// Adds a weight.
    ///
    /// # Errors
    /// If the scheme is not one of bitsandbytes' 4-bit formats, a part has another size than the scheme gives it, or a shard
    /// cannot be written.
    pub fn add_quantized(&mut self, weight: QuantizedWeight<'_>) -> Result<(), WeightsError> {
        if let Some(problem) = weight.problem() {
            let (path, name) = (self.path.clone(), weight.name.to_owned());
            return Err(WeightsError::Tensor { path, name, problem });
        }
        self.add_all(weight.tensors())
    }

    /// Adds a tensor that is not quantized.
    ///
    /// # Errors
    /// If a shard cannot be written.
    pub fn add(&mut self, name: &str, tensor: Literal) -> Result<(), WeightsError> {
        self.add_all(BTreeMap::from([(name.to_owned(), tensor)]))
    }

    /// Adds the tensors of one weight, which are not divided among shards.
    fn add_all(&mut self, tensors: BTreeMap<String, Literal>) -> Result<(), WeightsError> {
        self.bytes += size(&tensors);
        self.shard.extend(tensors);
        if size(&self.shard) >= SHARD { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), WeightsError> {
        let shard = std::mem::take(&mut self.shard);
        let path = self.beside.path().join(numbered(self.written.len()));
        write_safetensors(&path, &shard, &BTreeMap::from([("format".to_owned(), "pt".to_owned())]))?;
        self.written.push(shard.into_keys().collect());
        Ok(())
    }

    /// Writes `config` as config.json, copies the other files of `model`, then renames the folder to its path.
    ///
    /// # Errors
    /// If a file of `model` cannot be read, or one of the folder written.
    pub fn finish(mut self, model: &ModelFiles, config: &Value) -> Result<(), WeightsError> {
        if !self.shard.is_empty() {
            self.flush()?;
        }
        self.name_shards()?;
        self.write("config.json", format!("{config:#}\n").as_bytes())?;
        if model.path().is_dir() {
            self.copy_beside(model.path())?;
        } else {
            self.write("tokenizer.json", &model.tokenizer_json()?)?;
            self.write("tokenizer_config.json", format!("{:#}\n", model.tokenizer_config()?).as_bytes())?;
        }
        let Self { path, beside, .. } = self;
        let folder = beside.path().to_owned();
        fs::rename(&folder, &path).map_err(failed("create", &path))?;
        // Its path is another now: there is nothing to remove.
        let _ = beside.keep();
        sync_folder(parent(&path)).map_err(failed("create", &path))
    }

    fn copy_beside(&self, folder: &Path) -> Result<(), WeightsError> {
        let copy = |file: &str| {
            let source = folder.join(file);
            let bytes = fs::read(&source).map_err(failed("read", &source))?;
            self.write(file, &bytes)
        };
        COPIED.into_iter().filter(|file| folder.join(file).is_file()).try_for_each(copy)?;
        let Ok(entries) = fs::read_dir(folder.join(TEMPLATES)) else { return Ok(()) };
        let created = self.beside.path().join(TEMPLATES);
        fs::create_dir(&created).map_err(failed("create", &created))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .try_for_each(|name| copy(&format!("{TEMPLATES}/{name}")))
    }

    /// Gives the shards their names, which have their number in them, and writes the index if there are several.
    fn name_shards(&self) -> Result<(), WeightsError> {
        let count = self.written.len();
        let mut index = serde_json::Map::new();
        for (number, names) in self.written.iter().enumerate() {
            let file = match count {
                1 => "model.safetensors".to_owned(),
                _ => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
            };
            let from = self.beside.path().join(numbered(number));
            fs::rename(&from, self.beside.path().join(&file))
                .map_err(failed("write", &self.path.join(&file)))?;
            index.extend(names.iter().map(|name| (name.clone(), json!(file))));
        }
        if count > 1 {
            let index = json!({"metadata": {"total_size": self.bytes}, "weight_map": index});
            self.write("model.safetensors.index.json", format!("{index:#}\n").as_bytes())?;
        }
        Ok(())
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<(), WeightsError> {
        write_file(&self.beside.path().join(file), bytes).map_err(failed("write", &self.path.join(file)))
    }
}

fn numbered(shard: usize) -> String {
    format!("{shard}.safetensors")
}

fn size(tensors: &BTreeMap<String, Literal>) -> usize {
    tensors.values().map(|tensor| tensor.bytes().len()).sum()
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WeightsError {
    let path = path.to_owned();
    move |source| WeightsError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{DType, Part, Scheme},
        weights::{quantization_config, read_safetensors},
    };

    /// What transformers saved is written again from its parts, and must be the same.
    #[track_caller]
    fn check(scheme: Scheme) {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bitsandbytes").join(scheme.name());
        let expected = read_safetensors(&golden.join("model.safetensors")).unwrap();
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("quantized");
        let mut folder = FolderWriter::create(&path).unwrap();
        for (name, tensor) in &expected {
            let Some(state) = expected.get(&format!("{name}.quant_state.bitsandbytes__nf4")) else {
                let is_weight = name.ends_with("norm.weight")
                    || name.ends_with("tokens.weight")
                    || name == "lm_head.weight";
                if is_weight {
                    folder.add(name, tensor.clone()).unwrap();
                }
                continue;
            };
            let state: Value = serde_json::from_slice(state.bytes()).unwrap();
            let size = |at: usize| state["shape"][at].as_u64().unwrap() as usize;
            let offset = state["nested_offset"].as_f64().map(|offset| (offset as f32).to_le_bytes());
            let parts: Vec<&[u8]> = scheme
                .parts()
                .iter()
                .map(|format| match format.part {
                    Part::Codes => tensor.bytes(),
                    Part::Offset => offset.as_ref().unwrap(),
                    part => expected[&format!("{name}.{}", part.name())].bytes(),
                })
                .collect();
            let weight = QuantizedWeight {
                name,
                scheme,
                rows: size(0),
                columns: size(1),
                dtype: DType::F32,
                parts: &parts,
            };
            folder.add_quantized(weight).unwrap();
        }
        let model = ModelFiles::open(&golden).unwrap();
        let mut config = model.config().unwrap();
        config["quantization_config"] = quantization_config(&config, scheme);
        folder.finish(&model, &config).unwrap();
        let found = read_safetensors(&path.join("model.safetensors")).unwrap();
        assert!(found.keys().eq(expected.keys()));
        for (name, tensor) in &expected {
            if name.contains(".quant_state.") {
                let json = |tensor: &Literal| serde_json::from_slice::<Value>(tensor.bytes()).unwrap();
                assert_eq!(json(&found[name]), json(tensor), "{name}");
            } else {
                assert_eq!(&found[name], tensor, "{name}");
            }
        }
        let config: Value = serde_json::from_slice(&fs::read(path.join("config.json")).unwrap()).unwrap();
        assert_eq!(
            config["quantization_config"]["bnb_4bit_use_double_quant"],
            json!(scheme == Scheme::Nf4Double)
        );
        assert!(path.join("generation_config.json").is_file());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        let error = FolderWriter::create(&path).unwrap_err().to_string();
        assert_eq!(error, format!("cannot create {}", path.display()));
    }

    #[test]
    fn a_folder_is_what_transformers_saves() {
        check(Scheme::Nf4);
        check(Scheme::Nf4Double);
    }

    #[test]
    fn parts_of_another_size_or_scheme_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = FolderWriter::create(&parent.path().join("q")).unwrap();
        let mut check = |scheme, parts: &[&[u8]], expect: &str| {
            let weight =
                QuantizedWeight { name: "w", scheme, rows: 2, columns: 64, dtype: DType::BF16, parts };
            let error = folder.add_quantized(weight).unwrap_err().to_string();
            assert!(error.ends_with(&format!("tensor `w`: {expect}")), "{error}");
        };
        check(Scheme::Int8, &[], "expected scheme nf4 or nf4-double, found int8");
        check(Scheme::Nf4, &[&[0; 64], &[0; 4]], "expected parts of [64, 8] bytes, found [64, 4]");
    }
}
