//! Q4_0 and Q8_0 of GGUF. Source: `quantize_row_q4_0_ref`, `quantize_row_q8_0_ref` and `ggml-common.h` of ggml.

use std::ops::Range;

use half::f16;

use super::super::{
    WeightsError,
    quantized::blockwise::{Matrix, Source, absmax, blockwise, nibble, pack},
    stored::Quantization,
};

use crate::base::Scheme;

const BLOCK: usize = 32;

pub(super) fn quantize_q4_0(
    matrix: Matrix,
    source: &dyn Source,
    codes: &mut [u8],
    scale: &mut [u8],
) -> Result<(), WeightsError> {
    let scales = blockwise(matrix, source, (BLOCK, 2), codes, |values, out| {
        let larger = |max: f32, value: &f32| if value.abs() > max.abs() { *value } else { max };
        let scale = values.iter().fold(0.0, larger) / -8.0;
        let factor = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let code = |value: &f32| ((value * factor + 8.5) as u8).min(15);
        pack(&values.iter().map(code).collect::<Vec<_>>(), out);
        f16::from_f32(scale)
    })?;
    put_halves(&scales, scale);
    Ok(())
}

pub(super) fn quantize_q8_0(
    matrix: Matrix,
    source: &dyn Source,
    codes: &mut [u8],
    scale: &mut [u8],
) -> Result<(), WeightsError> {
    let scales = blockwise(matrix, source, (BLOCK, 1), codes, |values, out| {
        let scale = absmax(values) / 127.0;
        let factor = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        for (value, code) in values.iter().zip(out) {
            *code = ((value * factor).round() as i8).cast_unsigned();
        }
        f16::from_f32(scale)
    })?;
    put_halves(&scales, scale);
    Ok(())
}

/// Divides a row of blocks into its codes and its scales.
type Unpack = fn(&[u8], &mut [u8], &mut [u8]);

/// What divides rows of `quantization` into the parts of `scheme`, if that has the same values.
pub(crate) fn unpack(quantization: Quantization, scheme: Scheme) -> Option<Unpack> {
    match (quantization, scheme) {
        (Quantization::Q4_0, Scheme::Q4_0) => Some(unpack_q4_0),
        (Quantization::Q8_0, Scheme::Q8_0) => Some(unpack_q8_0),
        _ => None,
    }
}

/// The parts of rows of Q4_0 blocks: a block is a scale and 16 bytes, of which byte `i` has value `i` in its low nibble and value
/// `i + 16` in its high one.
fn unpack_q4_0(blocks: &[u8], codes: &mut [u8], scale: &mut [u8]) {
    let (blocks, _) = blocks.as_chunks::<18>();
    let out = codes.chunks_mut(BLOCK / 2).zip(scale.chunks_mut(2));
    for (block, (codes, scale)) in blocks.iter().zip(out) {
        scale.copy_from_slice(&block[..2]);
        let values: [u8; BLOCK] = std::array::from_fn(|at| {
            if at < BLOCK / 2 { block[2 + at] & 15 } else { block[2 + at - BLOCK / 2] >> 4 }
        });
        pack(&values, codes);
    }
}

/// The parts of rows of Q8_0 blocks: a block is a scale and 32 bytes.
fn unpack_q8_0(blocks: &[u8], codes: &mut [u8], scale: &mut [u8]) {
    let (blocks, _) = blocks.as_chunks::<34>();
    let out = codes.chunks_mut(BLOCK).zip(scale.chunks_mut(2));
    for (block, (codes, scale)) in blocks.iter().zip(out) {
        scale.copy_from_slice(&block[..2]);
        codes.copy_from_slice(&block[2..]);
    }
}

pub(super) fn dequantize_q4_0(codes: &[u8], scale: &[u8], range: Range<usize>, out: &mut [f32]) {
    for (at, out) in range.zip(out) {
        *out = (f32::from(nibble(codes, at)) - 8.0) * half(scale, at / BLOCK);
    }
}

pub(super) fn dequantize_q8_0(codes: &[u8], scale: &[u8], range: Range<usize>, out: &mut [f32]) {
    for (at, out) in range.zip(out) {
        *out = f32::from(codes[at].cast_signed()) * half(scale, at / BLOCK);
    }
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32()
}

fn put_halves(values: &[f16], out: &mut [u8]) {
    for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
        *out = value.to_le_bytes();
    }
}
