//! Architecture of a Llama model: sizes, biases and rotary embedding, read from a Hugging Face `config.json` or from one of
//! the embedded `models/*.toml`, which use the same field names.

mod architecture;
mod builtin;
mod fields;
mod hf;
mod hf_rope;
mod rope;

pub use architecture::Config;
pub use builtin::builtin_names;
pub use rope::Rope;
