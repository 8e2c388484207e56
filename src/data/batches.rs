use std::num::NonZeroUsize;

use super::{Dataset, TokenizedSample, order::Shuffle};
use crate::base::Literal;

/// Rows of token ids with their labels. A row has one segment, or several where the dataset is packed, then padding.
///
/// ```
/// use hloom::{base::Literal, data::Batch};
///
/// // Two samples packed in a row of eight tokens, and two tokens of padding.
/// let tokens = Literal::s32s([1, 8], &[5, 6, 7, 8, 9, 4, 0, 0]);
/// let segments = Literal::s32s([1, 8], &[1, 1, 1, 2, 2, 2, 0, 0]);
/// let labels = Literal::s32s([1, 8], &[5, 6, 7, 8, 9, 4, Batch::IGNORED, Batch::IGNORED]);
/// let batch = Batch::with_segments(tokens, segments, labels);
/// assert!(batch.is_packed());
/// // The first token of a segment is not predicted from the segment before it.
/// assert_eq!((batch.num_segments, batch.num_label_tokens), (2, 4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `s32[batch, seq]`.
    pub input_ids: Literal,
    /// `s32[batch, seq]`: the segment of each token, counted from one in each row; zero for padding.
    pub segment_ids: Literal,
    /// `s32[batch, seq]`: the id at the same position of `input_ids`, or [`Batch::IGNORED`] for a token that is no label.
    /// As in Hugging Face models, labels are aligned with `input_ids` and the model shifts them. The first token of a segment is
    /// never a label, since the token before it belongs to another segment.
    pub labels: Literal,
    /// Number of labelled tokens.
    pub num_label_tokens: usize,
    /// Number of segments, without padding. A segment is a sample.
    pub num_segments: usize,
}

impl Batch {
    /// Label of a token that the loss ignores: the default `ignore_index` of PyTorch's `cross_entropy`.
    pub const IGNORED: i32 = -100;

    /// A batch of tokens and labels, both `s32[batch, seq]`, with one segment in each row.
    ///
    /// # Panics
    /// If the shapes differ or are not two-dimensional.
    pub fn new(input_ids: Literal, labels: Literal) -> Self {
        let segment_ids = Literal::s32s(labels.shape().dims.clone(), &vec![1; labels.shape().elements()]);
        Self::with_segments(input_ids, segment_ids, labels)
    }

    /// A batch with several segments in a row; the labels of their first tokens are ignored.
    ///
    /// # Panics
    /// If the shapes differ or are not two-dimensional.
    pub fn with_segments(input_ids: Literal, segment_ids: Literal, labels: Literal) -> Self {
        assert_eq!(input_ids.shape(), labels.shape(), "tokens and labels of equal shape");
        assert_eq!(input_ids.shape(), segment_ids.shape(), "tokens and segments of equal shape");
        let (rows, seq) = (labels.shape().dims[0], labels.shape().dims[1]);
        let (mut labels, segments) = (s32s(&labels), s32s(&segment_ids));
        let mut num_segments = 0;
        for (label_row, segment_row) in labels.chunks_mut(seq).zip(segments.chunks(seq)) {
            let mut before = None;
            for (label, segment) in label_row.iter_mut().zip(segment_row) {
                if before.replace(segment) != Some(segment) {
                    *label = Self::IGNORED;
                    num_segments += usize::from(*segment != 0);
                }
            }
        }
        let num_label_tokens = labels.iter().filter(|label| **label != Self::IGNORED).count();
        Self {
            input_ids,
            segment_ids,
            labels: Literal::s32s([rows, seq], &labels),
            num_label_tokens,
            num_segments,
        }
    }

    /// Whether a row has more than one segment.
    pub fn is_packed(&self) -> bool {
        s32s(&self.segment_ids).into_iter().any(|segment| segment > 1)
    }

