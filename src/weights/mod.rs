//! Layer 2: model files on disk, read and written.
//!
//! [`ModelFiles`] is what a model path gives, a Hugging Face folder or a GGUF file, in Hugging Face's own formats.
//! [`Checkpoint`] holds its tensors, mapped: [`Checkpoint::read`] converts any box of one straight from the file.
//! Nothing a file says is believed before it is checked, and nothing half-written is ever left on disk.

mod error;

mod mapping;
mod stored;
mod tensor;

mod safetensors;

mod files;
mod folder;
mod gguf;
mod layout;

mod checkpoint;
mod fingerprint;
mod model_files;
mod names;

mod peft;

pub use checkpoint::Checkpoint;
pub use error::WeightsError;
pub use files::refuse_dangling;
pub use model_files::ModelFiles;
pub use peft::{Adapter, AdapterConfig, Patterns, Targets, read_adapter, write_adapter};
pub use safetensors::{read_safetensors, write_safetensors};
pub use stored::{Quantization, StoredType};
pub use tensor::TensorInfo;
