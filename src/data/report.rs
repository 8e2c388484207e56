use std::collections::BTreeMap;

use super::{
    SpecialTokens, TokenizedSample, Tokenizer,
    encode::{Boundary, Notes},
};
use crate::base::{Diagnostic, Location};

/// Counts and warnings of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetReport {
    /// Samples in the file.
    pub samples: usize,
    /// Samples longer than a row, which were truncated.
    pub truncated: usize,
    /// Samples left out because truncation left no label.
    pub dropped: usize,
    /// Tokens of the remaining samples, after truncation and without padding.
    pub tokens: usize,
    /// Labelled tokens among them; the first token of a sample is never one.
    pub num_label_tokens: usize,
    /// Tokens of the longest sample before truncation.
    pub longest: usize,
    /// Rows that the remaining samples fill: one each, or fewer where they are packed.
    pub rows: usize,
    /// Warnings about the samples, each kind once.
    pub warnings: Vec<Diagnostic>,
}

impl DatasetReport {
    /// Fraction of padding in rows of `seq` tokens, from zero to one.
    pub fn padding(&self, seq: usize) -> f64 {
        let tokens = self.rows as f64 * seq as f64;
        (tokens - self.tokens as f64) / tokens
    }

    /// Counts a sample and truncates it to `seq` tokens; `None` if no label is left.
    pub(super) fn admit(&mut self, mut sample: TokenizedSample, seq: usize) -> Option<TokenizedSample> {
        let num_label_tokens = sample.labels_within(seq);
        self.longest = self.longest.max(sample.ids.len());
        self.truncated += usize::from(sample.ids.len() > seq);
        sample.ids.truncate(seq);
        sample.label_mask.truncate(seq);
        if num_label_tokens == 0 {
            self.dropped += 1;
            return None;
        }
        self.tokens += sample.ids.len();
        self.num_label_tokens += num_label_tokens;
        Some(sample)
    }
}

/// Warnings about samples, each kind with its first occurrence.
#[derive(Debug, Default)]
pub(super) struct Warnings(BTreeMap<WarningKind, Occurrences>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WarningKind {
    HasBegin,
    HasEnd,
    Crosses(Boundary),
    LeftOut(&'static str),
    Unused(String),
}

/// The first occurrence of a warning, and the number of samples with one.
#[derive(Debug)]
struct Occurrences {
    line: usize,
    message: Option<usize>,
    samples: usize,
}

impl Warnings {
    /// Adds the notes on the sample that begins in `line`.
    pub(super) fn count(&mut self, line: usize, notes: Notes) {
        let Notes { has_begin, has_end, crosses, left_out, unused } = notes;
        let begin = has_begin.then_some((WarningKind::HasBegin, None));
        let end = has_end.then_some((WarningKind::HasEnd, None));
        let crosses = crosses.map(|boundary| (WarningKind::Crosses(boundary), None));
        let left_out = left_out.into_iter().map(|(message, key)| (WarningKind::LeftOut(key), Some(message)));
        let unused = unused.into_iter().map(|name| (WarningKind::Unused(name), None));
        let mut seen: Vec<WarningKind> = Vec::new();
        for (kind, message) in [begin, end, crosses].into_iter().flatten().chain(left_out).chain(unused) {
            if !seen.contains(&kind) {
                seen.push(kind.clone());
                self.0.entry(kind).or_insert(Occurrences { line, message, samples: 0 }).samples += 1;
            }
        }
    }

    /// The warnings, each at the first sample with it and with the number of such samples.
    pub(super) fn into_diagnostics(
        self,
        file: &str,
        tokenizer: &Tokenizer,
    ) -> impl Iterator<Item = Diagnostic> {
        const SHOWN: usize = 20;
        let token = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.decode(&[id], SpecialTokens::Keep).ok());
            text.unwrap_or_default()
        };
        self.0.into_iter().take(SHOWN).map(move |(kind, Occurrences { line, message, samples })| {
            let message = message.map(|number| format!("message {number}: ")).unwrap_or_default();
            let text = match &kind {
                WarningKind::HasBegin => {
                    format!("begins with `{}`, which is not added a second time", token(tokenizer.bos_id()))
                }
                WarningKind::HasEnd => {
                    let eos = token(tokenizer.eos_id().ok());
                    format!("ends with `{eos}`, which is not added a second time")
                }
                WarningKind::Crosses(Boundary::Completion) => {
                    "a token spans the end of the prompt and the start of the completion; it is a label"
                        .to_owned()
                }
                WarningKind::Crosses(Boundary::Turn) => {
                    "a token spans the end of the template's prompt and the start of an answer; it is a label"
                        .to_owned()
                }
                WarningKind::LeftOut(key) => {
                    format!("the chat template leaves out `{key}` or a part of it, which is not learned")
                }
                WarningKind::Unused(name) => format!("the chat template does not use `{name}`"),
            };
            let count = if samples == 1 { "1 sample".to_owned() } else { format!("{samples} samples") };
            let warning =
                Diagnostic::warning(Location::line(file, line), format!("{message}{text} ({count})"));
            match kind {
                WarningKind::Crosses(Boundary::Completion) => warning
                    .with_hint("move the space from the end of the prompt to the start of the completion"),
                _ => warning,
            }
        })
    }
}
