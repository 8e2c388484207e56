//! What a Llama-architecture model is: its sizes, biases and rotary embedding, read from a Hugging Face
//! `config.json` or from one of the embedded `models/*.toml`, which use the same field names.

mod builtin;
mod fields;
mod hf;
mod hf_rope;
mod linear;
mod rope;

pub use builtin::builtin_names;
pub use linear::Linear;
pub use rope::Rope;

use serde::Serialize;

use super::params::{ParamSpec, base_params};
use crate::base::DType;

/// The architecture of one model; the field names are those of `config.json`. Serialized, it is what decides a step.
///
/// Every constructor checks that no size is zero, that `num_key_value_heads` divides
/// `num_attention_heads`, that `head_dim` is even and that there are at most 2^50 parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Token ids the embedding knows.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Hidden features of the feed-forward block.
    pub intermediate_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads, each shared by `num_attention_heads / num_key_value_heads` query heads.
    pub num_key_value_heads: usize,
    /// Features of one head; not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square inside every RMSNorm.
    pub rms_norm_eps: f64,
    /// Whether the output head is the embedding itself.
    pub tie_word_embeddings: bool,
    /// Whether the query, key, value and output projections have biases.
    pub attention_bias: bool,
    /// Whether the three feed-forward projections have biases.
    pub mlp_bias: bool,
    /// The rotary position embedding.
    pub rope: Rope,
    /// Positions the model was made for.
    #[serde(skip)]
    pub max_position_embeddings: usize,
    /// Token ids that begin a text; empty if the file names none.
    #[serde(skip)]
    pub bos_token_ids: Vec<u32>,
    /// Token ids that end a text; empty if the file names none.
    #[serde(skip)]
    pub eos_token_ids: Vec<u32>,
    /// The element type the weights were saved in, if the file says so; the tensors themselves decide.
    #[serde(skip)]
    pub dtype: Option<DType>,
}

impl Config {
    /// Parameters of the base model: embedding, layers, final norm and, unless it is tied, the output head.
    pub fn param_count(&self) -> u64 {
        u64::try_from(self.exact_param_count()).unwrap_or(u64::MAX)
    }

    /// Cannot overflow for any sizes below 2^31.
    fn exact_param_count(&self) -> u128 {
        let elements = |spec: &ParamSpec| spec.dims().iter().map(|&(_, size)| size as u128).product::<u128>();
        base_params(self).iter().map(elements).sum()
    }
}
