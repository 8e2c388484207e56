use rayon::prelude::*;

use super::{
    DataError, DatasetReport, Rows, Sample, Tokenizer,
    error::{Invalid, Problems},
    packing::best_fit,
    report::Warnings,
    sample::Encoder,
};
use crate::base::Diagnostic;

/// Samples of one sequence length, ready to be put into batches. Never empty.
#[derive(Clone, Debug)]
pub struct Dataset {
    samples: Vec<Sample>,
    sequences: Vec<Vec<usize>>,
    file: String,
    seq: usize,
    pad_id: u32,
    report: DatasetReport,
}

impl Dataset {
    /// Encodes `rows` as samples of at most `seq` tokens, each in a sequence of its own.
    ///
    /// # Errors
    /// If `seq` is below two, a conversation has no chat template, a completion no token
    /// to end it, or rows cannot be encoded (all of them are told, by
    /// line); [`DataError::NothingCounted`] if no row has a token to learn within `seq`.
    pub fn new(rows: &Rows, tokenizer: &Tokenizer, seq: usize) -> Result<Self, DataError> {
        if seq < 2 {
            return Err(DataError::TooSmall { setting: "seq", least: 2, found: seq });
        }
        let file = rows.file.clone();
        let encoder = Encoder::new(tokenizer, seq)?;
        let encoded: Vec<_> = rows.rows.par_iter().map(|row| encoder.encode(&row.kind)).collect();
        let mut report = DatasetReport { rows: rows.rows.len(), ..DatasetReport::default() };
        let mut warnings = Warnings::default();
        let mut problems = Problems::of(&rows.file);
        let mut samples = Vec::new();
        for (row, encoded) in rows.rows.iter().zip(encoded) {
            match encoded {
                Ok((sample, notes)) => {
                    warnings.count(row.line, notes);
                    samples.extend(report.admit(sample, seq));
                }
                Err(DataError::NoChatTemplate) => {
                    return Err(DataError::RowNeedsTemplate { file, line: row.line });
                }
                Err(error @ DataError::NoEos) => return Err(error),
                Err(error) => {
                    problems.push(row.line, Invalid { message: error.to_string(), hint: error.hint() });
                }
            }
        }
        problems.into_result(())?;
        if samples.is_empty() {
            return Err(DataError::NothingCounted { file, seq });
        }
        let sequences = (0..samples.len()).map(|sample| vec![sample]).collect();
        report.sequences = samples.len();
        report.warnings =
            rows.warnings.iter().cloned().chain(warnings.into_diagnostics(&file, tokenizer)).collect();
        Ok(Self { samples, sequences, file, seq, pad_id: tokenizer.pad_id(), report })
    }

