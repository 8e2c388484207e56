use std::ops::Range;

use rayon::prelude::*;

use super::super::{
    WeightsError,
    quantized::{
        blockwise::{Matrix, Source, float, floats},
        ggml, hqq4, int8, nf4,
    },
};
use crate::base::{PartFormat, Scheme};

/// The parts of a quantized weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// In the order of [`Scheme::parts`].
    pub bytes: Vec<Vec<u8>>,
}

impl Parts {
    /// Parts of zeros.
    fn zeros(scheme: Scheme, matrix: Matrix) -> Self {
        let size = |format: &PartFormat| part_bytes(format, matrix);
        let bytes = scheme.parts().iter().map(|format| vec![0; size(format)]).collect();
        Self { bytes }
    }

    /// Quantizes a weight, in parallel.
    ///
    /// # Errors
    /// Those of `source`.
    pub(crate) fn quantize(
        scheme: Scheme,
        matrix: Matrix,
        source: &dyn Source,
    ) -> Result<Self, WeightsError> {
        let mut parts = Self::zeros(scheme, matrix);
        let bytes = &mut parts.bytes[..];
        match (scheme, bytes) {
            (Scheme::Nf4, [codes, absmax]) => nf4::quantize(matrix, source, codes, absmax)?,
            (Scheme::Nf4Double, [codes, absmax, nested_absmax, offset]) => {
                let mut plain = vec![0; 4 * absmax.len()];
                nf4::quantize(matrix, source, codes, &mut plain)?;
                nf4::quantize_absmax(&floats(&plain), absmax, nested_absmax, offset);
            }
            (Scheme::Int8, [codes, scale]) => int8::quantize(matrix, source, codes, scale)?,
            (Scheme::Hqq4, [codes, scale, zero]) => hqq4::quantize(matrix, source, codes, scale, zero)?,
            (Scheme::Q4_0, [codes, scale]) => ggml::quantize_q4_0(matrix, source, codes, scale)?,
            (Scheme::Q8_0, [codes, scale]) => ggml::quantize_q8_0(matrix, source, codes, scale)?,
            (scheme, parts) => unreachable!("{} has {} parts", scheme.name(), parts.len()),
        }
        Ok(parts)
    }

    /// Parts that `fill` copies row by row: codes and scales of rows that are whole blocks.
    pub(crate) fn of_rows(
        scheme: Scheme,
        matrix: Matrix,
        fill: impl Fn(usize, &mut [u8], &mut [u8]) + Sync,
    ) -> Self {
        let mut parts = Self::zeros(scheme, matrix);
        let Matrix { rows, .. } = matrix;
        if let [codes, scale] = &mut parts.bytes[..] {
            let (of_codes, of_scale) = (codes.len() / rows.max(1), scale.len() / rows.max(1));
            let rows = codes.par_chunks_mut(of_codes.max(1)).zip(scale.par_chunks_mut(of_scale.max(1)));
            rows.enumerate().for_each(|(row, (codes, scale))| fill(row, codes, scale));
        }
        parts
    }
}

/// Size of a part in bytes.
pub(crate) fn part_bytes(format: &PartFormat, matrix: Matrix) -> usize {
    format.extent.count(matrix.rows, matrix.columns) * format.dtype.bytes()
}

