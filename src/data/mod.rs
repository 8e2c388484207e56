//! Training data, from JSON files to batches of token ids.
//!
//! [`Sample`]s are read from JSON, rendered by the model's chat template, encoded by its [`Tokenizer`] as
//! [`TokenizedSample`]s and collected in a [`Dataset`], which distributes them over rows, several in a row where it is
//! packed. `Batches` iterates over the rows in an order that depends on the seed alone.

mod error;

mod chat;

mod chat_templates;

mod generation;

mod message;

mod jinja;

mod tokenizer_files;

mod tokenizer;

mod line_diagnostics;

mod file_layout;

mod sample;

mod json_fields;

mod unsupported_keys;

mod message_json;

mod sample_json;

mod sample_file;

mod turns;

mod encode;

mod report;

mod dataset;

mod packing;

mod batches;

mod order;

mod quickstart;

#[cfg(test)]
mod testing;

pub use batches::Batch;
pub(crate) use batches::{Batches, UpdateSize, held_out_batches};
pub use chat::{ChatTemplate, Ending};
pub use dataset::Dataset;
pub use encode::TokenizedSample;
pub use error::DataError;
pub use message::{Conversation, Message, MessageRole, TemplateInputs};
pub(crate) use quickstart::{HELD_OUT_QUESTION, QUICKSTART_HELD_OUT, quickstart};
pub use report::DatasetReport;
pub use sample::{Sample, SampleContent};
pub use sample_file::{HeldOut, SampleFile};
pub use tokenizer::{SpecialTokens, Tokenizer, panics_are_contained};
pub use tokenizer_files::TokenizerFiles;
