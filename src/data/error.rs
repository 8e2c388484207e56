use crate::base::{Diagnostic, Diagnostics, Location};

/// Why text could not become batches.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The bytes are no Hugging Face `tokenizer.json`.
    #[error("tokenizer.json: expected a Hugging Face tokenizer, found: {0}")]
    NotATokenizer(String),
    /// The bytes are no JSON object.
    #[error("tokenizer_config.json: expected a JSON object, found: {0}")]
    NotAConfig(String),
    /// A file beside tokenizer.json does not fit it, or is malformed.
    #[error("{file}: {problem}")]
    TokenizerFile {
        /// Its name.
        file: &'static str,
        /// What was found and what was expected.
        problem: String,
    },
    /// No file names an end-of-sequence token.
    #[error(
        "expected `eos_token` in tokenizer_config.json or special_tokens_map.json, or `eos_token_id` in \
         generation_config.json or config.json, found none"
    )]
    NoEos,
    /// A file names a special token that the vocabulary lacks.
    #[error("{file}: `{key}` is not in the vocabulary: {token}")]
    NotInVocabulary {
        /// The file's name.
        file: &'static str,
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
    /// The files of the tokenizer hold no chat template.
    #[error("expected a chat template, found none")]
    NoChatTemplate,
    /// The model has chat templates, but none that this conversation may have.
    #[error("expected a chat template named `default`, found only: {}", names.join(", "))]
    NoDefaultTemplate {
        /// Their names, sorted.
        names: Vec<String>,
    },
    /// A row with messages, for a model without a chat template.
    #[error("{file}:{line}: expected a chat template for rows with `messages`, found none")]
    RowNeedsTemplate {
        /// The file, as the user named it.
        file: String,
        /// The first line with such a row, counted from one.
        line: usize,
    },
    /// The chat template does not parse, or refuses a conversation.
    #[error("{location}: {message}")]
    ChatTemplate {
        /// Its file and line, or "chat template" and its line where it comes from no file.
        location: String,
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
    Rows(#[from] Diagnostics),
    /// A file of another format than JSON.
    #[error("{file}: expected rows in JSON, found {found}")]
    NotRows {
        /// The file, as the user named it.
        file: String,
        /// What it seems to be.
        found: String,
        /// What to do about it.
        hint: &'static str,
    },
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
    #[error(
        "{file}: expected a token to learn within the first {seq} tokens of a row to train on, found none"
    )]
    NothingCounted {
        /// The file, as the user named it.
        file: String,
        /// Sequence length in tokens.
        seq: usize,
    },
    /// A sequence with no next token.
    #[error("expected at least {least} for `{setting}`, found: {found}")]
    TooSmall {
        /// `seq`.
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
            Self::NoChatTemplate | Self::RowNeedsTemplate { .. } => {
                "put the model's chat_template.jinja beside its tokenizer.json, or use rows with `prompt` and `completion`"
            }
            Self::NoDefaultTemplate { .. } => {
                "put the one to use beside the model's tokenizer.json as chat_template.jinja; `tool_use` is used only for rows with `tools`"
            }
            Self::Rewritten(_) => {
                "split the conversation so that each row ends with its only answer, or enclose the assistant's text in the template in {% generation %} and {% endgeneration %}"
            }
            Self::NotRows { hint, .. } => hint,
            Self::NoRows { .. } => {
                "write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}"
            }
            Self::HeldOut { .. } => "hold out fewer rows, or add rows to the file",
            Self::NothingCounted { .. } => "raise the sequence length, or shorten the prompts",
            Self::BeyondModel { .. }
            | Self::NotInVocabulary { .. }
            | Self::TokenizerFile { .. }
            | Self::UnknownId { .. } => "use the tokenizer files that came with the model",
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

/// What is wrong with a part of a file, and what the reader can do about it.
#[derive(Debug)]
pub(super) struct Invalid {
    pub message: String,
    pub hint: Option<String>,
}

impl From<String> for Invalid {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

/// Problems of one file: only the first are told in full, and those that are the same only once.
pub(super) struct Problems<'a> {
    file: &'a str,
    shown: Vec<Repeated>,
    hidden: usize,
}

struct Repeated {
    line: usize,
    invalid: Invalid,
    further: usize,
}

impl<'a> Problems<'a> {
    const SHOWN: usize = 20;

    pub fn of(file: &'a str) -> Self {
        Self { file, shown: Vec::new(), hidden: 0 }
    }

    /// Adds what is wrong with a line, counted from one.
    pub fn push(&mut self, line: usize, invalid: Invalid) {
        let same = self.shown.iter_mut().find(|shown| shown.invalid.message == invalid.message);
        if let Some(same) = same {
            same.further += 1;
        } else if self.shown.len() < Self::SHOWN {
            self.shown.push(Repeated { line, invalid, further: 0 });
        } else {
            self.hidden += 1;
        }
    }

    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        let lines = |n: usize| if n == 1 { "line" } else { "lines" };
        let mut diagnostics = Diagnostics::default();
        for Repeated { line, invalid: Invalid { message, hint }, further } in self.shown {
            let same = match further {
                0 => String::new(),
                n => format!(" (and the same in {n} more {})", lines(n)),
            };
            let diagnostic = Diagnostic::error(Location::line(self.file, line), format!("{message}{same}"));
            diagnostics.push(Diagnostic { hint, ..diagnostic });
        }
        if self.hidden > 0 {
            let are = if self.hidden == 1 { "is" } else { "are" };
            let message = format!("{} more {} {are} wrong", self.hidden, lines(self.hidden));
            diagnostics.push(Diagnostic::error(Location::file(self.file), message));
        }
        diagnostics.into_result(value)
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
            "split the conversation so that each row ends with its only answer, or enclose the assistant's text in the template in {% generation %} and {% endgeneration %}",
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
