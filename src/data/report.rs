use std::collections::BTreeMap;

use super::{
    Sample, SpecialTokens, Tokenizer,
    sample::{Border, Notes},
};
use crate::base::{Diagnostic, Location};

/// What became of the rows of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetReport {
    /// Rows in the file.
    pub rows: usize,
    /// Rows longer than the sequence, whose end was cut off.
    pub cut: usize,
    /// Rows left out because no counted token was left.
    pub dropped: usize,
    /// Tokens of the samples kept, after cutting and without padding.
    pub tokens: usize,
    /// Those of them that a loss counts: the first token of a sample never does.
    pub counted_tokens: usize,
    /// Tokens of the longest row before cutting.
    pub longest: usize,
    /// Sequences that the samples stand in: as many as there are samples, or fewer where they are packed.
    pub sequences: usize,
    /// What a reader should know of the rows, each kind once.
    pub warnings: Vec<Diagnostic>,
}

impl DatasetReport {
    /// The share of padding in sequences of `seq` tokens, from zero to one.
    pub fn padding(&self, seq: usize) -> f64 {
        let tokens = self.sequences as f64 * seq as f64;
        (tokens - self.tokens as f64) / tokens
    }

    /// Counts a sample and cuts it to `seq` tokens; `None` if nothing is left to learn.
    pub(super) fn admit(&mut self, mut sample: Sample, seq: usize) -> Option<Sample> {
        let num_label_tokens = sample.labels_within(seq);
        self.longest = self.longest.max(sample.ids.len());
        self.cut += usize::from(sample.ids.len() > seq);
        sample.ids.truncate(seq);
        sample.label_mask.truncate(seq);
        if num_label_tokens == 0 {
            self.dropped += 1;
            return None;
        }
        self.tokens += sample.ids.len();
        self.counted_tokens += num_label_tokens;
        Some(sample)
    }
}

/// Notes on rows, each kind with the place where it was found first.
#[derive(Debug, Default)]
pub(super) struct Warnings(BTreeMap<Warning, Seen>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Warning {
    HasBegin,
    HasEnd,
    Crosses(Border),
    LeftOut(&'static str),
    Unused(String),
}

#[derive(Debug)]
struct Seen {
    line: usize,
    message: Option<usize>,
    rows: usize,
}

impl Warnings {
    /// Adds the notes on the row in `line`.
    pub fn count(&mut self, line: usize, notes: Notes) {
        let Notes { has_begin, has_end, crosses, left_out, unused } = notes;
        let begin = has_begin.then_some((Warning::HasBegin, None));
        let end = has_end.then_some((Warning::HasEnd, None));
        let crosses = crosses.map(|border| (Warning::Crosses(border), None));
        let left_out = left_out.into_iter().map(|(message, key)| (Warning::LeftOut(key), Some(message)));
        let unused = unused.into_iter().map(|name| (Warning::Unused(name), None));
        let mut counted: Vec<Warning> = Vec::new();
        for (warning, message) in [begin, end, crosses].into_iter().flatten().chain(left_out).chain(unused) {
            if !counted.contains(&warning) {
                counted.push(warning.clone());
                self.0.entry(warning).or_insert(Seen { line, message, rows: 0 }).rows += 1;
            }
        }
    }

    /// The warnings, each with the first row it is about and how many rows there are.
    pub fn into_diagnostics(self, file: &str, tokenizer: &Tokenizer) -> impl Iterator<Item = Diagnostic> {
        const SHOWN: usize = 20;
        let token = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.decode(&[id], SpecialTokens::Keep).ok());
            text.unwrap_or_default()
        };
        self.0.into_iter().take(SHOWN).map(move |(warning, Seen { line, message, rows })| {
            let message = message.map(|number| format!("message {number}: ")).unwrap_or_default();
            let (text, hint) = match warning {
                Warning::HasBegin => {
                    (format!("begins with `{}`, which is not added a second time", token(tokenizer.bos_id())), None)
                }
                Warning::HasEnd => {
                    let eos = token(tokenizer.eos_id().ok());
                    (format!("ends with `{eos}`, which is not added a second time"), None)
                }
                Warning::Crosses(Border::Completion) => (
                    "a token holds the end of the prompt and the beginning of the completion; it is learned".to_owned(),
                    Some("begin the completion with the blank, rather than ending the prompt with it"),
                ),
                Warning::Crosses(Border::Turn) => (
                    "a token holds the end of the template's prompt and the beginning of an answer; it is learned".to_owned(),
                    None,
                ),
                Warning::LeftOut(key) => {
                    (format!("the chat template leaves out `{key}` or a part of it, which is not learned"), None)
                }
                Warning::Unused(name) => (format!("the chat template does not use `{name}`"), None),
            };
            let count = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
            let diagnostic = Diagnostic::error(Location::line(file, line), format!("{message}{text} ({count})"));
            Diagnostic { hint: hint.map(str::to_owned), ..diagnostic }
        })
    }
}