    /// The same rows, followed by padding rows without labels up to a multiple of `num_shards` rows.
    ///
    /// # Panics
    /// If `num_shards` is zero.
    pub fn pad_to_multiple(&self, num_shards: usize) -> Self {
        let sizes = &self.input_ids.shape().dims;
        let dims = [sizes[0].next_multiple_of(num_shards), sizes[1]];
        let pad = |literal: &Literal, value: i32| {
            let mut values = s32s(literal);
            values.resize(dims[0] * dims[1], value);
            Literal::s32s(dims, &values)
        };
        Self {
            input_ids: pad(&self.input_ids, 0),
            segment_ids: pad(&self.segment_ids, 0),
            labels: pad(&self.labels, Self::IGNORED),
            num_label_tokens: self.num_label_tokens,
            num_segments: self.num_segments,
        }
    }

    /// The rows, each as a batch of one row.
    pub fn rows(&self) -> Vec<Self> {
        let seq = self.input_ids.shape().dims[1];
        let values = [&self.input_ids, &self.segment_ids, &self.labels].map(s32s);
        let row = |start: usize| {
            let [input_ids, segment_ids, labels] =
                values.each_ref().map(|values| Literal::s32s([1, seq], &values[start..start + seq]));
            Self::with_segments(input_ids, segment_ids, labels)
        };
        (0..values[0].len()).step_by(seq).map(row).collect()
    }

    /// A batch of `batch` rows of the dataset; rows past the last of `rows` are padding.
    fn of<'a>(rows: impl Iterator<Item = &'a [usize]>, batch: usize, dataset: &Dataset) -> Self {
        let seq = dataset.seq();
        let mut input_ids = vec![dataset.pad_id().cast_signed(); batch * seq];
        let mut segment_ids = vec![0; batch * seq];
        let mut labels = vec![Self::IGNORED; batch * seq];
        for (row, samples) in rows.enumerate() {
            let mut position = row * seq;
            for (&sample, segment) in samples.iter().zip(1..) {
                let TokenizedSample { ids, label_mask } = &dataset.samples()[sample];
                for (&id, &is_label) in ids.iter().zip(label_mask) {
                    input_ids[position] = id.cast_signed();
                    segment_ids[position] = segment;
                    if is_label {
                        labels[position] = input_ids[position];
                    }
                    position += 1;
                }
            }
        }
        let [input_ids, segment_ids, labels] =
            [input_ids, segment_ids, labels].map(|values| Literal::s32s([batch, seq], &values));
        Self::with_segments(input_ids, segment_ids, labels)
    }
}

fn s32s(literal: &Literal) -> Vec<i32> {
    literal.to_f64s().into_iter().map(|value| value as i32).collect()
}

/// Size of an update: `accumulate` batches of `batch` rows each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSize {
    /// Rows in a batch.
    pub batch: NonZeroUsize,
    /// Gradient accumulation steps: batches in an update.
    pub accumulate: NonZeroUsize,
}

impl UpdateSize {
    /// Rows in an update.
    fn rows(self) -> usize {
        self.batch.get().saturating_mul(self.accumulate.get())
    }

    /// Updates in an epoch of `n_rows` rows. The last one may end with padding rows.
    pub fn updates_per_epoch(self, n_rows: usize) -> usize {
        n_rows.div_ceil(self.rows())
    }
}

/// Endless iterator over the training batches, which returns those of one update at a time.
///
/// Each epoch is a new permutation of the dataset's rows with every row exactly once: the last batch of an epoch ends
/// with padding rows, and batches of padding alone are left out. The batches of an update depend on the dataset, the
/// sizes, the seed and the number of the update alone, so that a checkpoint has to save that number only.
#[derive(Clone, Debug)]
pub(crate) struct Batches<'a> {
    dataset: &'a Dataset,
    size: UpdateSize,
    seed: u64,
    /// Number of the next update, counted from zero.
    update: u64,
    epoch: u64,
    order: Vec<usize>,
}

