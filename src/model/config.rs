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

use crate::base::DType;

/// The architecture of one model; the field names are those of `config.json`.
///
/// Every constructor checks that no size is zero, that `num_key_value_heads` divides
/// `num_attention_heads`, that `head_dim` is even and that there are at most 2^50 parameters.
#[derive(Clone, Debug, PartialEq)]
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
    pub max_position_embeddings: usize,
    /// Token ids that begin a text; empty if the file names none.
    pub bos_token_ids: Vec<u32>,
    /// Token ids that end a text; empty if the file names none.
    pub eos_token_ids: Vec<u32>,
    /// The element type the weights were saved in, if the file says so; the tensors themselves decide.
    pub dtype: Option<DType>,
}

impl Config {
    /// Features of all query heads together.
    pub fn query_features(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Features of all key heads together, and of all value heads.
    pub fn key_value_features(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Parameters of the base model: embedding, layers, final norm and, unless it is tied, the output head.
    pub fn param_count(&self) -> u64 {
        u64::try_from(self.exact_param_count()).unwrap_or(u64::MAX)
    }

    /// Cannot overflow for any sizes below 2^31.
    fn exact_param_count(&self) -> u128 {
        let hidden = self.hidden_size as u128;
        let linears: u128 = Linear::ALL
            .into_iter()
            .map(|linear| {
                let (inputs, outputs) = linear.features(self);
                let bias = if linear.has_bias(self) { outputs as u128 } else { 0 };
                inputs as u128 * outputs as u128 + bias
            })
            .sum();
        let norms = 2 * hidden;
        let vocab = self.vocab_size as u128 * hidden;
        let heads = if self.tie_word_embeddings { 0 } else { vocab };
        vocab + self.num_hidden_layers as u128 * (linears + norms) + hidden + heads
    }
}
