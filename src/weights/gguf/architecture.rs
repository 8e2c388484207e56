//! GGUF names and keys of the architectures, as Hugging Face has them.
//! Source: `MODEL_TENSORS` and `Keys` of `gguf-py/gguf/constants.py`, `LlamaModel` and `Qwen2Model` of
//! `convert_hf_to_gguf.py`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    super::{
        TensorInfo, WeightsError,
        tensor::{MappedTensor, RowOrder},
    },
    end_tokens,
    metadata::{Metadata, MetadataValue},
    rope,
};

use crate::model::{
    Linear, Param,
    arch::{Architecture, Biases, GgufArchitecture, RotaryRows},
};

type Tensors = BTreeMap<String, MappedTensor>;

/// Keys of other models that share the architecture's name; any value but zero changes the mathematics.
const UNSUPPORTED: &[&str] = &[
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.sliding_window",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
];

/// The architecture of a file.
#[derive(Clone, Copy)]
struct Stored {
    architecture: &'static Architecture,
    gguf: GgufArchitecture,
}

impl Stored {
    fn of(metadata: &Metadata) -> Result<Self, WeightsError> {
        let key = "general.architecture";
        let name = metadata.required(key, metadata.text(key)?)?;
        let found = Architecture::of_gguf(name);
        let (architecture, gguf) = found.ok_or_else(|| {
            let known = Architecture::list(|known| Some(known.gguf?.name), ", ");
            metadata.wrong(key, format!("expected one of {known}, found {name}"))
        })?;
        Ok(Self { architecture, gguf })
    }

    /// The key of a setting of the architecture: `llama.block_count`.
    fn key(&self, setting: &str) -> String {
        format!("{}.{setting}", self.gguf.name)
    }
}

/// Rejects models of other architectures, and those that share the name of one.
pub(super) fn check(metadata: &Metadata) -> Result<(), WeightsError> {
    let stored = Stored::of(metadata)?;
    let is_set = |key: &String| {
        !matches!(
            metadata.values.get(key),
            None | Some(MetadataValue::Integer(0) | MetadataValue::Float(0.0))
        )
    };
    match UNSUPPORTED.iter().map(|setting| stored.key(setting)).find(is_set) {
        Some(key) => Err(metadata.wrong(&key, "not a plain Llama: this setting is not supported")),
        None => Ok(()),
    }
}

/// Renames the tensors. Unknown names are unchanged, so that the check against the model reports them.
pub(super) fn hf_tensors(metadata: &Metadata, tensors: &Tensors) -> Result<Tensors, WeightsError> {
    let stored = Stored::of(metadata)?;
    let mut renamed = Tensors::new();
    for (name, tensor) in tensors.iter().filter(|(name, _)| *name != rope::FACTORS) {
        let wrong =
            |problem| WeightsError::Tensor { path: metadata.path.clone(), name: name.clone(), problem };
        let (hf, rows) = match hf_name(name) {
            Some(hf) => (hf.clone(), row_order(metadata, stored, &hf, &tensor.info)?),
            None => (name.clone(), RowOrder::Same),
        };
        if renamed.insert(hf.clone(), MappedTensor { rows, ..tensor.clone() }).is_some() {
            return Err(wrong(format!("another tensor has the same Hugging Face name: {hf}")));
        }
    }
    Ok(renamed)
}

fn hf_name(name: &str) -> Option<String> {
    let (stem, suffix) = name.rsplit_once('.')?;
    if !matches!(suffix, "weight" | "bias") {
        return None;
    }
    let module = |gguf: &str| Param::all().find(|param| param.gguf_module() == gguf).map(Param::module);
    let Some(rest) = stem.strip_prefix("blk.") else { return Some(format!("{}.{suffix}", module(stem)?)) };
    let (layer, part) = rest.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let module = module(&format!("blk.*.{part}"))?;
    Some(format!("{}.{suffix}", module.replace('*', &layer.to_string())))
}