    /// As [`Self::new`] for rows to test on; `None` if no row has a token to learn within `seq`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn held_out(rows: &Rows, tokenizer: &Tokenizer, seq: usize) -> Result<Option<Self>, DataError> {
        match Self::new(rows, tokenizer, seq) {
            Err(DataError::NothingCounted { .. }) => Ok(None),
            dataset => dataset.map(Some),
        }
    }

    /// Adds something that a reader should know of the rows.
    pub fn warn(&mut self, warning: Diagnostic) {
        self.report.warnings.push(warning);
    }

    /// The same samples, several in a sequence where they fit, so that little of it is padding.
    pub fn packed(self) -> Self {
        let lengths: Vec<usize> = self.samples.iter().map(|sample| sample.ids.len()).collect();
        let sequences = best_fit(&lengths, self.seq);
        let report = DatasetReport { sequences: sequences.len(), ..self.report };
        Self { sequences, report, ..self }
    }

    /// Checks that a model with `vocab` rows in its embedding knows every token, padding included.
    ///
    /// # Errors
    /// [`DataError::BeyondModel`] with the largest id.
    pub fn check_vocab(&self, vocab: usize) -> Result<(), DataError> {
        let ids = self.samples.iter().flat_map(|sample| &sample.ids).copied();
        match ids.chain([self.pad_id]).max() {
            Some(id) if id as usize >= vocab => {
                Err(DataError::BeyondModel { file: self.file.clone(), vocab, id })
            }
            _ => Ok(()),
        }
    }

    /// The samples in file order, each of at most [`Self::seq`] tokens.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Which samples stand in each sequence, one after the other; together they have at most [`Self::seq`] tokens.
    pub fn sequences(&self) -> &[Vec<usize>] {
        &self.sequences
    }

    /// Sequence length in tokens.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// The token that fills sequences up.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// What became of the rows.
    pub fn report(&self) -> &DatasetReport {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing;

    fn load(text: &str, seq: usize) -> Result<Dataset, DataError> {
        Dataset::new(&Rows::parse("a.jsonl", text.as_bytes())?, testing::tokenizer(), seq)
    }

    fn check_refused(text: &str, seq: usize, expect: &str) {
        assert_eq!(load(text, seq).unwrap_err().to_string(), expect);
    }

    #[test]
    fn long_samples_are_cut_and_those_with_nothing_left_dropped() {
        let text = r#"{"prompt": "abc", "completion": "d"}
            {"prompt": "abcd", "completion": "efg"}
            {"prompt": "abcdefgh", "completion": "i"}"#;
        let dataset = load(text, 6).unwrap();
        let report = DatasetReport {
            rows: 3,
            cut: 2,
            dropped: 1,
            tokens: 12,
            counted_tokens: 3,
            longest: 11,
            sequences: 2,
            warnings: vec![],
        };
        assert_eq!(dataset.report(), &report);
        assert_eq!(dataset.samples().iter().map(|sample| sample.ids.len()).collect::<Vec<_>>(), [6, 6]);
    }

    #[test]
    fn packing_leaves_the_samples_and_puts_them_into_fewer_sequences() {
        let texts = ["abcde", "b", "cc", "abcdefg"].map(|text| format!("{{\"text\": \"{text}\"}}"));
        let dataset = load(&texts.join("\n"), 8).unwrap();
        let of_tokens = |dataset: &Dataset| -> Vec<usize> {
            dataset.samples().iter().map(|sample| sample.ids.len()).collect()
        };
        assert_eq!(of_tokens(&dataset), [6, 2, 3, 8]);
        assert_eq!(
            (dataset.sequences(), dataset.report().padding(8)),
            (&[vec![0], vec![1], vec![2], vec![3]][..], 0.40625)
        );
        let packed = dataset.clone().packed();
        assert_eq!(packed.samples(), dataset.samples());
        assert_eq!(packed.sequences(), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(packed.report(), &DatasetReport { sequences: 3, ..dataset.report().clone() });
        assert_eq!(packed.report().padding(8), 5.0 / 24.0);
    }

    #[test]
    fn a_dataset_with_nothing_to_learn_is_an_error() {
        check_refused(
            r#"{"prompt": "abcdefgh", "completion": "i"}"#,
            4,
            "a.jsonl: expected a token to learn within the first 4 tokens of a row to train on, found none",
        );
        check_refused(r#"{"text": "a"}"#, 1, "expected at least 2 for `seq`, found: 1");
    }

    #[test]
    fn rows_that_the_template_refuses_are_told_by_line() {
        let source = "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not that') }}{% endif %}\
            {{ m.content }}{% endfor %}";
        let row = |question: &str| {
            format!(
                r#"{{"messages": [{{"role": "user", "content": "{question}"}}, {{"role": "assistant", "content": "a"}}]}}"#
            )
        };
        let text = [row("yes"), row("no"), row("no")].join("\n");
        let rows = Rows::parse("a.jsonl", text.as_bytes()).unwrap();
        let error = Dataset::new(&rows, &testing::tokenizer_with(source), 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.jsonl:2: chat_template.jinja:1: not that (and the same in 1 more line)"
        );
    }

    #[test]
    fn tokens_that_the_model_lacks_are_found() {
        let dataset = load(r#"{"text": "the"}"#, 8).unwrap();
        let pad = dataset.pad_id();
        assert!(dataset.check_vocab(pad as usize + 1).is_ok());
        assert_eq!(
            dataset.check_vocab(pad as usize).unwrap_err().to_string(),
            format!("a.jsonl: expected token ids below the model's vocabulary of {pad}, found: {pad}")
        );
    }
}
