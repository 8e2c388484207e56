//! Blocks of 32 integers with one float16 scale, some with a minimum. Source: `ggml-quants.c`.

use half::f16;

/// Elements of a block.
const N: usize = 32;

pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; N]) {
    let d = scale(block[0], block[1]);
    fill(out, |i| d * (f32::from(nibble(&block[2..], i)) - 8.0));
}

pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; N]) {
    let (d, m) = (scale(block[0], block[1]), scale(block[2], block[3]));
    fill(out, |i| d * f32::from(nibble(&block[4..], i)) + m);
}

pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; N]) {
    let d = scale(block[0], block[1]);
    fill(out, |i| d * (f32::from(nibble(&block[6..], i) | fifth_bit(&block[2..6], i)) - 16.0));
}

pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; N]) {
    let (d, m) = (scale(block[0], block[1]), scale(block[2], block[3]));
    fill(out, |i| d * f32::from(nibble(&block[8..], i) | fifth_bit(&block[4..8], i)) + m);
}

pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; N]) {
    let d = scale(block[0], block[1]);
    fill(out, |i| d * f32::from(block[2 + i].cast_signed()));
}

/// A float16 scale.
pub(super) fn scale(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

fn fill(out: &mut [f32; N], value: impl Fn(usize) -> f32) {
    out.iter_mut().enumerate().for_each(|(i, out)| *out = value(i));
}

/// The low halves of the 16 bytes are elements 0 to 15, the high halves 16 to 31.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < N / 2 { bytes[i] & 15 } else { bytes[i - N / 2] >> 4 }
}

/// Bit `i` of four bytes, as bit 4 of the integer.
fn fifth_bit(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}
