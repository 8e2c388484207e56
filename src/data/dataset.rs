use rayon::prelude::*;

use super::{
    DataError, DatasetReport, SampleFile, TokenizedSample, Tokenizer, encode::Encoder,
    line_diagnostics::LineDiagnostics, packing::best_fit, report::Warnings,
};
use crate::base::Diagnostic;

/// Tokenized samples of at most `seq` tokens each, and their distribution over the rows of batches. Never empty.
#[derive(Clone, Debug)]
pub struct Dataset {
    samples: Vec<TokenizedSample>,
    rows: Vec<Vec<usize>>,
    file: String,
    seq: usize,
    pad_id: u32,
    report: DatasetReport,
}

impl Dataset {
    /// Encodes the samples of a file, truncated to `seq` tokens, one in each row.
    ///
    /// # Errors
    /// [`DataError::TooSmall`] if `seq` is below two; [`DataError::SampleNeedsTemplate`] for a conversation without a
    /// chat template; [`DataError::NoEos`] for a completion without an end-of-sequence token;
    /// [`DataError::InvalidSamples`] with the samples that cannot be encoded, by line; [`DataError::NoLabels`] if no
    /// sample has a label within `seq` tokens.
    pub fn new(file: &SampleFile, tokenizer: &Tokenizer, seq: usize) -> Result<Self, DataError> {
        if seq < 2 {
            return Err(DataError::TooSmall { setting: "seq", min: 2, found: seq });
        }
        let SampleFile { file, samples, warnings: file_warnings } = file;
        let encoder = Encoder::new(tokenizer, seq)?;
        let encoded: Vec<_> = samples.par_iter().map(|sample| encoder.encode(&sample.content)).collect();
        let mut report = DatasetReport { samples: samples.len(), ..DatasetReport::default() };
        let mut warnings = Warnings::default();
        let mut diagnostics = LineDiagnostics::of(file);
        let mut admitted = Vec::new();
        for (sample, encoded) in samples.iter().zip(encoded) {
            match encoded {
                Ok((tokenized, notes)) => {
                    warnings.count(sample.line, notes);
                    admitted.extend(report.admit(tokenized, seq));
                }
                Err(DataError::NoChatTemplate) => {
                    return Err(DataError::SampleNeedsTemplate { file: file.clone(), line: sample.line });
                }
                Err(error @ DataError::NoEos) => return Err(error),
                Err(error) => {
                    let hint = error.hint();
                    diagnostics.push(sample.line, Diagnostic { hint, ..error.to_string().into() });
                }
            }
        }
        diagnostics.into_result(())?;
        if admitted.is_empty() {
            return Err(DataError::NoLabels { file: file.clone(), seq });
        }
        report.rows = admitted.len();
        report.warnings =
            file_warnings.iter().cloned().chain(warnings.into_diagnostics(file, tokenizer)).collect();
        Ok(Self {
            rows: (0..admitted.len()).map(|sample| vec![sample]).collect(),
            samples: admitted,
            file: file.clone(),
            seq,
            pad_id: tokenizer.pad_id(),
            report,
        })
    }

