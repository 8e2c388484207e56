use crate::base::{Diagnostic, Diagnostics};

/// Error of reading a tokenizer, a chat template or training data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// `tokenizer.json` is not a supported Hugging Face tokenizer.
    #[error("tokenizer.json: expected a Hugging Face tokenizer, found: {0}")]
    NotATokenizer(Diagnostic),
    /// A file beside `tokenizer.json` is malformed or contradicts it.
    #[error("{0}")]
    TokenizerFile(Diagnostic),
    /// No file names an end-of-sequence token.
    #[error(
        "expected `eos_token` in tokenizer_config.json or special_tokens_map.json, or `eos_token_id` in \
         generation_config.json or config.json, found none"
    )]
    NoEos,
    /// A file names a special token that is not in the vocabulary.
    #[error("{file}: `{key}` is not in the vocabulary: {token}")]
    NotInVocabulary {
        /// Name of the file.
        file: &'static str,
        /// Key of the token, such as `eos_token`.
        key: String,
        /// The missing token.
        token: String,
    },
    /// The tokenizer cannot encode a text.
    #[error("the text could not be encoded: {0}")]
    Encode(Diagnostic),
    /// The tokenizer cannot decode token ids.
    #[error("the ids could not be decoded: {0}")]
    Decode(Diagnostic),
    /// A token id that is not in the vocabulary.
    #[error("expected token ids below {limit}, found: {id}")]
    UnknownId {
        /// One past the largest id of the vocabulary.
        limit: usize,
        /// The invalid id.
        id: u32,
    },
    /// The model has no chat template.
    #[error("expected a chat template, found none")]
    NoChatTemplate,
    /// The model has named chat templates, but no default one.
    #[error("expected a chat template named `default`, found only: {}", names.join(", "))]
    NoDefaultTemplate {
        /// Names of the templates, sorted.
        names: Vec<String>,
    },
    /// A sample with messages, for a model without a chat template.
    #[error("{file}:{line}: expected a chat template for samples with `messages`, found none")]
    SampleNeedsTemplate {
        /// Name of the file, as the user gave it.
        file: String,
        /// Line of the first such sample, counted from one.
        line: usize,
    },
    /// The chat template does not parse, raises an error, or exceeds a limit. The location names its file and line.
    #[error("{0}")]
    ChatTemplate(Diagnostic),
    /// The template renders the start of a conversation differently when more messages follow, from this message on,
    /// counted from one.
    #[error(
        "chat template: expected the text of a turn to stay the same when more messages follow, found it rewritten at message {0}"
    )]
    Rewritten(usize),
    /// A file could not be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// Name of the file, as the user gave it.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Lines that are not valid samples, or samples that cannot be encoded.
    #[error(transparent)]
    InvalidSamples(#[from] Diagnostics),
    /// A file that is not JSON.
    #[error("{file}: expected samples in JSON, found {found}")]
    NotJson {
        /// Name of the file, as the user gave it.
        file: String,
        /// The format that the file seems to have.
        found: String,
        /// A remedy.
        hint: &'static str,
    },
    /// A file without samples.
    #[error("{file}: expected at least one sample, found none")]
    NoSamples {
        /// Name of the file, as the user gave it.
        file: String,
    },
    /// Too many or no samples held out.
    #[error("{file}: expected fewer than {samples} held-out samples of {samples}, found: {requested}")]
    HeldOut {
        /// Name of the file, as the user gave it.
        file: String,
        /// Samples in the file.
        samples: usize,
        /// Samples to hold out.
        requested: usize,
    },
    /// No sample has a label within the sequence length.
    #[error("{file}: expected a sample with a label within its first {seq} tokens, found none")]
    NoLabels {
        /// Name of the file, as the user gave it.
        file: String,
        /// Sequence length in tokens.
        seq: usize,
    },
    /// A setting below its minimum.
    #[error("expected at least {min} for `{setting}`, found: {found}")]
    TooSmall {
        /// Name of the setting.
        setting: &'static str,
        /// Minimum.
        min: usize,
        /// Value found.
        found: usize,
    },
    /// A token id beyond the vocabulary of the model.
    #[error("{file}: expected token ids below the model's vocabulary of {vocab}, found: {id}")]
    BeyondModel {
        /// Name of the data file, as the user gave it.
        file: String,
        /// Size of the model's vocabulary.
        vocab: usize,
        /// The largest id found.
        id: u32,
    },
}

impl DataError {
    /// A remedy, where one is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoEos => "add the token that ends a turn, such as \"eos_token\": \"</s>\"",
            Self::NoChatTemplate | Self::SampleNeedsTemplate { .. } => {
                "put the model's chat_template.jinja beside its tokenizer.json, or use samples with `prompt` and `completion`"
            }
            Self::NoDefaultTemplate { .. } => {
                "put the one to use beside the model's tokenizer.json as chat_template.jinja; `tool_use` is used only for samples with `tools`"
            }
            Self::Rewritten(_) => {
                "split the conversation so that each sample ends with its only answer, or enclose the assistant's text in the template in {% generation %} and {% endgeneration %}"
            }
            Self::NotJson { hint, .. } => hint,
            Self::NoSamples { .. } => {
                "write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}"
            }
            Self::HeldOut { .. } => "hold out fewer samples, or add samples to the file",
            Self::NoLabels { .. } => "raise the sequence length, or shorten the prompts",
            Self::BeyondModel { .. }
            | Self::NotInVocabulary { .. }
            | Self::TokenizerFile(_)
            | Self::UnknownId { .. } => "use the tokenizer files that came with the model",
            Self::NotATokenizer(_)
            | Self::Encode(_)
            | Self::Decode(_)
            | Self::ChatTemplate(_)
            | Self::Unreadable { .. }
            | Self::InvalidSamples(_)
            | Self::TooSmall { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_say_what_works() {
        let check = |error: DataError, expect: &str| assert_eq!(error.hint().as_deref(), Some(expect));
        let file = || "a.jsonl".to_owned();
        check(DataError::NoEos, "add the token that ends a turn, such as \"eos_token\": \"</s>\"");
        check(
            DataError::NoChatTemplate,
            "put the model's chat_template.jinja beside its tokenizer.json, or use samples with `prompt` and `completion`",
        );
        check(
            DataError::Rewritten(1),
            "split the conversation so that each sample ends with its only answer, or enclose the assistant's text in the template in {% generation %} and {% endgeneration %}",
        );
        check(
            DataError::NoSamples { file: file() },
            "write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}",
        );
        check(
            DataError::HeldOut { file: file(), samples: 1, requested: 1 },
            "hold out fewer samples, or add samples to the file",
        );
        check(
            DataError::NoLabels { file: file(), seq: 8 },
            "raise the sequence length, or shorten the prompts",
        );
        check(
            DataError::BeyondModel { file: file(), vocab: 8, id: 9 },
            "use the tokenizer files that came with the model",
        );
        assert_eq!(DataError::TooSmall { setting: "seq", min: 2, found: 0 }.hint(), None);
    }
}
