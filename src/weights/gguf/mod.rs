//! GGUF files of Llama models, given out in Hugging Face's formats so that nothing else knows of GGUF.
//! Source: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod header;

mod cursor;
mod ggml_type;
mod metadata;
mod split;

mod end_tokens;
mod llama;
mod rope;

mod tokenizer;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fs::File, io::Read, path::Path, sync::Arc};

use header::GgufHeader;
use metadata::Metadata;
use serde_json::Value;

use super::{WeightsError, mapping::Mapping, tensor::MappedTensor};

/// The mapped GGUF file or files of a Llama, their headers checked.
#[derive(Clone, Debug)]
pub(super) struct Gguf {
    metadata: Metadata,
    /// Under their GGUF names, sizes already in Hugging Face order.
    tensors: BTreeMap<String, MappedTensor>,
}

impl Gguf {
    /// Whether the file at `path` begins as a GGUF file does.
    pub fn is_at(path: &Path) -> Result<bool, WeightsError> {
        let mut magic = Vec::new();
        let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
        read.map_err(|source| WeightsError::Io { action: "read", path: path.to_owned(), source })?;
        Ok(magic == header::MAGIC)
    }

    /// Opens a file and, where it is a part of a model, the other parts.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let given = GgufHeader::read(&Mapping::open(path)?)?;
        let paths = split::paths(&given.metadata)?;
        let mut first = None;
        let mut tensors: BTreeMap<String, MappedTensor> = BTreeMap::new();
        for (index, path) in paths.iter().enumerate() {
            let file = Arc::new(Mapping::open(path)?);
            let header = GgufHeader::read(&file)?;
            split::check_part(&header.metadata, index, paths.len())?;
            if first.is_none() {
                llama::check_architecture(&header.metadata)?;
                first = Some(header.metadata.clone());
            }
            for (name, tensor) in header.tensors(&file)? {
                if let Some(other) = tensors.get(&name) {
                    return Err(split::twice(path, &name, other.path()));
                }
                tensors.insert(name, tensor);
            }
        }
        let metadata = first.unwrap_or(given.metadata);
        split::check_tensors(&metadata, tensors.len())?;
        Ok(Self { metadata, tensors })
    }

    /// The tensors under Hugging Face names, the rows of query and key projections in Hugging Face order.
    pub fn tensors(&self) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
        llama::hf_tensors(&self.metadata, &self.tensors)
    }

    /// What config.json would say.
    pub fn config(&self) -> Result<Value, WeightsError> {
        llama::config(&self.metadata, &self.tensors)
    }

    /// What tokenizer.json would say.
    pub fn tokenizer(&self) -> Result<Value, WeightsError> {
        tokenizer::tokenizer_json(&self.metadata)
    }

    /// What tokenizer_config.json would say.
    pub fn tokenizer_config(&self) -> Result<Value, WeightsError> {
        tokenizer::tokenizer_config(&self.metadata)
    }
}
