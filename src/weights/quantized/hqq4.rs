//! Half-quadratic quantization to 4 bits (Badri and Shaji, 2023), in groups of 64 along the flattened weight. Source:
//! `Quantizer.quantize` and `optimize_weights_proximal_legacy`, its default, of hqq 0.2.8.

use std::ops::Range;

use rayon::prelude::*;

use super::super::{
    WeightsError,
    quantized::blockwise::{CHUNK, Matrix, Source, float, nibble, pack, put_floats, round_ties_even},
};

const GROUP: usize = 64;
const LARGEST: f32 = 15.0;
/// `opt_params` of the optimization.
const LP_NORM: f32 = 0.7;
const BETA: f32 = 10.0;
const ITERATIONS: usize = 20;
/// Bounds of the scale and of the difference that it is made from.
const MAX_SCALE: f32 = 2e4;
const SMALLEST_RANGE: f32 = 1e-4;
/// Below it, the shrinking operator gives zero: `|x| <= |x|^(p - 1) / beta`, with a margin for rounding.
const SHRUNK_TO_ZERO: f32 = 0.17;

/// A group: its codes are `round(w scale + zero)`.
#[derive(Clone, Copy)]
struct Group {
    scale: f32,
    zero: f32,
}

impl Group {
    fn of(values: &[f32]) -> Self {
        let (min, max) =
            values.iter().fold((f32::MAX, f32::MIN), |(min, max), &value| (value.min(min), value.max(max)));
        let range = max - min;
        let scale = if range <= SMALLEST_RANGE { 1.0 } else { (LARGEST / range).min(MAX_SCALE) };
        Self { scale, zero: -min * scale }
    }

    fn code(self, value: f32) -> f32 {
        round_ties_even((value * self.scale + self.zero).clamp(0.0, LARGEST))
    }

    /// One step of the optimization of `zero`; returns the sum of the errors before it.
    fn step(&mut self, values: &[f32]) -> f64 {
        let (mut error, mut zeros) = (0.0, 0.0);
        for &value in values {
            let code = self.code(value);
            let difference = value - (code - self.zero) / self.scale;
            error += f64::from(difference.abs());
            zeros += f64::from(code - (value - shrink(difference)) * self.scale);
        }
        self.zero = (zeros / values.len() as f64) as f32;
        error
    }
}

/// The proximal operator of the p-norm.
fn shrink(x: f32) -> f32 {
    let magnitude = x.abs();
    if magnitude < SHRUNK_TO_ZERO {
        return 0.0;
    }
    (magnitude - magnitude.powf(LP_NORM - 1.0) / BETA).max(0.0).copysign(x)
}

pub(super) fn quantize(
    matrix: Matrix,
    source: &dyn Source,
    codes: &mut [u8],
    scale: &mut [u8],
    zero: &mut [u8],
) -> Result<(), WeightsError> {
    let mut values = vec![0.0; matrix.numel()];
    let pieces = values.par_chunks_mut(CHUNK).enumerate();
    pieces.try_for_each(|(piece, out)| {
        let start = piece * CHUNK;
        source.read(start..start + out.len(), out)
    })?;
    let mut groups: Vec<Group> = values.par_chunks(GROUP).map(Group::of).collect();
    // The groups stop together, once the error of the whole weight no longer falls.
    let mut best = f64::INFINITY;
    for _ in 0..ITERATIONS {
        let errors = groups.par_iter_mut().zip(values.par_chunks(GROUP));
        let error: f64 = errors.map(|(group, values)| group.step(values)).sum();
        if error >= best {
            break;
        }
        best = error;
    }
    let packed = codes.par_chunks_mut(GROUP / 2).zip(values.par_chunks(GROUP)).zip(&groups);
    packed.for_each(|((out, values), group)| {
        let codes: Vec<u8> = values.iter().map(|&value| group.code(value) as u8).collect();
        pack(&codes, out);
    });
    put_floats(groups.iter().map(|group| 1.0 / group.scale), scale);
    put_floats(groups.iter().map(|group| group.zero), zero);
    Ok(())
}

pub(super) fn dequantize(codes: &[u8], scale: &[u8], zero: &[u8], range: Range<usize>, out: &mut [f32]) {
    for (at, out) in range.zip(out) {
        let code = f32::from(nibble(codes, at));
        *out = (code - float(zero, at / GROUP)) * float(scale, at / GROUP);
    }
}
