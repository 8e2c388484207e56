//! Names of parameters in the files of transformers, PEFT and llama.cpp.

use std::fmt;

use super::Linear;

/// A parameter of the base model; those of a layer are stacked over all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Param {
    /// The embedding table, which is the head too if the two are tied.
    Embed,
    /// The norm before attention.
    InputNorm,
    /// The weight of a linear.
    Weight(Linear),
    /// The bias of a linear.
    Bias(Linear),
    /// The norm before the feed-forward block.
    PostAttentionNorm,
    /// The norm before the head.
    FinalNorm,
    /// The head, if it is not tied.
    Head,
}

impl Param {
    /// Every parameter that a model of this architecture can have.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_linears =
            Linear::ALL.into_iter().flat_map(|linear| [Self::Weight(linear), Self::Bias(linear)]);
        [Self::Embed, Self::InputNorm, Self::PostAttentionNorm, Self::FinalNorm, Self::Head]
            .into_iter()
            .chain(of_linears)
    }

    /// Hugging Face path of its module, with `*` in place of the layer number.
    pub fn module(self) -> String {
        match self {
            Self::Embed => "model.embed_tokens".to_owned(),
            Self::InputNorm => "model.layers.*.input_layernorm".to_owned(),
            Self::Weight(linear) | Self::Bias(linear) => format!("model.layers.*.{}", linear.path()),
            Self::PostAttentionNorm => "model.layers.*.post_attention_layernorm".to_owned(),
            Self::FinalNorm => "model.norm".to_owned(),
            Self::Head => "lm_head".to_owned(),
        }
    }

    /// GGUF name of its module, with `*` in place of the layer number.
    /// Source: `MODEL_TENSORS` of `gguf-py/gguf/constants.py`.
    pub fn gguf_module(self) -> String {
        match self {
            Self::Embed => "token_embd".to_owned(),
            Self::InputNorm => "blk.*.attn_norm".to_owned(),
            Self::Weight(linear) | Self::Bias(linear) => format!("blk.*.{}", linear.gguf_name()),
            Self::PostAttentionNorm => "blk.*.ffn_norm".to_owned(),
            Self::FinalNorm => "output_norm".to_owned(),
            Self::Head => "output".to_owned(),
        }
    }

    /// Hugging Face tensor name, with `*` in place of the layer number.
    pub fn tensor_name(self) -> String {
        let suffix = if matches!(self, Self::Bias(_)) { "bias" } else { "weight" };
        format!("{}.{suffix}", self.module())
    }
}

impl fmt::Display for Param {
    /// The last component of the module path, with `.bias` for a bias.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.module();
        let name = module.rsplit('.').next().unwrap_or(&module);
        let bias = if matches!(self, Self::Bias(_)) { ".bias" } else { "" };
        write!(f, "{name}{bias}")
    }
}

/// One of the two factors of a low-rank adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Factor {
    /// From the input features down to the rank.
    A,
    /// From the rank up to the output features.
    B,
}

impl Factor {
    /// Its name in PEFT's state dicts, without the `.weight`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "lora_A",
            Self::B => "lora_B",
        }
    }

    /// Suffix of its tensor name, after the module path.
    pub const fn tensor_suffix(self) -> &'static str {
        match self {
            Self::A => ".lora_A.weight",
            Self::B => ".lora_B.weight",
        }
    }

    /// Name of its tensor in PEFT's files: `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
    pub fn peft_name(self, layer: usize, linear: Linear) -> String {
        format!("base_model.model.{}{}", linear.module_name(layer), self.tensor_suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_one_name() {
        for factor in [Factor::A, Factor::B] {
            assert_eq!(factor.tensor_suffix(), format!(".{}.weight", factor.name()));
        }
    }

    #[test]
    fn the_parameters_of_a_layer_are_those_with_a_layer_number() {
        for param in Param::all() {
            assert_eq!(param.module().contains('*'), param.gguf_module().contains('*'), "{param}");
        }
        let bias = Param::Bias(Linear::Query);
        assert_eq!(bias.tensor_name(), "model.layers.*.self_attn.q_proj.bias");
        assert_eq!((bias.gguf_module().as_str(), bias.to_string().as_str()), ("blk.*.attn_q", "q_proj.bias"));
    }
}
