use crate::base::{Finding, Findings, Place};

/// Why text could not become batches.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The bytes are no Hugging Face `tokenizer.json`.
    #[error("tokenizer.json: expected a Hugging Face tokenizer, found: {0}")]
    NotATokenizer(String),
    /// The bytes are no JSON object.
    #[error("tokenizer_config.json: expected a JSON object, found: {0}")]
    NotAConfig(String),
    /// The config names no end-of-sequence token.
    #[error("tokenizer_config.json: expected `eos_token`, found none")]
    NoEos,
    /// The config names a special token that the vocabulary lacks.
    #[error("tokenizer_config.json: `{key}` is not in the vocabulary: {token}")]
    NotInVocabulary {
        /// The key of the config.
        key: String,
        /// The token it names.
        token: String,
    },
    /// The tokenizer could not take a text apart.
    #[error("the text could not be encoded: {0}")]
    Encode(String),
    /// The tokenizer could not put a text together.
    #[error("the ids could not be decoded: {0}")]
    Decode(String),
    /// An id that stands for no token.
    #[error("expected token ids below {limit}, found: {id}")]
    UnknownId {
        /// One past the largest id.
        limit: usize,
        /// The id found.
        id: u32,
    },
    /// Conversations cannot be written out.
    #[error("expected a chat template for rows with `messages`, found none")]
    NoChatTemplate,
    /// The chat template does not parse, or refuses a conversation.
    #[error("chat template{}: {message}", line_suffix(*.line))]
    ChatTemplate {
        /// Its line, counted from one, where that is known.
        line: Option<usize>,
        /// What the template engine, or the template itself, says.
        message: String,
    },
    /// The template writes the beginning of a conversation differently once the conversation goes on.
    #[error(
        "chat template: expected each turn to continue the text before it, found it rewritten at message {0}"
    )]
    Rewritten(usize),
    /// A file could not be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file, as the user named it.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Lines of a file that are no rows, or rows that cannot be used.
    #[error(transparent)]
    Rows(#[from] Findings),
    /// A file without a single row.
    #[error("{file}: expected at least one row, found none")]
    NoRows {
        /// The file, as the user named it.
        file: String,
    },
    /// More rows asked for than there are, or none left to train on.
    #[error("{file}: expected fewer than {rows} held-out rows of {rows}, found: {wanted}")]
    HeldOut {
        /// The file, as the user named it.
        file: String,
        /// Rows in it.
        rows: usize,
        /// Rows to hold out.
        wanted: usize,
    },
    /// No sample has a token to learn from within the sequence length.
    #[error("{file}: expected a counted token within the first {seq} tokens of some row, found none")]
    NothingCounted {
        /// The file, as the user named it.
        file: String,
        /// Sequence length in tokens.
        seq: usize,
    },
    /// A sequence with no next token, or a batch without sequences.
    #[error("expected at least {least} for `{setting}`, found: {found}")]
    TooSmall {
        /// `seq` or `batch`.
        setting: &'static str,
        /// The least that works.
        least: usize,
        /// What was asked for.
        found: usize,
    },
    /// The tokenizer speaks of tokens that the model does not have.
    #[error("{file}: expected token ids below the model's vocabulary of {vocab}, found: {id}")]
    BeyondModel {
        /// The file of the rows, as the user named it.
        file: String,
        /// Size of the model's vocabulary.
        vocab: usize,
        /// The largest id found.
        id: u32,
    },
}

impl DataError {
    /// What the reader can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoEos => "add the token that ends a turn, such as \"eos_token\": \"</s>\"",
            Self::NoChatTemplate => {
                "put the model's chat_template.jinja beside its tokenizer.json, or use rows with `prompt` and `completion`"
            }
            Self::Rewritten(_) => {
                "split the conversation so that each row ends with its only answer, or use rows with `prompt` and `completion`"
            }
            Self::NoRows { .. } => {
                "write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}"
            }
            Self::HeldOut { .. } => "hold out fewer rows, or add rows to the file",
            Self::NothingCounted { .. } => "raise the sequence length, or shorten the prompts",
            Self::BeyondModel { .. } | Self::NotInVocabulary { .. } | Self::UnknownId { .. } => {
                "use the tokenizer files that came with the model"
            }
            Self::NotATokenizer(_)
            | Self::NotAConfig(_)
            | Self::Encode(_)
            | Self::Decode(_)
            | Self::ChatTemplate { .. }
            | Self::Unreadable { .. }
            | Self::Rows(_)
            | Self::TooSmall { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn line_suffix(line: Option<usize>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

/// Problems of one file, of which only the first are told in full.
pub(super) struct Problems<'a> {
    file: &'a str,
    shown: Findings,
    hidden: usize,
}

impl<'a> Problems<'a> {
    const SHOWN: usize = 20;

    pub fn of(file: &'a str) -> Self {
        Self { file, shown: Findings::default(), hidden: 0 }
    }

    /// Adds what is wrong with a line, counted from one.
    pub fn push(&mut self, line: usize, message: impl Into<String>, hint: Option<String>) {
        if self.shown.0.len() < Self::SHOWN {
            let finding = Finding::new(Place::line(self.file, line), message);
            self.shown.push(Finding { hint, ..finding });
        } else {
            self.hidden += 1;
        }
    }

    pub fn into_result<T>(mut self, value: T) -> Result<T, Findings> {
        if self.hidden > 0 {
            let lines = if self.hidden == 1 { "line is" } else { "lines are" };
            self.shown
                .push(Finding::new(Place::file(self.file), format!("{} more {lines} wrong", self.hidden)));
        }
        self.shown.into_result(value)
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
            "put the model's chat_template.jinja beside its tokenizer.json, or use rows with `prompt` and `completion`",
        );
        check(
            DataError::Rewritten(1),
            "split the conversation so that each row ends with its only answer, or use rows with `prompt` and `completion`",
        );
        check(
            DataError::NoRows { file: file() },
            "write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}",
        );
        check(
            DataError::HeldOut { file: file(), rows: 1, wanted: 1 },
            "hold out fewer rows, or add rows to the file",
        );
        check(
            DataError::NothingCounted { file: file(), seq: 8 },
            "raise the sequence length, or shorten the prompts",
        );
        check(
            DataError::BeyondModel { file: file(), vocab: 8, id: 9 },
            "use the tokenizer files that came with the model",
        );
        assert_eq!(DataError::TooSmall { setting: "seq", least: 2, found: 0 }.hint(), None);
    }
}
