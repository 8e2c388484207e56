use std::ops::Range;

use super::{blocks, k_quants};

/// How ggml stores a tensor in blocks of small integers with float scales. Source: `ggml-common.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// 32 four-bit integers: `d * (q - 8)`.
    Q4_0,
    /// 32 four-bit integers: `d * q + m`.
    Q4_1,
    /// 32 five-bit integers: `d * (q - 16)`.
    Q5_0,
    /// 32 five-bit integers: `d * q + m`.
    Q5_1,
    /// 32 signed bytes: `d * q`.
    Q8_0,
    /// 256 two-bit integers; 16 four-bit scales and minimums, each for 16 of them.
    Q2K,
    /// 256 three-bit integers; 16 six-bit scales.
    Q3K,
    /// 256 four-bit integers; 8 six-bit scales and minimums.
    Q4K,
    /// 256 five-bit integers; 8 six-bit scales and minimums.
    Q5K,
    /// 256 six-bit integers; 16 signed bytes as scales.
    Q6K,
    /// 256 signed bytes with a float32 scale.
    Q8K,
}

impl Quantization {
    /// The name that ggml gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2K => "Q2_K",
            Self::Q3K => "Q3_K",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::Q8K => "Q8_K",
        }
    }

    /// Elements and bytes of a block.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::Q8K => (256, 292),
        }
    }

    /// Elements `range` of the tensor at `source`, as float32.
    pub(super) fn decode(self, source: &[u8], range: Range<usize>, out: &mut [f32]) {
        match self {
            Self::Q4_0 => decode_blocks(source, range, out, blocks::q4_0),
            Self::Q4_1 => decode_blocks(source, range, out, blocks::q4_1),
            Self::Q5_0 => decode_blocks(source, range, out, blocks::q5_0),
            Self::Q5_1 => decode_blocks(source, range, out, blocks::q5_1),
            Self::Q8_0 => decode_blocks(source, range, out, blocks::q8_0),
            Self::Q2K => decode_blocks(source, range, out, k_quants::q2_k),
            Self::Q3K => decode_blocks(source, range, out, k_quants::q3_k),
            Self::Q4K => decode_blocks(source, range, out, k_quants::q4_k),
            Self::Q5K => decode_blocks(source, range, out, k_quants::q5_k),
            Self::Q6K => decode_blocks(source, range, out, k_quants::q6_k),
            Self::Q8K => decode_blocks(source, range, out, k_quants::q8_k),
        }
    }
}

