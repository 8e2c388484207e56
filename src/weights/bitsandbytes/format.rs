//! The names and the JSON of a quantized weight. Source: `QuantState.as_dict` and `Linear8bitLt` of bitsandbytes 0.50.

use serde::{Deserialize, Serialize};

use crate::base::DType;

/// Ends the name of the JSON of a weight: the type of the codes follows.
pub(super) const STATE: &str = ".quant_state.bitsandbytes__";
/// The type of codes that is read and written.
pub(super) const NF4_TYPE: &str = "nf4";
/// Suffixes of the tables that codes are numbers in.
pub(super) const QUANT_MAP: &str = "quant_map";
pub(super) const NESTED_QUANT_MAP: &str = "nested_quant_map";
/// Ends the name of the largest magnitudes of the rows of an 8-bit weight.
pub(super) const SCALE: &str = ".SCB";
/// Ends the name of the order of its bytes.
pub(super) const FORMAT: &str = ".weight_format";

/// The JSON that describes a weight.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QuantState {
    pub quant_type: String,
    pub blocksize: usize,
    /// The type that the weight had.
    pub dtype: String,
    /// `[out, in]`.
    pub shape: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_blocksize: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_offset: Option<f64>,
}

/// PyTorch's name of a type that weights have.
pub fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    }
}
