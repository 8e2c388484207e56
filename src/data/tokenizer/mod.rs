//! The tokenizer of a model, within limits on the memory and time that its files may request.

mod added;

mod backtracking;

mod contain;

mod declared;

mod hugging_face;

mod limits;

#[cfg(test)]
mod tests;

pub use contain::panics_are_contained;
pub(super) use hugging_face::TokenSpan;
pub use hugging_face::{SpecialTokens, Tokenizer};
