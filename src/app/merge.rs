//! An adapter merged into its base model, or written for llama.cpp.

use std::{collections::BTreeMap, path::Path};

use ndarray::{Array2, linalg::general_mat_mul};
use serde_json::json;

use super::{AppError, Status};
use crate::{
    base::{ArrayShape, DType, Literal},
    model::{
        Adapted, Config, Factor, Linear, Param,
        arch::{Architecture, LLAMA},
        base_params,
    },
    train::{Model, OpenedAdapter, peft_tensors},
    weights::{FolderWriter, GgufFactor, WeightsError, encode, torch_name, write_gguf_lora},
};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Tensors of the folder.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Weights that the adapter changed.
    pub merged: usize,
}

/// Writes `model` with `adapter` merged into it to a Hugging Face folder at `path`, which must not exist, with weights of `dtype`
/// (f32, bf16 or f16). A merged weight is `W + scale B A`, computed in float32 and rounded once. Quantized weights are dequantized.
///
/// # Errors
/// If a tensor cannot be read, or the folder cannot be written.
pub fn merge(
    model: &Model,
    adapter: &OpenedAdapter,
    dtype: DType,
    path: &Path,
    status: &mut dyn Status,
) -> Result<Merged, AppError> {
    let mut folder = FolderWriter::create(path)?;
    let params = base_params(&model.config);
    let sizes = params.iter().map(|spec| {
        let numel: usize = spec.dims().iter().map(|&(_, size)| size).product();
        numel * dtype.bytes()
    });
    let total: usize = sizes.sum();
    let factors = Factors::of(adapter, &model.config);
    let (mut tensors, mut bytes, mut merged) = (0, 0, 0);
    for spec in &params {
        for (layer, name) in spec.stored_names().into_iter().enumerate() {
            status.fetched("merging", bytes as u64, Some(total as u64));
            let adapted = match spec.param {
                Param::Weight(linear) => adapter.plan.get(layer, linear).map(|adapted| (linear, adapted)),
                _ => None,
            };
            let literal = match adapted {
                None => model.checkpoint.literal(&name, dtype)?,
                Some((linear, adapted)) => {
                    merged += 1;
                    let weight = model.checkpoint.literal(&name, DType::F32)?;
                    factors.merged(&weight, (layer, linear), adapted.scale, dtype)
                }
            };
            (tensors, bytes) = (tensors + 1, bytes + literal.bytes().len());
            folder.add(&name, literal)?;
            model.checkpoint.release(&name)?;
        }
    }
    folder.finish(&model.files, &config(model, dtype)?)?;
    status.done();
    Ok(Merged { tensors, bytes, merged })
}

/// Writes `adapter` as a GGUF file for llama.cpp, which has one `alpha` for all: other scales are in the factors `B`. Returns the
/// number of its tensors.
///
/// # Errors
/// If the file cannot be written.
pub fn write_gguf(model: &Model, adapter: &OpenedAdapter, path: &Path) -> Result<usize, AppError> {
    let config = model.files.config()?;
    let of_model = config["model_type"].as_str().and_then(Architecture::of_model_type);
    // llama.cpp stores architectures that it has no name for as a Llama.
    let architecture = of_model.and_then(|found| found.gguf).or(LLAMA.gguf);
    let architecture = architecture.expect("llama.cpp has a name for Llama");
    let alpha = |adapted: &Adapted| adapted.scale * adapted.rank as f64;
    let of_all = adapter.plan.iter().next().map_or(1.0, |(_, _, adapted)| alpha(&adapted));
    let opened = Factors::of(adapter, &model.config);
    let mut factors = Vec::new();
    for (layer, linear, adapted) in adapter.plan.iter() {
        let module = Param::Weight(linear).gguf_module().replace('*', &layer.to_string());
        let factor = |suffix: &str, factor, scale: f32| {
            let literal = opened.get(layer, linear, factor);
            GgufFactor {
                name: format!("{module}.weight.{suffix}"),
                dims: [literal.shape().dims[0], literal.shape().dims[1]],
                values: literal.to_f32s().into_iter().map(|value| value * scale).collect(),
            }
        };
        let b = factor("lora_b", Factor::B, (alpha(&adapted) / of_all) as f32);
        let b = match linear {
            Linear::Query | Linear::Key => b.with_rotary_rows(architecture, model.config.head_dim),
            _ => b,
        };
        factors.extend([factor("lora_a", Factor::A, 1.0), b]);
    }
    write_gguf_lora(path, architecture, of_all as f32, &factors)?;
    Ok(factors.len())
}

/// The factors of an adapter by PEFT's names.
struct Factors(BTreeMap<String, Literal>);

impl Factors {
    fn of(adapter: &OpenedAdapter, config: &Config) -> Self {
        Self(peft_tensors(&adapter.factors, config, &adapter.plan))
    }

    /// `A [rank, in]` or `B [out, rank]` of an adapted linear.
    fn get(&self, layer: usize, linear: Linear, factor: Factor) -> &Literal {
        &self.0[&factor.peft_name(layer, linear)]
    }

    /// `W + scale B A` of a float32 weight `[out, in]`, as `dtype`.
    fn merged(&self, weight: &Literal, place: (usize, Linear), scale: f64, dtype: DType) -> Literal {
        let (layer, linear) = place;
        let matrix = |literal: &Literal| {
            let dims = &literal.shape().dims;
            let matrix = Array2::from_shape_vec((dims[0], dims[1]), literal.to_f32s());
            matrix.expect("the shapes of weights and adapters are checked when they are opened")
        };
        let factor = |factor| matrix(self.get(layer, linear, factor));
        let mut merged = matrix(weight);
        general_mat_mul(scale as f32, &factor(Factor::B), &factor(Factor::A), 1.0, &mut merged);
        let dims = [merged.nrows(), merged.ncols()];
        rounded(&merged.into_raw_vec_and_offset().0, dims, dtype)
    }
}

/// Float32 values as an array of `dtype`, rounded to nearest even.
fn rounded(values: &[f32], dims: [usize; 2], dtype: DType) -> Literal {
    let mut literal = Literal::zeros(ArrayShape::new(dtype, dims));
    encode(values, dtype, literal.bytes_mut());
    literal
}

/// The config.json of a merged model: of plain weights of `dtype`, and tied only if the weights are.
fn config(model: &Model, dtype: DType) -> Result<serde_json::Value, WeightsError> {
    let mut config = model.files.config()?;
    if let Some(fields) = config.as_object_mut() {
        fields.remove("quantization_config");
        fields.remove("torch_dtype");
    }
    config["dtype"] = json!(torch_name(dtype));
    config["tie_word_embeddings"] = json!(model.config.tie_word_embeddings);
    Ok(config)
}