/// The converter interleaves the two halves of each query and key head where ggml's rotary embedding pairs them.
fn row_order(
    metadata: &Metadata,
    stored: Stored,
    hf_name: &str,
    info: &TensorInfo,
) -> Result<RowOrder, WeightsError> {
    if stored.gguf.rotary_rows == RotaryRows::Halves {
        return Ok(RowOrder::Same);
    }
    let (n_heads, n_kv_heads) = heads(metadata, stored)?;
    let n_heads = match hf_name {
        name if name.contains(Linear::Query.path()) => n_heads,
        name if name.contains(Linear::Key.path()) => n_kv_heads,
        _ => return Ok(RowOrder::Same),
    };
    match info.dims.first() {
        Some(&rows) if rows > 0 && rows.is_multiple_of(2 * n_heads) => {
            Ok(RowOrder::Interleaved { head_dim: rows / n_heads })
        }
        _ => Err(WeightsError::Tensor {
            path: metadata.path.clone(),
            name: hf_name.to_owned(),
            problem: format!("expected {n_heads} heads of an even size, found shape {:?}", info.dims),
        }),
    }
}

/// Query heads, and key and value heads.
fn heads(metadata: &Metadata, stored: Stored) -> Result<(usize, usize), WeightsError> {
    let [key, kv_key] =
        ["attention.head_count", "attention.head_count_kv"].map(|setting| stored.key(setting));
    let n_heads = metadata.required(&key, metadata.size(&key)?)?;
    let n_kv_heads = metadata.size(&kv_key)?.unwrap_or(n_heads);
    match (n_heads, n_kv_heads) {
        (0, _) => Err(metadata.wrong(&key, "expected at least one head, found 0")),
        (_, 0) => Err(metadata.wrong(&kv_key, "expected at least one head, found 0")),
        heads => Ok(heads),
    }
}

/// The equivalent of config.json.
pub(super) fn config(metadata: &Metadata, tensors: &Tensors) -> Result<Value, WeightsError> {
    let stored = Stored::of(metadata)?;
    let size = |setting: &str| {
        let key = stored.key(setting);
        metadata.required(&key, metadata.size(&key)?)
    };
    let (n_heads, n_kv_heads) = heads(metadata, stored)?;
    let hidden = size("embedding_length")?;
    let head_dim = metadata.size(&stored.key("attention.key_length"))?.unwrap_or(hidden / n_heads);
    for key in ["attention.value_length", "rope.dimension_count"].map(|setting| stored.key(setting)) {
        if let Some(found) = metadata.size(&key)?.filter(|&found| found != head_dim) {
            return Err(metadata.wrong(&key, format!("expected the head size {head_dim}, found {found}")));
        }
    }
    let norm_key = stored.key("attention.layer_norm_rms_epsilon");
    let rope_theta = metadata.float(&stored.key("rope.freq_base"))?.unwrap_or(10000.0);
    let tokens = metadata.texts("tokenizer.ggml.tokens")?;
    let vocab_key = stored.key("vocab_size");
    let vocab = metadata.size(&vocab_key)?.or(tokens.map(|tokens| tokens.len()));
    let max_positions = size("context_length")?;
    let id = |key| metadata.size(key);
    let mut config = json!({
        "architectures": [stored.architecture.class],
        "model_type": stored.architecture.model_type,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": size("feed_forward_length")?,
        "num_hidden_layers": size("block_count")?,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": metadata.required(&norm_key, metadata.float(&norm_key)?)?,
        "rope_theta": rope_theta,
        "rope_scaling": rope::scaling(metadata, stored.gguf, tensors, head_dim, rope_theta)?,
        "max_position_embeddings": max_positions,
        "vocab_size": metadata.required(&vocab_key, vocab)?,
        "tie_word_embeddings": !tensors.contains_key("output.weight"),
        "bos_token_id": id("tokenizer.ggml.bos_token_id")?,
        "eos_token_id": end_tokens::ids(metadata)?,
        "pad_token_id": id("tokenizer.ggml.padding_token_id")?,
    });
    if stored.architecture.biases == Biases::ByField {
        config["attention_bias"] = tensors.contains_key("blk.0.attn_q.bias").into();
        config["mlp_bias"] = tensors.contains_key("blk.0.ffn_gate.bias").into();
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_translate_and_strange_ones_do_not() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(hf_name(name).as_deref(), expect, "{name}");
        check("token_embd.weight", Some("model.embed_tokens.weight"));
        check("output.weight", Some("lm_head.weight"));
        check("output_norm.weight", Some("model.norm.weight"));
        check("blk.11.attn_q.bias", Some("model.layers.11.self_attn.q_proj.bias"));
        check("blk.0.ffn_norm.weight", Some("model.layers.0.post_attention_layernorm.weight"));
        check("blk.0.ffn_gate_inp.weight", None);
        check("blk.x.attn_q.weight", None);
        check("output.scale", None);
    }
}
