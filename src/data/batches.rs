use super::{DataError, Dataset, Sample, order::Shuffle};
use crate::base::{ArrayShape, Literal};

/// Sequences of token ids and what is to be learned of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `s32[batch, seq]`, each row a sample with padding after it.
    pub input_ids: Literal,
    /// `s32[batch, seq]`: the id at the same place of `input_ids`, or [`Batch::IGNORED`] where it is not to
    /// be learned. Aligned as Hugging Face aligns labels: the shift to the next token is the model's.
    pub labels: Literal,
    /// Labels that the loss counts: those of `labels` from position one of each row on.
    pub counted: usize,
}

impl Batch {
    /// The label of a token that is not to be learned, as PyTorch's `cross_entropy` knows it.
    pub const IGNORED: i32 = -100;

    /// A batch of given tokens and labels, both `s32[batch, seq]`.
    ///
    /// # Panics
    /// If their shapes differ or are not of two dimensions.
    pub fn new(input_ids: Literal, labels: Literal) -> Self {
        assert_eq!(input_ids.shape(), labels.shape(), "tokens and labels of one shape");
        let seq = labels.shape().dims[1];
        let values = labels.to_f64s();
        let counted = values.chunks(seq).flat_map(|row| &row[1..]);
        let counted = counted.filter(|label| **label != f64::from(Self::IGNORED)).count();
        Self { input_ids, labels, counted }
    }

    /// The same rows, and below them as many that count for nothing as make their number a multiple of `parts`.
    ///
    /// # Panics
    /// If `parts` is zero.
    pub fn filled_to_multiple(&self, parts: usize) -> Self {
        let sizes = &self.input_ids.shape().dims;
        let shape =
            ArrayShape::new(self.input_ids.shape().dtype, [sizes[0].next_multiple_of(parts), sizes[1]]);
        let fill = |literal: &Literal, value: i32| {
            let mut bytes = literal.bytes().to_vec();
            let more = (shape.bytes() - bytes.len()) / value.to_le_bytes().len();
            bytes.extend(std::iter::repeat_n(value.to_le_bytes(), more).flatten());
            Literal::from_bytes(shape.clone(), bytes)
        };
        Self::new(fill(&self.input_ids, 0), fill(&self.labels, Self::IGNORED))
    }

    /// Each row as a batch of its own.
    pub fn rows(&self) -> Vec<Self> {
        let row = |literal: &Literal, row: usize| {
            let seq = literal.shape().dims[1];
            let bytes = literal.shape().bytes() / literal.shape().dims[0];
            let shape = ArrayShape::new(literal.shape().dtype, [1, seq]);
            Literal::from_bytes(shape, literal.bytes()[row * bytes..(row + 1) * bytes].to_vec())
        };
        let rows = 0..self.input_ids.shape().dims[0];
        rows.map(|index| Self::new(row(&self.input_ids, index), row(&self.labels, index))).collect()
    }

    /// Rows past the last of `samples` are nothing but padding.
    fn of<'a>(samples: impl Iterator<Item = &'a Sample>, batch: usize, dataset: &Dataset) -> Self {
        let seq = dataset.seq();
        let mut input_ids = vec![dataset.pad_id().cast_signed(); batch * seq];
        let mut labels = vec![Self::IGNORED; batch * seq];
        let mut counted = 0;
        let rows = input_ids.chunks_exact_mut(seq).zip(labels.chunks_exact_mut(seq));
        for (sample, (input_row, label_row)) in samples.zip(rows) {
            let tokens = sample.ids.iter().zip(&sample.counted);
            for ((&id, &is_counted), (input, label)) in tokens.zip(input_row.iter_mut().zip(label_row)) {
                *input = id.cast_signed();
                if is_counted {
                    *label = *input;
                }
            }
            counted += sample.labels_within(seq);
        }
        let dims = [batch, seq];
        Self { input_ids: Literal::s32s(dims, &input_ids), labels: Literal::s32s(dims, &labels), counted }
    }
}

/// The endless stream of training batches.
///
/// Each epoch is a new permutation of the samples, and one follows the other without a gap: a batch may hold
/// the end of one and the beginning of the next. The batch of a step depends on the dataset, the batch size,
/// the seed and the step alone, so that [`Self::step`] is all that a checkpoint has to save.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    dataset: &'a Dataset,
    batch: usize,
    seed: u64,
    step: u64,
    epoch: u64,
    order: Vec<usize>,
}

impl<'a> Batches<'a> {
    /// Batches of `batch` sequences, beginning with that of `step`, counted from zero.
    ///
    /// # Errors
    /// [`DataError::TooSmall`] if `batch` is zero.
    pub fn from_step(dataset: &'a Dataset, batch: usize, seed: u64, step: u64) -> Result<Self, DataError> {
        at_least_one(batch)?;
        let order = Shuffle::epoch(seed, 0).permutation(dataset.samples().len());
        Ok(Self { dataset, batch, seed, step, epoch: 0, order })
    }

    /// The step whose batch comes next.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The sample at a place of the stream.
    fn sample(&mut self, place: u128) -> &'a Sample {
        let n_samples = self.order.len() as u128;
        let epoch = (place / n_samples) as u64;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.order = Shuffle::epoch(self.seed, epoch).permutation(self.order.len());
        }
        &self.dataset.samples()[self.order[(place % n_samples) as usize]]
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let first = u128::from(self.step) * self.batch as u128;
        let samples: Vec<_> = (first..).take(self.batch).map(|place| self.sample(place)).collect();
        self.step += 1;
        Some(Batch::of(samples.into_iter(), self.batch, self.dataset))
    }
}

