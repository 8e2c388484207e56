//! GGUF files of Llama models and of Qwen 2, converted to Hugging Face's formats.
//! Source: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod header;

mod cursor;
mod ggml_type;
mod metadata;
mod split;

mod architecture;
mod end_tokens;
mod lora;
mod rope;

mod tokenizer;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fs::File, io::Read, path::Path, sync::Arc};

use header::GgufHeader;
pub use lora::{GgufFactor, write_gguf_lora};
use metadata::Metadata;
use serde_json::Value;

use super::{WeightsError, mapping::Mapping, tensor::MappedTensor};

/// The mapped GGUF file or files of a model, with checked headers.
#[derive(Clone, Debug)]
pub(super) struct Gguf {
    metadata: Metadata,
    /// By GGUF name, with dimensions in Hugging Face order.
    tensors: BTreeMap<String, MappedTensor>,
}

impl Gguf {
    /// Whether the file at `path` begins with the GGUF magic.
    pub(super) fn is_at(path: &Path) -> Result<bool, WeightsError> {
        let mut magic = Vec::new();
        let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
        read.map_err(|source| WeightsError::Io { action: "read", path: path.to_owned(), source })?;
        Ok(magic == header::MAGIC)
    }

    /// Opens a file and, if the model is split, its other files.
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let given = GgufHeader::read(&Mapping::open(path)?)?;
        let paths = split::paths(&given.metadata)?;
        let mut first = None;
        let mut tensors: BTreeMap<String, MappedTensor> = BTreeMap::new();
        for (index, path) in paths.iter().enumerate() {
            let file = Arc::new(Mapping::open(path)?);
            let header = GgufHeader::read(&file)?;
            split::check_part(&header.metadata, index, paths.len())?;
            if first.is_none() {
                architecture::check(&header.metadata)?;
                first = Some(header.metadata.clone());
            }
            for (name, tensor) in header.tensors(&file)? {
                if let Some(other) = tensors.get(&name) {
                    return Err(split::duplicate(path, &name, other.path()));
                }
                tensors.insert(name, tensor);
            }
        }
        let metadata = first.unwrap_or(given.metadata);
        split::check_tensors(&metadata, tensors.len())?;
        Ok(Self { metadata, tensors })
    }

    /// The tensors by Hugging Face name, with the rows of query and key projections in Hugging Face order.
    pub(super) fn tensors(&self) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
        architecture::hf_tensors(&self.metadata, &self.tensors)
    }

    /// The equivalent of config.json.
    pub(super) fn config(&self) -> Result<Value, WeightsError> {
        architecture::config(&self.metadata, &self.tensors)
    }

    /// The equivalent of tokenizer.json.
    pub(super) fn tokenizer(&self) -> Result<Value, WeightsError> {
        tokenizer::tokenizer_json(&self.metadata)
    }

    /// The equivalent of tokenizer_config.json.
    pub(super) fn tokenizer_config(&self) -> Result<Value, WeightsError> {
        tokenizer::tokenizer_config(&self.metadata)
    }
}
