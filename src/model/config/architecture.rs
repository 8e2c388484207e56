use std::collections::BTreeSet;

use serde::Serialize;

use super::rope::Rope;
use crate::{
    base::{DType, Scheme},
    model::Linear,
};

/// The architecture of a model; the field names are those of `config.json`. Fields that do not affect a step are not
/// serialized.
///
/// Every constructor checks that no size is zero, that `num_key_value_heads` divides
/// `num_attention_heads`, that `head_dim` is even and that there are at most 2^50 parameters.
///
/// ```
/// use hloom::model::Config;
///
/// let config = Config::builtin("llama3.1-8b")?;
/// assert_eq!(config.param_count(), 8_030_261_248);
///
/// // A file is read with the field names of transformers, and every problem in it is reported.
/// let problems = Config::from_toml("model_type = \"llama\"\nvocab_size = 0\n", "small.toml").unwrap_err();
/// assert_eq!(
///     problems.iter().next().map(ToString::to_string).as_deref(),
///     Some("small.toml: `vocab_size`: expected a whole number from 1 to 2147483647, found 0"),
/// );
/// # Ok::<(), hloom::base::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Number of token ids.
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
    /// The linears that have a bias `[outputs]`.
    pub biases: BTreeSet<Linear>,
    /// Number of positions that a position attends to, its own included; `None` for all before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<usize>,
    /// The rotary position embedding.
    pub rope: Rope,
    /// Positions that the model was trained for.
    #[serde(skip)]
    pub max_position_embeddings: usize,
    /// Token ids that begin a text; empty if the file has none.
    #[serde(skip)]
    pub bos_token_ids: Vec<u32>,
    /// Token ids that end a text; empty if the file has none.
    #[serde(skip)]
    pub eos_token_ids: Vec<u32>,
    /// Element type of the weights according to the file; that of the tensors takes precedence.
    #[serde(skip)]
    pub dtype: Option<DType>,
    /// The scheme by which the model's files store the weights of linears; `None` if they are not quantized.
    #[serde(skip)]
    pub quantized: Option<Scheme>,
}

impl Config {
    /// Number of parameters of the base model: embedding, layers, final norm and, unless it is tied, the output head.
    pub fn param_count(&self) -> u64 {
        u64::try_from(self.exact_param_count()).unwrap_or(u64::MAX)
    }

    /// [`Config::param_count`] without overflow, for sizes below 2^31.
    pub(super) fn exact_param_count(&self) -> u128 {
        let [vocab, hidden, mlp, layers] =
            [self.vocab_size, self.hidden_size, self.intermediate_size, self.num_hidden_layers]
                .map(|size| size as u128);
        let [heads, kv_heads] = [self.num_attention_heads, self.num_key_value_heads]
            .map(|heads| heads as u128 * self.head_dim as u128);
        let outputs = |linear: &Linear| match linear {
            Linear::Query => heads,
            Linear::Key | Linear::Value => kv_heads,
            Linear::Output | Linear::Down => hidden,
            Linear::Gate | Linear::Up => mlp,
        };
        let biases: u128 = self.biases.iter().map(outputs).sum();
        let layer = 2 * hidden * (heads + kv_heads) + 3 * hidden * mlp + biases + 2 * hidden;
        let tables = if self.tie_word_embeddings { 1 } else { 2 };
        tables * vocab * hidden + layers * layer + hidden
    }
}
