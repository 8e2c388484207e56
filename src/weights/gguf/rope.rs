//! Scaling of rotary embeddings: GGUF has factors, where Hugging Face has the rule that they are computed from.

use std::{collections::BTreeMap, f64::consts::TAU, slice};

use serde_json::{Value, json};

use super::{
    super::{WeightsError, tensor::MappedTensor},
    metadata::Metadata,
};
use crate::{base::DType, model::arch::GgufArchitecture};

/// The tensor of divisors of the inverse frequencies.
pub(super) const FACTORS: &str = "rope_freqs.weight";

/// Parameters of all released Llama 3.1, 3.2 and 3.3 models, apart from the factor.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;
const ORIGINAL_POSITIONS: f64 = 8192.0;

/// `rope_scaling` of config.json; null for none.
pub(super) fn scaling(
    metadata: &Metadata,
    architecture: GgufArchitecture,
    tensors: &BTreeMap<String, MappedTensor>,
    head_dim: usize,
    theta: f64,
) -> Result<Value, WeightsError> {
    let linear = linear_factor(metadata, architecture)?;
    let Some(tensor) = tensors.get(FACTORS) else {
        return Ok(linear.map_or(Value::Null, |factor| json!({ "rope_type": "linear", "factor": factor })));
    };
    let wrong =
        |problem| WeightsError::Tensor { path: metadata.path.clone(), name: FACTORS.to_owned(), problem };
    let dims = [head_dim / 2];
    if tensor.info.dims != dims {
        return Err(wrong(format!("expected shape {dims:?}, found {:?}", tensor.info.dims)));
    }
    if linear.is_some() {
        return Err(wrong("expected no scaling beside these factors, found linear".to_owned()));
    }
    let mut bytes = vec![0; 4 * dims[0]];
    tensor.read(FACTORS, slice::from_ref(&(0..dims[0])), DType::F32, &mut bytes)?;
    let (numbers, _) = bytes.as_chunks::<4>();
    let factors: Vec<f64> = numbers.iter().map(|&number| f32::from_le_bytes(number).into()).collect();
    let factor = factors.iter().copied().fold(1.0, f64::max);
    if factors.iter().all(|&factor| factor == 1.0) {
        return Ok(Value::Null);
    }
    let close = |(a, b): (&f64, f64)| (a - b).abs() <= 1e-4 * b;
    if !factors.iter().zip(llama3_factors(factor, head_dim, theta)).all(close) {
        return Err(wrong(format!(
            "expected the llama3 rule with factor {factor}, {LOW}, {HIGH} and {ORIGINAL_POSITIONS} positions, \
             found others"
        )));
    }
    Ok(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": ORIGINAL_POSITIONS as u64,
    }))
}

fn linear_factor(metadata: &Metadata, architecture: GgufArchitecture) -> Result<Option<f64>, WeightsError> {
    let key = |setting: &str| format!("{}.rope.{setting}", architecture.name);
    let older = metadata.float(&key("scale_linear"))?.filter(|&factor| factor != 1.0);
    match metadata.text(&key("scaling.type"))? {
        None => Ok(older),
        Some("none") => Ok(None),
        Some("linear") => {
            let key = key("scaling.factor");
            metadata.required(&key, metadata.float(&key)?).map(Some)
        }
        Some(other) => {
            Err(metadata.wrong(&key("scaling.type"), format!("expected none or linear, found {other}")))
        }
    }
}

/// Divisors of the inverse frequencies: 1 for short wavelengths, `factor` for those above the original context length,
/// interpolated between. Source: `_compute_llama3_parameters` of `transformers`.
fn llama3_factors(factor: f64, head_dim: usize, theta: f64) -> impl Iterator<Item = f64> {
    (0..head_dim / 2).map(move |i| {
        let wavelength = TAU * theta.powf(2.0 * i as f64 / head_dim as f64);
        let smooth = ((ORIGINAL_POSITIONS / wavelength - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
        1.0 / ((1.0 - smooth) / factor + smooth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: with theta 500000 and head size 4, the waves are 2π and 4443 long; the second lies between 8192/4 and
    /// 8192/1, blended by (8192/4443 - 1)/3.
    #[test]
    fn factors_follow_the_rule() {
        let factors: Vec<f64> = llama3_factors(8.0, 4, 500_000.0).collect();
        let wavelength = TAU * 500_000f64.sqrt();
        let smooth = (8192.0 / wavelength - 1.0) / 3.0;
        assert_eq!(factors[0], 1.0);
        assert!((factors[1] - 1.0 / ((1.0 - smooth) / 8.0 + smooth)).abs() < 1e-12);
    }
}
