//! Checkpoints: the adapters, moments, progress and settings that a run resumes from, in one file beside the adapter.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    Model, TrainError, Trainer, adapter::adapter_config, config::RunConfig, factors::TrainableValues,
};
use crate::{
    base::{ArrayShape, DType, Literal, Setting, hex},
    data::Dataset,
    model::{TrainableId, sizes},
    optim::AdamW,
    step::{Packing, Role},
    templates::TemplateLibrary,
    weights::{read_safetensors, write_safetensors},
};

const FILE: &str = "checkpoint.safetensors";
const ADAPTER: &str = "adapter_model.safetensors";
const RECORD: &str = "record";
/// The metrics file, which exists from the start of a run.
pub const METRICS: &str = "metrics.jsonl";

/// The data of a checkpoint besides tensors, stored as JSON in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Updates whose batches were consumed, including those without labels.
    pub steps: usize,
    /// Samples of these updates, repeated ones included.
    pub samples: u64,
    /// Labelled tokens of these updates.
    pub label_tokens: u64,
    /// Start of the run in seconds since the Unix epoch: chat templates may write the date.
    pub started: u64,
    /// Settings that determine what the run computes, by name. Steps and learning rates may change.
    pub settings: BTreeMap<String, String>,
}

/// A checkpoint read from disk.
#[derive(Debug)]
pub struct Saved {
    path: PathBuf,
    tensors: BTreeMap<String, Literal>,
    record: Record,
}

/// The settings that a resumed run must share, with digests of the model, replaced templates and the samples. The model is identified
/// by its contents, not by its path.
///
/// # Errors
/// If the tokenizer's files cannot be read.
pub fn settings(
    config: &RunConfig,
    model: &Model,
    templates: &TemplateLibrary,
    train: &Dataset,
) -> Result<BTreeMap<String, String>, TrainError> {
    let mut digest = Sha256::new();
    for sample in train.samples() {
        sample.ids.iter().for_each(|id| digest.update(id.to_le_bytes()));
        sample.label_mask.iter().for_each(|&is_label| digest.update([u8::from(is_label)]));
        digest.update(u32::MAX.to_le_bytes());
    }
    let adapter = json_fields(&adapter_config(&config.settings.lora, None));
    let model_config = json_fields(&model.config);
    let model_config = model_config.into_iter().map(|(name, value)| (format!("model {name}"), value));
    let AdamW { beta1, beta2, eps, weight_decay } = config.settings.optimizer;
    let plain = [
        ("accumulate", config.settings.size.accumulate.to_string()),
        ("batch", config.settings.size.batch.to_string()),
        ("beta1", beta1.to_string()),
        ("beta2", beta2.to_string()),
        ("dtype", config.dtype.to_string()),
        ("eps", eps.to_string()),
        ("max_grad_norm", config.settings.max_grad_norm.to_string()),
        ("model tokenizer (SHA-256)", hex(Sha256::digest(model.files.tokenizer_json()?))),
        ("model weights (SHA-256 of sizes and samples)", model.checkpoint.fingerprint()),
        ("pack", (config.settings.packing == Packing::On).to_string()),
        ("rows (SHA-256 of their tokens)", hex(digest.finalize())),
        ("seed", config.settings.seed.to_string()),
        ("seq", config.settings.seq.to_string()),
        ("weight_decay", weight_decay.to_string()),
    ];
    let plain = plain.map(|(name, value)| (name.to_owned(), value));
    let replaced = templates
        .replaced()
        .map(|(name, text)| (format!("template {name} (SHA-256)"), hex(Sha256::digest(text))));
    let from_json = adapter.into_iter().chain(model_config).map(|(name, value)| (name, value.to_string()));
    Ok(from_json.chain(plain).chain(replaced).collect())
}

/// The fields of a struct as JSON.
fn json_fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a struct of settings is a JSON object, found {other:?}"),
    }
}

/// Writes the state of a trainer, whose adapters are `factors`.
///
/// # Errors
/// If the device or the file system fails.
pub fn write(
    trainer: &Trainer<'_>,
    factors: &TrainableValues,
    record: &Record,
    out: &Path,
) -> Result<(), TrainError> {
    let mut tensors = BTreeMap::new();
    for (&id, factor) in factors {
        tensors.insert(Role::Trainable(id).to_string(), factor.clone());
        for role in moments(id) {
            tensors.insert(role.to_string(), trainer.get(role)?);
        }
    }
    tensors.insert(Role::Updates.to_string(), trainer.get(Role::Updates)?);
    let json = serde_json::to_vec(record).expect("a record has only numbers and strings");
    tensors.insert(RECORD.to_owned(), Literal::from_bytes(ArrayShape::new(DType::U8, [json.len()]), json));
    Ok(write_safetensors(&out.join(FILE), &tensors, &BTreeMap::new())?)
}

/// The checkpoint in a folder.
///
/// # Errors
/// If there is none, or it is malformed.
pub fn read(out: &Path) -> Result<Saved, TrainError> {
    let path = out.join(FILE);
    let refused = |problem: String| TrainError::Setting {
        setting: Setting::Resume,
        problem,
        hint: Some(format!("start a new run, without {}", Setting::Resume)),
    };
    if !exists(out) {
        return Err(refused(format!("there is no checkpoint: {}", path.display())));
    }
    let mut tensors =
        read_safetensors(&path).map_err(|source| TrainError::Checkpoint { path: path.clone(), source })?;
    let malformed = |problem: &str| refused(format!("{}: `{RECORD}`: {problem}", path.display()));
    let record = tensors.remove(RECORD).ok_or_else(|| malformed("this tensor is missing"))?;
    let record = serde_json::from_slice(record.bytes())
        .map_err(|error| malformed(&format!("malformed JSON: {error}")))?;
    Ok(Saved { path, tensors, record })
}