impl<'a> Batches<'a> {
    /// Batches from `update` on, counted from zero.
    pub(crate) fn from_update(dataset: &'a Dataset, size: UpdateSize, seed: u64, update: u64) -> Self {
        let order = Shuffle::epoch(seed, 0).permutation(dataset.rows().len());
        Self { dataset, size, seed, update, epoch: 0, order }
    }
}

impl Iterator for Batches<'_> {
    type Item = Vec<Batch>;

    fn next(&mut self) -> Option<Vec<Batch>> {
        let n_rows = self.order.len();
        let per_epoch = self.size.updates_per_epoch(n_rows) as u64;
        let (epoch, in_epoch) = (self.update / per_epoch, (self.update % per_epoch) as usize);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.order = Shuffle::epoch(self.seed, epoch).permutation(n_rows);
        }
        self.update += 1;
        let rows = &self.order[in_epoch * self.size.rows()..];
        let rows = &rows[..rows.len().min(self.size.rows())];
        let batch = self.size.batch.get();
        let batch_of = |rows: &[usize]| {
            let rows = rows.iter().map(|&row| self.dataset.rows()[row].as_slice());
            Batch::of(rows, batch, self.dataset)
        };
        Some(rows.chunks(batch).map(batch_of).collect())
    }
}

/// Batches with every row of the dataset once, in order; the last batch ends with padding rows.
pub(crate) fn held_out_batches(dataset: &Dataset, batch: NonZeroUsize) -> impl Iterator<Item = Batch> {
    let batches = dataset.rows().chunks(batch.get());
    batches.map(move |rows| Batch::of(rows.iter().map(Vec::as_slice), batch.get(), dataset))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::data::{SampleFile, testing};

    const SEQ: usize = 16;

    fn nonzero(value: usize) -> NonZeroUsize {
        NonZeroUsize::new(value).unwrap()
    }

    fn size_of(batch: usize, accumulate: usize) -> UpdateSize {
        UpdateSize { batch: nonzero(batch), accumulate: nonzero(accumulate) }
    }

    /// A dataset whose samples have different lengths: sample `i` has `i + 2` tokens.
    fn dataset(n_samples: usize) -> Dataset {
        let text: String =
            (1..=n_samples).map(|n| format!("{{\"text\": \"{}\"}}\n", "x".repeat(n))).collect();
        let file = SampleFile::parse("a.jsonl", text.as_bytes()).unwrap();
        Dataset::new(&file, testing::tokenizer(), SEQ).unwrap()
    }

    /// Such datasets, packed and not.
    fn datasets() -> impl Strategy<Value = Dataset> {
        let plain = (1..12_usize).prop_map(dataset);
        prop_oneof![plain.clone(), plain.prop_map(Dataset::packed)]
    }

    fn sizes() -> impl Strategy<Value = UpdateSize> {
        (1..9_usize, 1..4_usize).prop_map(|(batch, accumulate)| size_of(batch, accumulate))
    }

    /// Lengths of the segments in each row of a batch.
    fn samples_of(batch: &Batch) -> Vec<Vec<usize>> {
        let segments = s32s(&batch.segment_ids);
        let of_row = |row: &[i32]| -> Vec<usize> {
            let samples = row.chunk_by(|a, b| a == b).filter(|run| run[0] != 0);
            samples.map(<[i32]>::len).collect()
        };
        segments.chunks(SEQ).map(of_row).collect()
    }

    #[test]
    fn a_batch_has_padding_and_labels() {
        let text = r#"{"prompt": "a", "completion": "the"}
            {"text": "atx"}"#;
        let file = SampleFile::parse("a.jsonl", text.as_bytes()).unwrap();
        let tokenizer = testing::tokenizer();
        let id = |token| tokenizer.token_id(token).unwrap().cast_signed();
        let (bos, a, the, eos, pad) =
            (id("<|im_start|>"), id("a"), id("the"), id("<|im_end|>"), id("<|pad|>"));
        let (at, x) = (id("at"), id("x"));
        let check = |dataset: Dataset, expect: [&[i32]; 3], num_label_tokens: usize| {
            let dims = [expect[0].len() / dataset.seq(), dataset.seq()];
            let batch = held_out_batches(&dataset, nonzero(dims[0])).next().unwrap();
            let found = [&batch.input_ids, &batch.segment_ids, &batch.labels];
            assert_eq!(found, expect.map(|values| Literal::s32s(dims, values)).each_ref());
            assert_eq!(batch.num_label_tokens, num_label_tokens);
        };
        let dataset = Dataset::new(&file, tokenizer, 5).unwrap();
        check(
            dataset,
            [
                &[bos, a, the, eos, pad, bos, at, x, pad, pad],
                &[1, 1, 1, 1, 0, 1, 1, 1, 0, 0],
                &[-100, -100, the, eos, -100, -100, at, x, -100, -100],
            ],
            4,
        );
        let packed = Dataset::new(&file, tokenizer, 8).unwrap().packed();
        check(
            packed,
            [
                &[bos, a, the, eos, bos, at, x, pad],
                &[1, 1, 1, 1, 2, 2, 2, 0],
                &[-100, -100, the, eos, -100, at, x, -100],
            ],
            4,
        );
    }

    #[test]
    fn rows_of_given_tokens_have_one_segment() {
        let ids = Literal::s32s([2, 3], &[5, 6, 7, 8, 9, 0]);
        let batch = Batch::new(ids.clone(), Literal::s32s([2, 3], &[5, 6, -100, 8, 9, 0]));
        assert_eq!(batch.segment_ids, Literal::s32s([2, 3], &[1; 6]));
        assert_eq!(batch.labels, Literal::s32s([2, 3], &[-100, 6, -100, -100, 9, 0]));
        assert_eq!((batch.num_label_tokens, batch.is_packed()), (3, false));
        assert_eq!(batch.rows()[1].labels, Literal::s32s([1, 3], &[-100, 9, 0]));
        let padded = batch.pad_to_multiple(3);
        assert_eq!(padded.rows()[..2], batch.rows());
        assert_eq!(padded.rows()[2].segment_ids, Literal::s32s([1, 3], &[0; 3]));
        assert_eq!((padded.rows()[2].num_label_tokens, padded.num_label_tokens), (0, 3));
        let two = Literal::s32s([2, 3], &[1, 2, 2, 1, 1, 0]);
        let packed = Batch::with_segments(ids.clone(), two, ids);
        assert_eq!(packed.labels, Literal::s32s([2, 3], &[-100, -100, 7, -100, 9, -100]));
        assert_eq!((packed.num_label_tokens, packed.is_packed()), (2, true));
    }

    #[test]
    fn held_out_batches_have_every_sample_once_then_padding_rows() {
        let check = |dataset: &Dataset, expect: [Vec<Vec<Vec<usize>>>; 1]| {
            let batches: Vec<_> = held_out_batches(dataset, nonzero(2)).collect();
            assert_eq!([batches.iter().map(samples_of).collect::<Vec<_>>()], expect);
            let num_label_tokens: usize = batches.iter().map(|batch| batch.num_label_tokens).sum();
            assert_eq!(num_label_tokens, dataset.report().num_label_tokens);
        };
        let dataset = dataset(5);
        check(&dataset, [vec![vec![vec![2], vec![3]], vec![vec![4], vec![5]], vec![vec![6], vec![]]]]);
        check(&dataset.packed(), [vec![vec![vec![2, 3], vec![4, 5, 6]]]]);
    }

    #[test]
    fn the_last_batch_of_an_epoch_ends_with_padding_rows() {
        let check = |n_rows: usize, [batch, accumulate]: [usize; 2], expect: &[&[usize]]| {
            let dataset = dataset(n_rows);
            let size = size_of(batch, accumulate);
            let rows = |batch: &Batch| samples_of(batch).into_iter().filter(|row| !row.is_empty()).count();
            let updates = Batches::from_update(&dataset, size, 0, 0).take(size.updates_per_epoch(n_rows));
            let found: Vec<Vec<usize>> = updates.map(|update| update.iter().map(rows).collect()).collect();
            assert_eq!(found, expect);
        };
        check(7, [4, 1], &[&[4], &[3]]);
        check(3, [4, 1], &[&[3]]);
        check(8, [4, 1], &[&[4], &[4]]);
        check(7, [2, 2], &[&[2, 2], &[2, 1]]);
        check(5, [2, 2], &[&[2, 2], &[1]]);
    }

    proptest! {
        #[test]
        fn every_epoch_has_every_sample_exactly_once(dataset in datasets(), size in sizes(), seed: u64) {
            let per_epoch = size.updates_per_epoch(dataset.rows().len());
            let updates: Vec<_> = Batches::from_update(&dataset, size, seed, 0).take(3 * per_epoch).collect();
            for epoch in updates.chunks(per_epoch) {
                let batches = epoch.concat();
                let mut samples: Vec<usize> = batches.iter().flat_map(samples_of).flatten().collect();
                samples.sort_unstable();
                prop_assert_eq!(samples, (2..dataset.samples().len() + 2).collect::<Vec<_>>());
                let totals = (batches.iter().map(|b| b.num_segments).sum(), batches.iter().map(|b| b.num_label_tokens).sum());
                prop_assert_eq!(totals, (dataset.samples().len(), dataset.report().num_label_tokens));
                prop_assert!(epoch.iter().all(|update| update.len() <= size.accumulate.get()));
                prop_assert!(batches.iter().all(|batch| batch.num_segments > 0));
            }
        }

        #[test]
        fn resuming_equals_running_through(dataset in datasets(), size in sizes(), seed: u64, skipped in 0..20_usize) {
            let mut through = Batches::from_update(&dataset, size, seed, 0);
            let _ = through.by_ref().take(skipped).count();
            let resumed = Batches::from_update(&dataset, size, seed, through.update);
            prop_assert_eq!(through.update, skipped as u64);
            prop_assert!(through.take(5).eq(resumed.take(5)));
        }

        #[test]
        fn rows_have_complete_samples_whose_first_token_is_no_label(dataset in datasets(), size in sizes(), seed: u64) {
            for batch in Batches::from_update(&dataset, size, seed, 0).take(4).flatten() {
                let [ids, segments, labels] = [&batch.input_ids, &batch.segment_ids, &batch.labels].map(s32s);
                let mut num_label_tokens = 0;
                for ((ids, segments), labels) in ids.chunks(SEQ).zip(segments.chunks(SEQ)).zip(labels.chunks(SEQ)) {
                    let mut position = 0;
                    for (run, expect) in segments.chunk_by(|a, b| a == b).zip(1..) {
                        let (ids, labels) = (&ids[position..position + run.len()], &labels[position..position + run.len()]);
                        position += run.len();
                        prop_assert_eq!(labels[0], Batch::IGNORED);
                        if run[0] == 0 {
                            prop_assert_eq!(position, SEQ);
                            prop_assert!(ids.iter().all(|&id| id == dataset.pad_id().cast_signed()));
                            prop_assert!(labels.iter().all(|&label| label == Batch::IGNORED));
                        } else {
                            let sample = &dataset.samples()[run.len() - 2];
                            prop_assert_eq!(run[0], expect);
                            prop_assert!(ids.iter().eq(sample.ids.iter().map(|id| id.cast_signed()).collect::<Vec<_>>().iter()));
                            prop_assert_eq!(&labels[1..], &ids[1..]);
                            num_label_tokens += run.len() - 1;
                        }
                    }
                }
                prop_assert_eq!(batch.num_label_tokens, num_label_tokens);
            }
        }
    }
}