/// Decodes the blocks that `range` touches; the first and last may be used in part.
fn decode_blocks<const BYTES: usize, const N: usize>(
    source: &[u8],
    range: Range<usize>,
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; N]),
) {
    let (blocks, _) = source.as_chunks::<BYTES>();
    let mut partial = [0.0; N];
    let mut element = range.start;
    let mut rest = out;
    while element < range.end {
        let (block, first) = (&blocks[element / N], element % N);
        let n = (N - first).min(range.end - element);
        let (now, later) = rest.split_at_mut(n);
        match now.first_chunk_mut::<N>() {
            Some(whole) => decode(block, whole),
            None => {
                decode(block, &mut partial);
                now.copy_from_slice(&partial[first..first + n]);
            }
        }
        (element, rest) = (element + n, later);
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Blocks of bytes that a generator of its own gives, so that another language can make the same ones; every
    /// float16 scale occurs among the specials in turn.
    fn blocks(quantization: Quantization, n: usize) -> Vec<u8> {
        const SCALES: [u16; 12] =
            [0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x0000, 0x8000, 0xb555];
        let (_, bytes) = quantization.block();
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut all: Vec<u8> = (0..n * bytes).map(|_| next()).collect();
        for (i, block) in all.chunks_mut(bytes).enumerate().filter(|(i, _)| i % 2 == 1) {
            for (j, &at) in scale_offsets(quantization).iter().enumerate() {
                block[at..at + 2].copy_from_slice(&SCALES[(i / 2 + 5 * j) % SCALES.len()].to_le_bytes());
            }
        }
        all
    }

    /// Where the float16 scales of a block are.
    fn scale_offsets(quantization: Quantization) -> &'static [usize] {
        match quantization {
            Quantization::Q4_0 | Quantization::Q5_0 | Quantization::Q8_0 => &[0],
            Quantization::Q4_1 | Quantization::Q5_1 | Quantization::Q4K | Quantization::Q5K => &[0, 2],
            Quantization::Q2K => &[80, 82],
            Quantization::Q3K => &[108],
            Quantization::Q6K => &[208],
            Quantization::Q8K => &[2],
        }
    }

    const N_BLOCKS: usize = 64;

    fn decoded(quantization: Quantization) -> (Vec<u8>, Vec<f32>) {
        let source = blocks(quantization, N_BLOCKS);
        let mut values = vec![0.0; N_BLOCKS * quantization.block().0];
        let range = 0..values.len();
        quantization.decode(&source, range, &mut values);
        (source, values)
    }

    /// The SHA-256 of all values with one kind of NaN, and some bits of finite ones, as `gguf.quants.dequantize` of
    /// gguf 0.19 gives them. It cannot decode Q8_K: there, numpy's product of scale and integers is the reference.
    #[test]
    fn values_are_those_of_the_python_package() {
        let check = |quantization: Quantization, expect: &str, bits: [u32; 4]| {
            let (_, values) = decoded(quantization);
            let mut hash = Sha256::new();
            for value in &values {
                hash.update(if value.is_nan() { f32::NAN } else { *value }.to_le_bytes());
            }
            let block = values.len() / N_BLOCKS;
            let found = [0, 1, block / 2, block - 1].map(|i| values[10 * block + i].to_bits());
            assert_eq!(
                found.map(|b| format!("{b:08x}")),
                bits.map(|b| format!("{b:08x}")),
                "{quantization:?}"
            );
            let found: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, expect, "{quantization:?}");
        };
        check(Quantization::Q4_0, "c60f8188d44d5a71", [0xc2ef_4000, 0x8000_0000, 0x429f_8000, 0x431f_8000]);
        check(Quantization::Q4_1, "c1659985155fb24e", [0x3d61_5800, 0x3cd3_7000, 0x3dd9_5800, 0x3d9d_8800]);
        check(Quantization::Q5_0, "2727ccc4e32411c5", [0x3d39_a000, 0xbcc6_0000, 0x3d14_8000, 0x3cf7_8000]);
        check(Quantization::Q5_1, "64973400947badd5", [0x457b_cf0d, 0x4671_51c3, 0x45fb_cf86, 0x4632_5dc3]);
        check(Quantization::Q8_0, "cbff018f835ee14c", [0xbaeb_8c00, 0x3b2e_0600, 0x3861_0000, 0xbb1a_b000]);
        check(Quantization::Q2K, "ccc925f261c980e3", [0x3ddc_6000, 0xc2a4_50e8, 0xc485_a879, 0xc432_31f3]);
        check(Quantization::Q3K, "43b764f92d1ac753", [0xbe0b_3c00, 0x8000_0000, 0xbf67_3a80, 0x3e81_4a00]);
        check(Quantization::Q4K, "16ee0b63845f290d", [0xc47f_d180, 0xc48e_0640, 0xc486_ad00, 0xc49a_9280]);
        check(Quantization::Q5K, "59560c821695805a", [0x4943_dd02, 0x4943_dd01, 0x492c_3981, 0x4758_20fc]);
        check(Quantization::Q6K, "331f60d8a90c2c03", [0x3f6f_75a0, 0x3ec3_ebe0, 0xbdfd_5000, 0x3dbd_fc00]);
        check(Quantization::Q8K, "e1471f0d0aae4eff", [0x7101_a7a7, 0x71e7_86ce, 0x70c0_a14f, 0xf1bb_12d0]);
    }

    #[test]
    fn a_window_may_begin_and_end_inside_a_block() {
        for quantization in [Quantization::Q5_1, Quantization::Q3K, Quantization::Q6K] {
            let (source, values) = decoded(quantization);
            let (block, _) = quantization.block();
            for range in
                [0..1, block - 1..block + 1, 3..2 * block + 5, block..block, 7..block, block + 9..3 * block]
            {
                let mut window = vec![0.0; range.len()];
                quantization.decode(&source, range.clone(), &mut window);
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&window), bits(&values[range.clone()]), "{quantization:?} {range:?}");
            }
        }
    }
}