/// Whether a folder contains a checkpoint.
pub fn exists(out: &Path) -> bool {
    out.join(FILE).is_file()
}

/// Whether a folder contains files of a run, even of one that has made no update.
pub fn holds_run(out: &Path) -> bool {
    [ADAPTER, FILE, METRICS].iter().any(|file| out.join(file).exists())
}

/// Rejects a folder that contains the adapter of an earlier run.
///
/// # Errors
/// If it does.
pub fn refuse_occupied(out: &Path) -> Result<(), TrainError> {
    if out.join(ADAPTER).exists() || exists(out) {
        return Err(TrainError::Occupied(out.to_owned()));
    }
    Ok(())
}

/// Rejects a folder that cannot be created or written to, before any long work.
///
/// # Errors
/// If no file can be created in the folder, or in its nearest existing parent.
pub fn refuse_unwritable(out: &Path) -> Result<(), TrainError> {
    let existing = out.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    // The message of `tempfile` has the name of a temporary file.
    let refused = |error: std::io::Error| TrainError::Io {
        action: "write to folder",
        path: out.to_owned(),
        source: error.kind().into(),
    };
    tempfile::tempfile_in(existing).map(drop).map_err(refused)
}

impl Saved {
    /// Updates whose batches were consumed.
    pub fn steps(&self) -> usize {
        self.record.steps
    }

    /// Samples of the updates made.
    pub fn samples(&self) -> u64 {
        self.record.samples
    }

    /// Labelled tokens of the updates made.
    pub fn label_tokens(&self) -> u64 {
        self.record.label_tokens
    }

    /// Start of the run.
    pub fn started(&self) -> SystemTime {
        // An edited record may have a time that the system cannot represent.
        let since = Duration::from_secs(self.record.started);
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Checks that its run has the same settings, and updates left.
    ///
    /// # Errors
    /// If a setting differs, or all `steps` are made.
    pub fn check(&self, settings: &BTreeMap<String, String>, steps: usize) -> Result<(), TrainError> {
        let then = &self.record.settings;
        let nothing = "nothing".to_owned();
        let mut names = settings.keys().chain(then.keys());
        if let Some(name) = names.find(|name| settings.get(*name) != then.get(*name)) {
            let (expected, found) =
                (then.get(name).unwrap_or(&nothing), settings.get(name).unwrap_or(&nothing));
            return Err(wrong(&self.path, format!("{name}: expected {expected}, found: {found}")));
        }
        if self.record.steps >= steps {
            return Err(TrainError::Setting {
                setting: Setting::Steps,
                problem: format!("the checkpoint has made {} of {steps} steps", self.record.steps),
                hint: Some(format!("raise {} to continue", Setting::Steps)),
            });
        }
        Ok(())
    }

    /// Copies the checkpoint to the device.
    ///
    /// # Errors
    /// If it belongs to other adapters, or the device fails.
    pub fn restore(&self, trainer: &mut Trainer<'_>) -> Result<(), TrainError> {
        let specs = trainer.trainable();
        let expected: Vec<(Role, ArrayShape)> = specs
            .iter()
            .flat_map(|spec| {
                let shape = |dtype| ArrayShape::new(dtype, sizes(&spec.dims));
                let moments = moments(spec.id).map(|role| (role, shape(spec.moments)));
                [(Role::Trainable(spec.id), shape(spec.dtype))].into_iter().chain(moments)
            })
            .chain([(Role::Updates, ArrayShape::scalar(DType::S32))])
            .collect();
        if self.tensors.len() != expected.len() {
            let (expected, found) = (expected.len(), self.tensors.len());
            return Err(wrong(&self.path, format!("expected {expected} tensors, found: {found}")));
        }
        for (role, shape) in expected {
            let name = role.to_string();
            let tensor = self.tensors.get(&name);
            let tensor = tensor.ok_or_else(|| wrong(&self.path, format!("`{name}` is missing")))?;
            if *tensor.shape() != shape {
                let found = tensor.shape();
                return Err(wrong(&self.path, format!("expected `{name}` to be {shape}, found: {found}")));
            }
            trainer.put(role, tensor)?;
        }
        Ok(())
    }
}

fn wrong(path: &Path, problem: String) -> TrainError {
    TrainError::Setting {
        setting: Setting::Resume,
        problem: format!("{}: {problem}", path.display()),
        hint: Some("give the settings of the run that wrote it".into()),
    }
}

fn moments(id: TrainableId) -> [Role; 2] {
    [Role::Moment1(id), Role::Moment2(id)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_without_a_valid_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let check = |record: Option<&str>, expect: &str| {
            let literal = |json: &str| {
                Literal::from_bytes(ArrayShape::new(DType::U8, [json.len()]), json.as_bytes().to_vec())
            };
            let tensors = record.map(|json| (RECORD.to_owned(), literal(json)));
            write_safetensors(&file, &tensors.into_iter().collect(), &BTreeMap::new()).unwrap();
            let error = read(folder.path()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("setting `resume`: {}: `record`: {expect}", file.display())
            );
            assert_eq!(error.hint().as_deref(), Some("start a new run, without setting `resume`"));
        };
        check(None, "this tensor is missing");
        check(Some("{\"steps\":1}"), "malformed JSON: missing field `samples` at line 1 column 11");
        check(Some("{"), "malformed JSON: EOF while parsing an object at line 1 column 1");
    }
}
