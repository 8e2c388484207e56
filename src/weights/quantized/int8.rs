//! 8-bit integers, with a scale for each row: the largest magnitude becomes 127.

use std::ops::Range;

use rayon::prelude::*;

use super::super::{
    WeightsError,
    quantized::blockwise::{Matrix, Source, absmax, float, put_floats, round_ties_even},
};

pub(crate) const LARGEST: f32 = 127.0;

pub(super) fn quantize(
    matrix: Matrix,
    source: &dyn Source,
    codes: &mut [u8],
    scale: &mut [u8],
) -> Result<(), WeightsError> {
    let columns = matrix.columns;
    let rows = codes.par_chunks_mut(columns.max(1)).enumerate().map(|(row, codes)| {
        let mut values = vec![0.0; columns];
        source.read(row * columns..(row + 1) * columns, &mut values)?;
        let max = absmax(&values);
        let factor = if max > 0.0 { LARGEST / max } else { 0.0 };
        for (value, code) in values.iter().zip(codes) {
            *code = (round_ties_even(value * factor) as i8).cast_unsigned();
        }
        Ok(max / LARGEST)
    });
    put_floats(rows.collect::<Result<Vec<f32>, WeightsError>>()?, scale);
    Ok(())
}

pub(super) fn dequantize(columns: usize, codes: &[u8], scale: &[u8], range: Range<usize>, out: &mut [f32]) {
    for (at, out) in range.zip(out) {
        *out = f32::from(codes[at].cast_signed()) * float(scale, at / columns);
    }
}
