//! An adapter merged into its base model, or written for llama.cpp.

use std::path::Path;

use half::{bf16, f16};
use ndarray::{Array2, ArrayViewMut2, linalg::general_mat_mul};
use serde_json::json;

use super::{AppError, Status};
use crate::{
    base::{ArrayShape, DType, Literal},
    model::{
        Adapted, AdapterId, Config, Factor, Linear, Param, TrainableId,
        arch::{Architecture, LLAMA},
        base_params,
    },
    train::{Model, OpenedAdapter, TrainableValues},
    weights::{FolderWriter, GgufFactor, WeightsError, write_gguf_lora},
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
                    let place = Place { linear, layer, adapted };
                    rounded(place.merged(weight, adapter, &model.config), dtype)
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
    let mut factors = Vec::new();
    for (layer, linear, adapted) in adapter.plan.iter() {
        let place = Place { linear, layer, adapted };
        let [a, b] = place.factors(adapter, &model.config);
        let b = b * (alpha(&adapted) / of_all) as f32;
        let module = Param::Weight(linear).gguf_module().replace('*', &layer.to_string());
        let factor = |suffix: &str, matrix: Array2<f32>| GgufFactor {
            name: format!("{module}.weight.{suffix}"),
            dims: [matrix.nrows(), matrix.ncols()],
            values: matrix.iter().copied().collect(),
        };
        let b = factor("lora_b", b.reversed_axes());
        let b = match linear {
            Linear::Query | Linear::Key => b.with_rotary_rows(architecture, model.config.head_dim),
            _ => b,
        };
        factors.extend([factor("lora_a", a), b]);
    }
    write_gguf_lora(path, architecture, of_all as f32, &factors)?;
    Ok(factors.len())
}

/// A linear of a layer, with its adapter.
struct Place {
    linear: Linear,
    layer: usize,
    adapted: Adapted,
}

impl Place {
    /// The factors `A [rank, in]` and `B [rank, out]`.
    fn factors(&self, adapter: &OpenedAdapter, config: &Config) -> [Array2<f32>; 2] {
        let &Self { linear, layer, adapted: Adapted { rank, .. } } = self;
        let (inputs, outputs) = linear.features(config);
        [(Factor::A, inputs), (Factor::B, outputs)].map(|(factor, features)| {
            let id = TrainableId::Adapter(AdapterId { linear, factor });
            let rows = rows_of(&adapter.factors, id, layer, rank);
            Array2::from_shape_vec((rank, features), rows).expect("factors have the features of their linear")
        })
    }

    /// `W + scale B A` of a float32 weight `[out, in]`.
    fn merged(&self, weight: Literal, adapter: &OpenedAdapter, config: &Config) -> Literal {
        let (inputs, outputs) = self.linear.features(config);
        let [a, b] = self.factors(adapter, config);
        let mut values = weight.to_f32s();
        let matrix = ArrayViewMut2::from_shape((outputs, inputs), &mut values);
        let mut matrix = matrix.expect("the shapes of weights are checked when a model is opened");
        general_mat_mul(self.adapted.scale as f32, &b.t(), &a, 1.0, &mut matrix);
        Literal::f32s([outputs, inputs], &values)
    }
}

/// A float32 array as `dtype`, rounded to nearest even.
fn rounded(literal: Literal, dtype: DType) -> Literal {
    let shape = ArrayShape::new(dtype, literal.shape().dims.clone());
    let values = literal.to_f32s();
    let bytes = match dtype {
        DType::BF16 => values.into_iter().flat_map(|value| bf16::from_f32(value).to_le_bytes()).collect(),
        DType::F16 => values.into_iter().flat_map(|value| f16::from_f32(value).to_le_bytes()).collect(),
        _ => return literal,
    };
    Literal::from_bytes(shape, bytes)
}

/// The config.json of a merged model: of plain weights of `dtype`, and tied only if the weights are.
fn config(model: &Model, dtype: DType) -> Result<serde_json::Value, WeightsError> {
    let mut config = model.files.config()?;
    if let Some(fields) = config.as_object_mut() {
        fields.remove("quantization_config");
        fields.remove("torch_dtype");
    }
    config["dtype"] = json!(match dtype {
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    });
    config["tie_word_embeddings"] = json!(model.config.tie_word_embeddings);
    Ok(config)
}

/// The first `rank` rows of a stack at `layer`; empty if there is no such stack.
fn rows_of(factors: &TrainableValues, id: TrainableId, layer: usize, rank: usize) -> Vec<f32> {
    let Some(stack) = factors.get(&id) else { return vec![] };
    let [_, max_rank, features @ ..] = &stack.shape().dims[..] else { return vec![] };
    let features: usize = features.iter().product();
    stack.to_f32s()[layer * max_rank * features..][..rank * features].to_vec()
}
