use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{
    bitsandbytes::format::{NESTED_QUANT_MAP, NF4_TYPE, QUANT_MAP, QuantState, STATE, torch_name},
    quantized::{Matrix, NESTED, part_bytes},
};
use crate::base::{
    ArrayShape, DType, Literal, Part, Scheme,
    codebook::{NF4, dynamic_map},
};

/// `quantization_config` of a config.json whose other fields are `config`: weights by `scheme`, of 4-bit NormalFloat.
pub fn quantization_config(config: &Value, scheme: Scheme) -> Value {
    json!({
        "quant_method": "bitsandbytes",
        "load_in_4bit": true,
        "load_in_8bit": false,
        "bnb_4bit_quant_type": NF4_TYPE,
        "bnb_4bit_use_double_quant": scheme == Scheme::Nf4Double,
        "bnb_4bit_quant_storage": "uint8",
        "bnb_4bit_compute_dtype": config.get("dtype").or(config.get("torch_dtype")).cloned().unwrap_or(json!("float32")),
    })
}

/// A quantized weight `[rows, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedWeight<'a> {
    /// Its Hugging Face name, which ends in `.weight`.
    pub name: &'a str,
    /// [`Scheme::Nf4`] or [`Scheme::Nf4Double`].
    pub scheme: Scheme,
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub columns: usize,
    /// The element type that it had.
    pub dtype: DType,
    /// Its parts, in the order of [`Scheme::parts`]: flat, row-major, little-endian.
    pub parts: &'a [&'a [u8]],
}

impl QuantizedWeight<'_> {
    /// The arrays that bitsandbytes stores, by name.
    pub(crate) fn tensors(&self) -> BTreeMap<String, Literal> {
        let Self { name, scheme, parts, .. } = *self;
        let mut tensors = BTreeMap::new();
        let mut offset = None;
        for (format, bytes) in scheme.parts().iter().zip(parts) {
            let count = bytes.len() / format.dtype.bytes();
            let (name, dims) = match format.part {
                Part::Codes => (name.to_owned(), vec![count, 1]),
                Part::Offset => {
                    offset = bytes.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
                    continue;
                }
                part => (format!("{name}.{}", part.name()), vec![count]),
            };
            tensors.insert(name, Literal::from_bytes(ArrayShape::new(format.dtype, dims), bytes.to_vec()));
        }
        tensors.insert(format!("{name}.{QUANT_MAP}"), Literal::f32s([NF4.len()], &NF4));
        if offset.is_some() {
            let map = dynamic_map();
            tensors.insert(format!("{name}.{NESTED_QUANT_MAP}"), Literal::f32s([map.len()], &map));
        }
        let state = serde_json::to_vec(&self.state(offset)).expect("a state has string keys only");
        let shape = ArrayShape::new(DType::U8, [state.len()]);
        tensors.insert(format!("{name}{STATE}{NF4_TYPE}"), Literal::from_bytes(shape, state));
        tensors
    }

    fn state(&self, offset: Option<f32>) -> QuantState {
        QuantState {
            quant_type: NF4_TYPE.to_owned(),
            blocksize: self.scheme.block().unwrap_or_default(),
            dtype: torch_name(self.dtype).to_owned(),
            shape: vec![self.rows, self.columns],
            nested_blocksize: offset.map(|_| NESTED),
            nested_dtype: offset.map(|_| torch_name(DType::F32).to_owned()),
            nested_offset: offset.map(f64::from),
        }
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { scheme, rows, columns, parts, .. } = *self;
        if !matches!(scheme, Scheme::Nf4 | Scheme::Nf4Double) {
            return Some(format!("expected scheme nf4 or nf4-double, found {}", scheme.name()));
        }
        let matrix = Matrix { rows, columns };
        let expected: Vec<usize> = scheme.parts().iter().map(|part| part_bytes(part, matrix)).collect();
        let found: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        (expected != found).then(|| format!("expected parts of {expected:?} bytes, found {found:?}"))
    }
}
