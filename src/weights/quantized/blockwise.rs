//! What the schemes have in common: weights read in pieces, blocks, codes and scales as bytes.

use std::ops::Range;

use rayon::prelude::*;

use super::super::WeightsError;
use crate::base::DType;

/// The values of a weight `[rows, columns]`, read in pieces.
pub(crate) trait Source: Sync {
    /// Reads the values `range` of the flattened weight, all of them finite.
    fn read(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError>;
}

impl<F: Fn(Range<usize>, &mut [f32]) -> Result<(), WeightsError> + Sync> Source for F {
    fn read(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        self(range, out)
    }
}

/// The size of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub columns: usize,
}

impl Matrix {
    pub(super) fn numel(self) -> usize {
        self.rows * self.columns
    }
}

/// Values that a thread quantizes at once; a multiple of two and of every block.
pub(super) const CHUNK: usize = 1 << 14;

/// Reads a weight in chunks, in parallel, and calls `quantize` for each block of `block` values with the block's bytes of the
/// codes, of which `per_byte` are in one byte. Returns what it returns, for each block.
pub(super) fn blockwise<T: Send>(
    matrix: Matrix,
    source: &dyn Source,
    (block, per_byte): (usize, usize),
    codes: &mut [u8],
    quantize: impl Fn(&[f32], &mut [u8]) -> T + Sync,
) -> Result<Vec<T>, WeightsError> {
    let numel = matrix.numel();
    let chunks = codes.par_chunks_mut(CHUNK / per_byte).enumerate();
    let chunks = chunks.map(|(chunk, codes)| {
        let range = chunk * CHUNK..numel.min((chunk + 1) * CHUNK);
        let mut values = vec![0.0; range.len()];
        source.read(range, &mut values)?;
        let blocks = values.chunks(block).zip(codes.chunks_mut(block / per_byte));
        Ok(blocks.map(|(values, codes)| quantize(values, codes)).collect::<Vec<_>>())
    });
    let chunks: Vec<Vec<T>> = chunks.collect::<Result<_, WeightsError>>()?;
    Ok(chunks.into_iter().flatten().collect())
}

/// The code of a value among those that two share a byte.
pub(super) fn nibble(codes: &[u8], at: usize) -> u8 {
    if at.is_multiple_of(2) { codes[at / 2] >> 4 } else { codes[at / 2] & 15 }
}

/// Two codes in each byte, the first in the high nibble; a missing last one is zero.
pub(super) fn pack(codes: &[u8], out: &mut [u8]) {
    for (pair, out) in codes.chunks(2).zip(out) {
        *out = pair[0] << 4 | pair.get(1).copied().unwrap_or(0);
    }
}

/// Element `at` of float32 bytes.
pub(super) fn float(bytes: &[u8], at: usize) -> f32 {
    let bytes = bytes[DType::F32.bytes() * at..].first_chunk().expect("a float has four bytes");
    f32::from_le_bytes(*bytes)
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    (0..bytes.len() / 4).map(|at| float(bytes, at)).collect()
}

pub(super) fn put_floats(values: impl IntoIterator<Item = f32>, out: &mut [u8]) {
    for (value, out) in values.into_iter().zip(out.as_chunks_mut().0) {
        *out = value.to_le_bytes();
    }
}

/// A number of magnitude below 2^22 rounded to the nearest integer, ties to even: without a call, where the processor has no
/// instruction for it.
pub(super) fn round_ties_even(value: f32) -> f32 {
    /// Where neighbouring float32 are integers.
    const INTEGERS: f32 = 12_582_912.0;
    (value + INTEGERS) - INTEGERS
}

/// The largest magnitude.
pub(super) fn absmax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |max, value| value.abs().max(max))
}