/// Every sample once, in file order; the last batch is filled up with empty rows.
///
/// # Errors
/// [`DataError::TooSmall`] if `batch` is zero.
pub fn held_out_batches(dataset: &Dataset, batch: usize) -> Result<impl Iterator<Item = Batch>, DataError> {
    at_least_one(batch)?;
    Ok(dataset.samples().chunks(batch).map(move |samples| Batch::of(samples.iter(), batch, dataset)))
}

fn at_least_one(batch: usize) -> Result<(), DataError> {
    match batch {
        0 => Err(DataError::TooSmall { setting: "batch", least: 1, found: batch }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::data::{Rows, testing};

    /// Samples told apart by their lengths: row `i` holds the opening token and `i + 1` more.
    fn dataset(n_rows: usize) -> Dataset {
        let text: String = (1..=n_rows).map(|n| format!("{{\"text\": \"{}\"}}\n", "x".repeat(n))).collect();
        let rows = Rows::parse("a.jsonl", text.as_bytes()).unwrap();
        Dataset::new(&rows, testing::tokenizer(), 16).unwrap()
    }

    /// Which rows of [`dataset`] a batch holds.
    fn rows_of(batch: &Batch) -> Vec<usize> {
        let labels = batch.labels.to_f64s();
        labels
            .chunks(16)
            .map(|row| row.iter().filter(|&&label| label != f64::from(Batch::IGNORED)).count())
            .collect()
    }

    #[test]
    fn a_batch_pads_and_labels_what_counts() {
        let rows = Rows::parse("a.jsonl", br#"{"prompt": "a", "completion": "the"}"#).unwrap();
        let tokenizer = testing::tokenizer();
        let dataset = Dataset::new(&rows, tokenizer, 6).unwrap();
        let batch = Batches::from_step(&dataset, 1, 0, 0).unwrap().next().unwrap();
        let id = |token| tokenizer.token_id(token).unwrap().cast_signed();
        let (bos, a, the, eos, pad) =
            (id("<|im_start|>"), id("a"), id("the"), id("<|im_end|>"), id("<|pad|>"));
        assert_eq!(batch.input_ids, Literal::s32s([1, 6], &[bos, a, the, eos, pad, pad]));
        assert_eq!(batch.labels, Literal::s32s([1, 6], &[-100, -100, the, eos, -100, -100]));
        assert_eq!(batch.counted, 2);
    }

    #[test]
    fn held_out_batches_hold_every_sample_once_and_empty_rows_after() {
        let dataset = dataset(5);
        let batches: Vec<_> = held_out_batches(&dataset, 2).unwrap().collect();
        assert_eq!(batches.iter().map(rows_of).collect::<Vec<_>>(), [[2, 3], [4, 5], [6, 0]]);
        let counted: usize = batches.iter().map(|batch| batch.counted).sum();
        assert_eq!(counted, dataset.report().counted_tokens);
    }

    #[test]
    fn a_batch_without_sequences_is_refused() {
        let expect = "expected at least 1 for `batch`, found: 0";
        assert_eq!(Batches::from_step(&dataset(1), 0, 0, 0).unwrap_err().to_string(), expect);
        assert_eq!(held_out_batches(&dataset(1), 0).err().map(|e| e.to_string()).as_deref(), Some(expect));
    }

    proptest! {
        #[test]
        fn every_epoch_is_a_permutation(n_rows in 1..12_usize, batch in 1..9_usize, seed: u64) {
            let dataset = dataset(n_rows);
            let stream: Vec<usize> = Batches::from_step(&dataset, batch, seed, 0).unwrap()
                .take((3 * n_rows).div_ceil(batch))
                .flat_map(|batch| rows_of(&batch))
                .collect();
            for epoch in stream.chunks_exact(n_rows) {
                let mut rows = epoch.to_vec();
                rows.sort_unstable();
                prop_assert_eq!(rows, (2..n_rows + 2).collect::<Vec<_>>());
            }
        }

        #[test]
        fn resuming_equals_running_through(n_rows in 1..12_usize, batch in 1..9_usize, seed: u64, skipped in 0..20_usize) {
            let dataset = dataset(n_rows);
            let mut through = Batches::from_step(&dataset, batch, seed, 0).unwrap();
            let _ = through.by_ref().take(skipped).count();
            let resumed = Batches::from_step(&dataset, batch, seed, through.step()).unwrap();
            prop_assert_eq!(through.step(), skipped as u64);
            prop_assert!(through.take(5).eq(resumed.take(5)));
        }

        #[test]
        fn padding_never_counts(n_rows in 1..12_usize, batch in 1..9_usize, seed: u64) {
            let dataset = dataset(n_rows);
            let pad = f64::from(dataset.pad_id());
            for batch in Batches::from_step(&dataset, batch, seed, 0).unwrap().take(4) {
                let (ids, labels) = (batch.input_ids.to_f64s(), batch.labels.to_f64s());
                let counted = labels.chunks(16).flat_map(|row| &row[1..]).filter(|&&label| label >= 0.0).count();
                prop_assert_eq!(batch.counted, counted);
                for (id, label) in ids.into_iter().zip(labels) {
                    prop_assert_eq!(label, if id == pad { f64::from(Batch::IGNORED) } else { id });
                }
            }
        }
    }
}
