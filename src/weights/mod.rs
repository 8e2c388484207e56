//! Model files on disk, read and written.
//!
//! [`ModelFiles`] gives access to a Hugging Face folder or a GGUF file in Hugging Face's formats. [`Checkpoint`] maps its
//! tensors: [`Checkpoint::read`] converts a window of a tensor from the mapped file. Every header is checked before it is
//! used, and files are written atomically.

mod error;

mod mapping;
mod quantized;
mod stored;
mod tensor;

mod safetensors;

mod bitsandbytes;
mod files;
mod folder;
mod gguf;
mod layout;

mod checkpoint;
mod fingerprint;
mod folder_writer;
mod model_files;
mod names;

mod peft;

pub use bitsandbytes::{QuantizedWeight, quantization_config, torch_name};
pub use checkpoint::Checkpoint;
pub use error::WeightsError;
pub(crate) use files::refuse_dangling;
pub use folder_writer::FolderWriter;
pub use gguf::{GgufFactor, write_gguf_lora};
pub use model_files::ModelFiles;
pub use peft::{Adapter, AdapterConfig, Patterns, TargetModules, read_adapter, write_adapter};
pub use safetensors::{read_safetensors, write_safetensors};
pub(crate) use stored::encode;
pub use stored::{Quantization, StoredType};
pub use tensor::TensorInfo;
