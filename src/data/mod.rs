//! Layer 2: from files of text to batches of token ids.
//!
//! [`Rows`] are read from JSON, written out through the model's own chat template and [`Tokenizer`] as
//! [`Sample`]s, gathered in a [`Dataset`], which may pack several into a sequence, and handed out as
//! [`Batch`]es in an order that depends on nothing but the seed.

mod error;

mod chat;

mod chat_templates;

mod generation;

mod message;

mod jinja;

mod tokenizer;

mod format;

mod record;

mod rows;

mod turns;

mod sample;

mod report;

mod dataset;

mod packing;

mod batches;

mod order;

mod quickstart;

#[cfg(test)]
mod testing;

pub use batches::{Batch, Batches, UpdateSize, held_out_batches};
pub use chat::{ChatTemplate, Ending};
pub use dataset::Dataset;
pub use error::DataError;
pub use message::{Conversation, Message, Role, TemplateInputs};
pub use quickstart::{HELD_OUT_QUESTION, QUICKSTART_HELD_OUT, quickstart};
pub use report::DatasetReport;
pub use rows::{HeldOut, Row, RowKind, Rows};
pub use sample::Sample;
pub use tokenizer::{SpecialTokens, Tokenizer, TokenizerFiles, panics_are_contained};