    /// As [`Self::new`] for samples to evaluate on; `None` if no sample has a label within `seq` tokens.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn held_out(file: &SampleFile, tokenizer: &Tokenizer, seq: usize) -> Result<Option<Self>, DataError> {
        match Self::new(file, tokenizer, seq) {
            Err(DataError::NoLabels { .. }) => Ok(None),
            dataset => dataset.map(Some),
        }
    }

    /// Adds a warning to the report.
    pub fn warn(&mut self, warning: Diagnostic) {
        self.report.warnings.push(warning);
    }

    /// The same samples with several in a row where they fit, which reduces padding.
    pub fn packed(self) -> Self {
        let lengths: Vec<usize> = self.samples.iter().map(|sample| sample.ids.len()).collect();
        let rows = best_fit(&lengths, self.seq);
        let report = DatasetReport { rows: rows.len(), ..self.report };
        Self { rows, report, ..self }
    }

    /// Checks that every token id, padding included, is below the model's vocabulary size.
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
    pub fn samples(&self) -> &[TokenizedSample] {
        &self.samples
    }

    /// Indices of the samples in each row, in their order; the samples of a row have at most [`Self::seq`] tokens
    /// together.
    pub fn rows(&self) -> &[Vec<usize>] {
        &self.rows
    }

    /// Length of a row in tokens.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// Id of the padding token.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// Counts of samples and tokens, and warnings.
    pub fn report(&self) -> &DatasetReport {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing;

    fn load(text: &str, seq: usize) -> Result<Dataset, DataError> {
        Dataset::new(&SampleFile::parse("a.jsonl", text.as_bytes())?, testing::tokenizer(), seq)
    }

    fn check_refused(text: &str, seq: usize, expect: &str) {
        assert_eq!(load(text, seq).unwrap_err().to_string(), expect);
    }

    #[test]
    fn long_samples_are_truncated_and_samples_without_labels_dropped() {
        let text = r#"{"prompt": "abc", "completion": "d"}
            {"prompt": "abcd", "completion": "efg"}
            {"prompt": "abcdefgh", "completion": "i"}"#;
        let dataset = load(text, 6).unwrap();
        let report = DatasetReport {
            samples: 3,
            truncated: 2,
            dropped: 1,
            tokens: 12,
            num_label_tokens: 3,
            longest: 11,
            rows: 2,
            warnings: vec![],
        };
        assert_eq!(dataset.report(), &report);
        assert_eq!(dataset.samples().iter().map(|sample| sample.ids.len()).collect::<Vec<_>>(), [6, 6]);
    }

    #[test]
    fn packing_puts_the_same_samples_into_fewer_rows() {
        let texts = ["abcde", "b", "cc", "abcdefg"].map(|text| format!("{{\"text\": \"{text}\"}}"));
        let dataset = load(&texts.join("\n"), 8).unwrap();
        let of_tokens = |dataset: &Dataset| -> Vec<usize> {
            dataset.samples().iter().map(|sample| sample.ids.len()).collect()
        };
        assert_eq!(of_tokens(&dataset), [6, 2, 3, 8]);
        assert_eq!(
            (dataset.rows(), dataset.report().padding(8)),
            (&[vec![0], vec![1], vec![2], vec![3]][..], 0.40625)
        );
        let packed = dataset.clone().packed();
        assert_eq!(packed.samples(), dataset.samples());
        assert_eq!(packed.rows(), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(packed.report(), &DatasetReport { rows: 3, ..dataset.report().clone() });
        assert_eq!(packed.report().padding(8), 5.0 / 24.0);
    }

    #[test]
    fn a_dataset_without_labels_is_an_error() {
        check_refused(
            r#"{"prompt": "abcdefgh", "completion": "i"}"#,
            4,
            "a.jsonl: expected a sample with a label within its first 4 tokens, found none",
        );
        check_refused(r#"{"text": "a"}"#, 1, "expected at least 2 for `seq`, found: 1");
    }

    #[test]
    fn samples_that_the_template_rejects_are_reported_by_line() {
        let source = "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not that') }}{% endif %}\
            {{ m.content }}{% endfor %}";
        let sample = |question: &str| {
            format!(
                r#"{{"messages": [{{"role": "user", "content": "{question}"}}, {{"role": "assistant", "content": "a"}}]}}"#
            )
        };
        let text = [sample("yes"), sample("no"), sample("no")].join("\n");
        let file = SampleFile::parse("a.jsonl", text.as_bytes()).unwrap();
        let error = Dataset::new(&file, &testing::tokenizer_with(source), 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.jsonl:2: chat_template.jinja:1: not that (and the same in 1 more line)"
        );
    }

    #[test]
    fn token_ids_beyond_the_vocabulary_are_an_error() {
        let dataset = load(r#"{"text": "the"}"#, 8).unwrap();
        let pad = dataset.pad_id();
        assert!(dataset.check_vocab(pad as usize + 1).is_ok());
        assert_eq!(
            dataset.check_vocab(pad as usize).unwrap_err().to_string(),
            format!("a.jsonl: expected token ids below the model's vocabulary of {pad}, found: {pad}")
        );
    }
}