/// The values `range` of the flattened weight that `parts` store, in the order of [`Scheme::parts`] and of the sizes that
/// [`part_bytes`] gives.
pub(crate) fn dequantize(
    scheme: Scheme,
    columns: usize,
    parts: &[&[u8]],
    range: Range<usize>,
    out: &mut [f32],
) {
    match (scheme, parts) {
        (Scheme::Nf4, [codes, absmax]) => {
            nf4::dequantize(codes, |block| float(absmax, block), range, out);
        }
        (Scheme::Nf4Double, [codes, absmax, nested_absmax, offset]) => {
            let (table, offset) = (&*nf4::DYNAMIC_MAP, float(offset, 0));
            let absmax = |block: usize| {
                table[usize::from(absmax[block])] * float(nested_absmax, block / nf4::NESTED) + offset
            };
            nf4::dequantize(codes, absmax, range, out);
        }
        (Scheme::Int8, [codes, scale]) => int8::dequantize(columns, codes, scale, range, out),
        (Scheme::Hqq4, [codes, scale, zero]) => hqq4::dequantize(codes, scale, zero, range, out),
        (Scheme::Q4_0, [codes, scale]) => ggml::dequantize_q4_0(codes, scale, range, out),
        (Scheme::Q8_0, [codes, scale]) => ggml::dequantize_q8_0(codes, scale, range, out),
        (scheme, parts) => unreachable!("{} has {} parts", scheme.name(), parts.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        base::DType,
        weights::{Checkpoint, read_safetensors},
    };

    fn of_values(scheme: Scheme, matrix: Matrix, values: &[f32]) -> Vec<Vec<u8>> {
        let read = |range: Range<usize>, out: &mut [f32]| {
            out.copy_from_slice(&values[range]);
            Ok(())
        };
        Parts::quantize(scheme, matrix, &read).unwrap().bytes
    }

    fn values_of(scheme: Scheme, matrix: Matrix, parts: &[Vec<u8>]) -> Vec<f32> {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut out = vec![f32::NAN; matrix.numel()];
        dequantize(scheme, matrix.columns, &slices, 0..matrix.numel(), &mut out);
        out
    }

    #[test]
    fn nf4_has_the_bytes_of_bitsandbytes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/nf4/expected.safetensors");
        let golden = read_safetensors(path.as_ref()).unwrap();
        for name in ["square", "wide", "tall"] {
            let get = |part: &str| &golden[&format!("{name}.{part}")];
            let weight = get("weight");
            let matrix = Matrix { rows: weight.shape().dims[0], columns: weight.shape().dims[1] };
            let check = |scheme, names: &[&str], dequantized: &str| {
                let parts = of_values(scheme, matrix, &weight.to_f32s());
                for (part, name) in parts.iter().zip(names) {
                    assert!(part == get(name).bytes(), "{name}");
                }
                assert_eq!(values_of(scheme, matrix, &parts), get(dequantized).to_f32s());
            };
            check(Scheme::Nf4, &["packed", "absmax"], "dequant");
            check(Scheme::Nf4Double, &["packed", "dq.absmax", "dq.scale", "dq.offset"], "dq.dequant");
        }
    }

    #[test]
    fn incomplete_and_odd_blocks_have_the_bytes_of_bitsandbytes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/bitsandbytes/blocks.safetensors");
        let golden = read_safetensors(path.as_ref()).unwrap();
        for name in ["many", "incomplete", "odd", "zeros", "zeros_incomplete", "tiny", "half"] {
            let get = |part: &str| &golden[&format!("{name}.{part}")];
            let weight = get("weight");
            let matrix = Matrix { rows: weight.shape().dims[0], columns: weight.shape().dims[1] };
            let values: Vec<f32> = weight.to_f64s().into_iter().map(|value| value as f32).collect();
            let parts = of_values(Scheme::Nf4Double, matrix, &values);
            for (part, expected) in parts.iter().zip(["packed", "table", "nested_absmax", "offset"]) {
                assert!(part == get(expected).bytes(), "{name}.{expected}");
            }
        }
    }

    /// The largest error of a value, in units of the largest magnitude.
    fn worst_error(scheme: Scheme) -> f32 {
        match scheme {
            Scheme::Nf4 | Scheme::Nf4Double => 0.16,
            Scheme::Hqq4 | Scheme::Q4_0 => 0.14,
            Scheme::Int8 | Scheme::Q8_0 => 0.005,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn values_survive_up_to_the_steps_of_a_scheme(
            rows in 1_usize..9, columns in 1_usize..300, seed in any::<u64>(),
        ) {
            let matrix = Matrix { rows, columns };
            let mut state = seed | 1;
            let values: Vec<f32> = (0..matrix.numel()).map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            }).collect();
            for &scheme in Scheme::ALL {
                let parts = of_values(scheme, matrix, &values);
                let sizes = scheme.parts().iter().map(|format| part_bytes(format, matrix));
                prop_assert!(parts.iter().map(Vec::len).eq(sizes));
                let found = values_of(scheme, matrix, &parts);
                let worst = values.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                prop_assert!(worst <= worst_error(scheme), "{scheme:?}: {worst}");
            }
        }
    }

    #[test]
    fn stored_parts_have_finite_numbers() {
        let folder = format!("{}/tests/golden/bitsandbytes/nf4", env!("CARGO_MANIFEST_DIR"));
        let name = "model.layers.0.self_attn.q_proj.weight";
        let mut tensors = read_safetensors(format!("{folder}/model.safetensors").as_ref()).unwrap();
        let absmax = tensors.get_mut(&format!("{name}.absmax")).unwrap();
        absmax.bytes_mut()[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        let copy = tempfile::tempdir().unwrap();
        let path = copy.path().join("model.safetensors");
        crate::weights::write_safetensors(&path, &tensors, &Default::default()).unwrap();
        let checkpoint = Checkpoint::open(copy.path()).unwrap();
        let error = checkpoint.parts(name, Scheme::Nf4).unwrap_err().to_string();
        let expect = format!("`{name}`: absmax: expected finite numbers, found another at [1]");
        assert!(error.ends_with(&expect), "{error}");
    }

    #[test]
    fn a_weight_of_zeros_stays_so() {
        let matrix = Matrix { rows: 3, columns: 70 };
        for &scheme in Scheme::ALL {
            let parts = of_values(scheme, matrix, &vec![0.0; matrix.numel()]);
            assert!(values_of(scheme, matrix, &parts).iter().all(|&value| value == 0.0), "{scheme:?}");
        }
    }

    #[test]
    fn a_checkpoint_of_bitsandbytes_is_joined() {
        for (case, scheme) in
            [("nf4", Scheme::Nf4), ("nf4-double", Scheme::Nf4Double), ("int8", Scheme::Int8)]
        {
            let folder = format!("{}/tests/golden/bitsandbytes/{case}", env!("CARGO_MANIFEST_DIR"));
            let checkpoint = Checkpoint::open(folder.as_ref()).unwrap();
            let expected = read_safetensors(format!("{folder}/expected.safetensors").as_ref()).unwrap();
            for (name, expected) in expected.iter().filter(|(name, _)| name.ends_with("_proj.weight")) {
                assert_eq!(checkpoint.stored_scheme(name), Some(scheme));
                assert!(checkpoint.literal(name, DType::F32).unwrap() == *expected, "{case}: {name}");
            }
        }
    }
}
