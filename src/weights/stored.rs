//! Storage types of tensors in a file, and their conversion from and to float32.

mod blocks;
mod k_quants;
mod quantization;

use std::{fmt, ops::Range};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

pub use quantization::Quantization;

use crate::base::{DType, Scheme};

/// The types that can be read, for errors.
pub(super) const READABLE: &str = "f32, f16, bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q8_K";

/// How the elements of a tensor are stored in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredType {
    /// Little-endian numbers.
    Plain(DType),
    /// Blocks of integers with scales.
    Quantized(Quantization),
    /// Several arrays, the parts of a scheme.
    Packed(Scheme),
    /// An unsupported type, by its name in the file.
    Other(String),
}

impl StoredType {
    /// Whether [`Checkpoint::read`](super::Checkpoint::read) can convert it.
    pub fn is_readable(&self) -> bool {
        match self {
            Self::Plain(dtype) => matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16),
            Self::Quantized(_) | Self::Packed(_) => true,
            Self::Other(_) => false,
        }
    }

    /// Elements and bytes of a block; `None` for types that are not of one array.
    pub(super) fn block(&self) -> Option<(usize, usize)> {
        match self {
            Self::Plain(dtype) => Some((1, dtype.bytes())),
            Self::Quantized(quantization) => Some(quantization.block()),
            Self::Packed(_) | Self::Other(_) => None,
        }
    }

    /// Size of `elements` elements in bytes; `None` if they are not complete blocks, exceed `usize`, or have an unknown size.
    pub(super) fn bytes(&self, elements: usize) -> Option<usize> {
        let (block, bytes) = self.block()?;
        elements.is_multiple_of(block).then(|| (elements / block).checked_mul(bytes))?
    }

    /// Converts the elements `range` of the tensor at `source` to float32.
    ///
    /// # Panics
    /// If the type is not readable, or `source` is shorter than `range` requires.
    pub(super) fn decode(&self, source: &[u8], range: Range<usize>, out: &mut [f32]) {
        match self {
            Self::Plain(dtype) => {
                decode_plain(*dtype, &source[range.start * dtype.bytes()..range.end * dtype.bytes()], out)
            }
            Self::Quantized(quantization) => quantization.decode(source, range, out),
            Self::Packed(_) | Self::Other(_) => unreachable!("{self} is not read from one array"),
        }
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Quantized(quantization) => f.pad(quantization.name()),
            Self::Packed(scheme) => f.pad(scheme.name()),
            Self::Other(name) => f.pad(name),
        }
    }
}

/// Converts float32 values to little-endian `dtype`, rounded to nearest even.
///
/// # Panics
/// If `dtype` is not f32, f16 or bf16, or `out` has another length than the values.
pub(crate) fn encode(values: &[f32], dtype: DType, out: &mut [u8]) {
    let mut halves = [0u16; PIECE];
    for (values, out) in values.chunks(PIECE).zip(out.chunks_mut(PIECE * dtype.bytes())) {
        let halves = &mut halves[..values.len()];
        match dtype {
            DType::F16 => halves.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values),
            DType::BF16 => halves.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values),
            _ => {
                assert_eq!(dtype, DType::F32, "target type");
                out.chunks_exact_mut(4)
                    .zip(values)
                    .for_each(|(out, v)| out.copy_from_slice(&v.to_le_bytes()));
                continue;
            }
        }
        out.chunks_exact_mut(2).zip(halves).for_each(|(out, h)| out.copy_from_slice(&h.to_le_bytes()));
    }
}

/// Elements converted at a time: small enough for the stack and the first cache.
pub(super) const PIECE: usize = 1024;

fn decode_plain(dtype: DType, source: &[u8], out: &mut [f32]) {
    if dtype == DType::F64 {
        let (doubles, _) = source.as_chunks();
        out.iter_mut().zip(doubles).for_each(|(out, double)| *out = f64::from_le_bytes(*double) as f32);
        return;
    }
    if dtype == DType::F32 {
        out.iter_mut()
            .zip(source.chunks_exact(4))
            .for_each(|(out, b)| *out = f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        return;
    }
    let mut halves = [0u16; PIECE];
    for (source, out) in source.chunks(PIECE * 2).zip(out.chunks_mut(PIECE)) {
        let halves = &mut halves[..out.len()];
        halves
            .iter_mut()
            .zip(source.chunks_exact(2))
            .for_each(|(h, b)| *h = u16::from_le_bytes([b[0], b[1]]));
        match dtype {
            DType::F16 => halves.reinterpret_cast::<f16>().convert_to_f32_slice(out),
            _ => halves.reinterpret_cast::<bf16>().convert_to_f32_slice(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: StoredType, source: &[u8], range: Range<usize>, expect: &[f32]) {
        let mut out = vec![f32::NAN; expect.len()];
        stored.decode(source, range, &mut out);
        assert_eq!(out, expect, "{stored}");
    }

    /// Two and minus one in float16.
    const TWO: [u8; 2] = [0x00, 0x40];
    const MINUS_ONE: [u8; 2] = [0x00, 0xbc];

    #[test]
    fn plain_numbers_decode() {
        check(StoredType::Plain(DType::F16), &[TWO, MINUS_ONE].concat(), 0..2, &[2.0, -1.0]);
        check(StoredType::Plain(DType::BF16), &[0x00, 0x40, 0x80, 0xbf], 1..2, &[-1.0]);
        check(StoredType::Plain(DType::F32), &1.5f32.to_le_bytes(), 0..1, &[1.5]);
    }

    #[test]
    fn halves_round_to_the_nearest_even() {
        let check = |value: f32, dtype, expect: u16| {
            let mut out = [0; 2];
            encode(&[value], dtype, &mut out);
            assert_eq!(u16::from_le_bytes(out), expect, "{value} as {dtype}");
        };
        check(1.0 + 2f32.powi(-8), DType::BF16, 0x3f80);
        check(1.0 + 3.0 * 2f32.powi(-8), DType::BF16, 0x3f82);
        check(1.0 + 2f32.powi(-11), DType::F16, 0x3c00);
        check(1.0 + 3.0 * 2f32.powi(-11), DType::F16, 0x3c02);
        check(1.0 + 2f32.powi(-11) + 2f32.powi(-20), DType::F16, 0x3c01);
    }
}
