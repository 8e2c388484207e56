//! Configuration of a model: sizes, biases, rotary embedding and sliding window, read from a Hugging Face `config.json` or
//! from one of the embedded `models/*.toml`, which use the same field names.

mod architecture;
mod builtin;
mod fields;
mod hf;
mod hf_quantization;
mod hf_rope;
mod hf_window;
mod rope;

pub use architecture::Config;
pub use builtin::builtin_names;
pub use rope::Rope;
