//! Super-blocks of 256 integers, whose scales are themselves integers with a float scale. Source: `ggml-quants.c`.
//!
//! A scale is multiplied out first and then with the integer, each rounded to float32, as the reference does it.

use super::blocks::scale;

/// Elements of a super-block.
const N: usize = 256;

pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; N]) {
    let (scales, qs) = (&block[..16], &block[16..80]);
    let (d, d_min) = (scale(block[80], block[81]), scale(block[82], block[83]));
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let (scale, min) = (d * f32::from(scales[group] & 15), d_min * f32::from(scales[group] >> 4));
        let (bytes, shift) = quarter_bytes(qs, group);
        out.iter_mut().zip(bytes).for_each(|(out, q)| *out = scale * f32::from(q >> shift & 3) - min);
    }
}

pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; N]) {
    let (high, qs, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = scale(block[108], block[109]);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let low_bits = scales[group % 8] >> (4 * (group / 8)) & 15;
        let high_bits = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
        let scale = d * f32::from((low_bits | high_bits << 4).cast_signed() - 32);
        let (bytes, shift) = quarter_bytes(qs, group);
        let high = &high[16 * (group % 2)..][..16];
        for ((out, q), high) in out.iter_mut().zip(bytes).zip(high) {
            // The third bit is stored inverted: where it is clear, four is subtracted.
            let offset = if high >> (group / 2) & 1 == 1 { 0 } else { 4 };
            *out = scale * f32::from((q >> shift & 3).cast_signed() - offset);
        }
    }
}

pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; N]) {
    let scales = ScalesAndMins::new(&block[..16]);
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scales.get(group);
        let (bytes, shift) = half_bytes(&block[16..], group);
        out.iter_mut().zip(bytes).for_each(|(out, q)| *out = scale * f32::from(q >> shift & 15) - min);
    }
}

pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; N]) {
    let scales = ScalesAndMins::new(&block[..16]);
    let high = &block[16..48];
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scales.get(group);
        let (bytes, shift) = half_bytes(&block[48..], group);
        for ((out, q), high) in out.iter_mut().zip(bytes).zip(high) {
            *out = scale * f32::from(q >> shift & 15 | (high >> group & 1) << 4) - min;
        }
    }
}

pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; N]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = scale(block[208], block[209]);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let scale = d * f32::from(scales[group].cast_signed());
        // Each 64 bytes hold the low bits of 128 elements, each 32 bytes the high bits.
        let (half, within) = (group / 8, group % 8);
        let low = &low[64 * half + 16 * (within % 4)..][..16];
        let high = &high[32 * half + 16 * (within % 2)..][..16];
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            let q = low >> (4 * (within / 4)) & 15 | (high >> (2 * (within / 2)) & 3) << 4;
            *out = scale * f32::from(q.cast_signed() - 32);
        }
    }
}

/// The sums of the integers after them serve ggml's dot products only.
pub(super) fn q8_k(block: &[u8; 292], out: &mut [f32; N]) {
    let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    out.iter_mut().zip(&block[4..260]).for_each(|(out, q)| *out = d * f32::from(q.cast_signed()));
}

/// The bytes of elements `16 * group..`, and the shift to their two bits: each 32 bytes hold 128 elements.
fn quarter_bytes(qs: &[u8], group: usize) -> (&[u8], usize) {
    (&qs[32 * (group / 8) + 16 * (group % 2)..][..16], 2 * (group % 8 / 2))
}

/// The bytes of elements `32 * group..`, and the shift to their four bits: each 32 bytes hold 64 elements.
fn half_bytes(qs: &[u8], group: usize) -> (&[u8], usize) {
    (&qs[32 * (group / 2)..][..32], 4 * (group % 2))
}

/// The head of a Q4_K or Q5_K block: two float16 scales, and eight pairs of six-bit integers in twelve bytes.
struct ScalesAndMins<'a> {
    d: f32,
    d_min: f32,
    packed: &'a [u8],
}

impl<'a> ScalesAndMins<'a> {
    fn new(head: &'a [u8]) -> Self {
        Self { d: scale(head[0], head[1]), d_min: scale(head[2], head[3]), packed: &head[4..16] }
    }

    /// The scale and the minimum of 32 elements.
    fn get(&self, group: usize) -> (f32, f32) {
        let packed = self.packed;
        let (scale, min) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            let low_bits = packed[group + 4];
            (low_bits & 15 | packed[group - 4] >> 6 << 4, low_bits >> 4 | packed[group] >> 6 << 4)
        };
        (self.d * f32::from(scale), self.d_min * f32::from(min))
    }
}
