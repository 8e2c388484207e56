//! How numbers lie in a file, and what they are as float32.

use std::{fmt, ops::Range};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

use crate::base::DType;

/// Elements of one block of every supported quantised type.
pub(super) const BLOCK: usize = 32;

/// The types that can be read, for errors.
pub(super) const READABLE: &str = "f32, f16, bf16, Q8_0, Q4_0 or Q4_1";

/// How the elements of a tensor are stored in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredType {
    /// One little-endian number after another.
    Plain(DType),
    /// 32 four-bit integers with a float16 scale `d`: `d * (q - 8)`. Source of all three: `ggml-quants.c`.
    Q4_0,
    /// 32 four-bit integers with a float16 scale `d` and minimum `m`: `d * q + m`.
    Q4_1,
    /// 32 signed bytes with a float16 scale `d`: `d * q`.
    Q8_0,
    /// A type that cannot be read, as the file names it.
    Other(String),
}

impl StoredType {
    /// Whether [`Checkpoint::read`](super::Checkpoint::read) can convert it.
    pub fn is_readable(&self) -> bool {
        match self {
            Self::Plain(dtype) => matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
            Self::Q4_0 | Self::Q4_1 | Self::Q8_0 => true,
            Self::Other(_) => false,
        }
    }

    /// Elements and bytes of the smallest piece that stands alone; `None` for [`StoredType::Other`].
    pub(super) fn block(&self) -> Option<(usize, usize)> {
        match self {
            Self::Plain(dtype) => Some((1, dtype.bytes())),
            Self::Q4_0 => Some((BLOCK, 2 + BLOCK / 2)),
            Self::Q4_1 => Some((BLOCK, 4 + BLOCK / 2)),
            Self::Q8_0 => Some((BLOCK, 2 + BLOCK)),
            Self::Other(_) => None,
        }
    }

    /// Bytes of `elements` in whole blocks; `None` if they are not whole, too many, or of unknown size.
    pub(super) fn bytes(&self, elements: usize) -> Option<usize> {
        let (block, bytes) = self.block()?;
        elements.is_multiple_of(block).then(|| (elements / block).checked_mul(bytes))?
    }

    /// Elements `range` of the tensor at `source`, as float32.
    ///
    /// # Panics
    /// If the type is not readable, or `source` does not reach to the end of `range`.
    pub(super) fn decode(&self, source: &[u8], range: Range<usize>, out: &mut [f32]) {
        match self {
            Self::Plain(dtype) => {
                decode_plain(*dtype, &source[range.start * dtype.bytes()..range.end * dtype.bytes()], out)
            }
            Self::Q4_0 => decode_blocks(source, range, out, q4_0),
            Self::Q4_1 => decode_blocks(source, range, out, q4_1),
            Self::Q8_0 => decode_blocks(source, range, out, q8_0),
            Self::Other(name) => unreachable!("reading of {name} is refused beforehand"),
        }
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Q4_0 => f.pad("Q4_0"),
            Self::Q4_1 => f.pad("Q4_1"),
            Self::Q8_0 => f.pad("Q8_0"),
            Self::Other(name) => f.pad(name),
        }
    }
}

/// Float32 values as little-endian `dtype`, rounded to nearest even.
///
/// # Panics
/// If `dtype` is not f32, f16 or bf16, or `out` is not as long as the values take.
pub(super) fn encode(values: &[f32], dtype: DType, out: &mut [u8]) {
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

/// Walks the blocks that `range` touches; the first and last may be used in part.
fn decode_blocks<const BYTES: usize>(
    source: &[u8],
    range: Range<usize>,
    out: &mut [f32],
    block: fn(&[u8; BYTES]) -> [f32; BLOCK],
) {
    let (blocks, _) = source.as_chunks::<BYTES>();
    let mut element = range.start;
    let mut rest = out;
    while element < range.end {
        let values = block(&blocks[element / BLOCK]);
        let first = element % BLOCK;
        let n = (BLOCK - first).min(range.end - element);
        let (now, later) = rest.split_at_mut(n);
        now.copy_from_slice(&values[first..first + n]);
        (element, rest) = (element + n, later);
    }
}

fn scale(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

/// The low halves of the 16 bytes are elements 0 to 15, the high halves 16 to 31.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < BLOCK / 2 { bytes[i] & 15 } else { bytes[i - BLOCK / 2] >> 4 }
}

fn q4_0(block: &[u8; 18]) -> [f32; BLOCK] {
    let d = scale(block[0], block[1]);
    std::array::from_fn(|i| d * (f32::from(nibble(&block[2..], i)) - 8.0))
}

fn q4_1(block: &[u8; 20]) -> [f32; BLOCK] {
    let (d, m) = (scale(block[0], block[1]), scale(block[2], block[3]));
    std::array::from_fn(|i| d * f32::from(nibble(&block[4..], i)) + m)
}

fn q8_0(block: &[u8; 34]) -> [f32; BLOCK] {
    let d = scale(block[0], block[1]);
    std::array::from_fn(|i| d * f32::from(block[2 + i].cast_signed()))
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
    fn quantised_blocks_give_the_values_worked_out_by_hand() {
        let nibbles: Vec<u8> = (0..16).map(|i| i | (15 - i) << 4).collect();
        let q4_0 = [&TWO[..], &nibbles].concat();
        let q4_0 = [&q4_0[..], &q4_0].concat();
        check(StoredType::Q4_0, &q4_0, 0..3, &[-16.0, -14.0, -12.0]);
        check(StoredType::Q4_0, &q4_0, 15..18, &[14.0, 14.0, 12.0]);
        check(StoredType::Q4_0, &q4_0, 31..34, &[-16.0, -16.0, -14.0]);
        let q4_1 = [&TWO[..], &MINUS_ONE, &nibbles].concat();
        check(StoredType::Q4_1, &q4_1, 0..2, &[-1.0, 1.0]);
        check(StoredType::Q4_1, &q4_1, 15..17, &[29.0, 29.0]);
        let bytes: Vec<u8> = (0..32).map(|i: i8| (i - 16).cast_unsigned()).collect();
        let q8_0 = [&MINUS_ONE[..], &bytes].concat();
        check(StoredType::Q8_0, &q8_0, 0..2, &[16.0, 15.0]);
        check(StoredType::Q8_0, &q8_0, 30..32, &[-14.0, -15.0]);
    }

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
