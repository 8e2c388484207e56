//! 4-bit NormalFloat, with the bits of bitsandbytes. Source: `quantize_4bit` and
//! `quantize_blockwise` of bitsandbytes 0.50 on CPUs.

use std::{ops::Range, sync::LazyLock};

use super::super::{
    WeightsError,
    quantized::blockwise::{Matrix, Source, absmax, blockwise, nibble, pack, put_floats},
};
use crate::base::codebook::{NF4, dynamic_map};

const BLOCK: usize = 64;

/// Elements of `absmax` in a block of double quantization.
pub(crate) const NESTED: usize = 256;

/// The largest position in the grid that codes of `absmax` are found by.
const GRID: f32 = 65535.0;

/// Below it, the reciprocal of a float32 is infinite.
const SMALLEST: f32 = 1e-38;

/// The values of 8-bit codes of `absmax`.
pub(super) static DYNAMIC_MAP: LazyLock<Vec<f32>> = LazyLock::new(dynamic_map);

/// The middles between neighbouring values of the table: a value above as many of them has that code.
static MIDDLES: LazyLock<[f32; 15]> =
    LazyLock::new(|| std::array::from_fn(|code| (NF4[code] + NF4[code + 1]) / 2.0));

pub(super) fn quantize(
    matrix: Matrix,
    source: &dyn Source,
    codes: &mut [u8],
    out: &mut [u8],
) -> Result<(), WeightsError> {
    let middles = *MIDDLES;
    let all = blockwise(matrix, source, (BLOCK, 2), codes, |values, out| {
        let (max, scaled) = scale_to_one(values);
        let mut codes = [0; BLOCK];
        // Comparisons without branches, which the compiler makes vectors of.
        for (code, value) in codes.iter_mut().zip(scaled) {
            *code = middles.iter().map(|middle| u8::from(value > *middle)).sum();
        }
        pack(&codes[..values.len().next_multiple_of(2)], out);
        max
    })?;
    put_floats(all, out);
    Ok(())
}

/// The largest magnitude of a block, and its values divided by it. An incomplete block is divided, a complete one multiplied
/// with the reciprocal.
fn scale_to_one(values: &[f32]) -> (f32, [f32; BLOCK]) {
    let max = absmax(values);
    let mut scaled = [0.0; BLOCK];
    if values.len() == BLOCK {
        let factor = 1.0 / max.max(SMALLEST);
        scaled.iter_mut().zip(values).for_each(|(scaled, value)| *scaled = (value * factor).clamp(-1.0, 1.0));
        return (max, scaled);
    }
    let max = max.max(SMALLEST);
    scaled.iter_mut().zip(values).for_each(|(scaled, value)| *scaled = (value / max).clamp(-1.0, 1.0));
    (max, scaled)
}

/// Double quantization: subtracts the mean, and quantizes to 8-bit codes with one float32 for each block.
pub(super) fn quantize_absmax(values: &[f32], codes: &mut [u8], nested_absmax: &mut [u8], offset: &mut [u8]) {
    let mean = sum(values) / values.len() as f32;
    let table: Vec<f64> = DYNAMIC_MAP.iter().copied().map(f64::from).collect();
    let middles: Vec<f64> = table.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    let blocks = values.chunks(NESTED).zip(codes.chunks_mut(NESTED));
    let all = blocks.map(|(values, codes)| {
        let centered: Vec<f32> = values.iter().map(|value| value - mean).collect();
        let max = absmax(&centered);
        let factor = 1.0 / max;
        for (value, code) in centered.iter().zip(codes) {
            // The kernel for CPUs rounds to a grid of 65536 values between -1 and 1, and takes the code that is nearest to that.
            let position = ((value * factor + 1.0) * 0.5 * GRID + 0.5).floor().clamp(0.0, GRID);
            let value = f64::from(position) * 2.0 / f64::from(GRID) - 1.0;
            *code = middles.partition_point(|middle| *middle < value) as u8;
        }
        max
    });
    put_floats(all.collect::<Vec<_>>(), nested_absmax);
    put_floats([mean], offset);
}

/// The sum in the order in which one thread of torch adds float32 on CPUs, in vectors of eight, four at a time, cascaded over
/// powers of at least 16. Source: `SumKernel.cpp` of ATen.
fn sum(values: &[f32]) -> f32 {
    const WIDTH: usize = 8;
    const ILP: usize = 4;
    const LEVELS: usize = 4;
    type Rows = [[f32; WIDTH]; ILP];
    let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    let (vectors, rest) = values.as_chunks::<WIDTH>();
    let (rows, last) = vectors.as_chunks::<ILP>();
    let power = (rows.len().next_power_of_two().ilog2() as usize / LEVELS).max(4);
    let mut levels = [Rows::default(); LEVELS];
    for (done, row) in rows.iter().enumerate() {
        add(levels[0].as_flattened_mut(), row.as_flattened());
        // A full level is added to the next.
        let done = done + 1;
        for level in 1..LEVELS {
            if !done.is_multiple_of(1 << (level * power)) {
                break;
            }
            let full = std::mem::take(&mut levels[level - 1]);
            add(levels[level].as_flattened_mut(), full.as_flattened());
        }
    }
    let [mut sums, others @ ..] = levels;
    others.iter().for_each(|level| add(sums.as_flattened_mut(), level.as_flattened()));
    let [mut lanes, others @ ..] = sums;
    last.iter().chain(&others).for_each(|vector| add(&mut lanes, vector));
    rest.iter().chain(&lanes).sum()
}

pub(super) fn dequantize(codes: &[u8], absmax: impl Fn(usize) -> f32, range: Range<usize>, out: &mut [f32]) {
    for (at, out) in range.zip(out) {
        *out = NF4[usize::from(nibble(codes, at))] * absmax(at / BLOCK);
    }
}
