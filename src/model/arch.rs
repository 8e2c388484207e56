//! The architectures that models can have: how their files name them, and where their mathematics differs.
//!
//! All have the same blocks: RMSNorm, grouped-query attention with rotary embedding, RMSNorm, SwiGLU. The names of their
//! parameters are the same in transformers, PEFT and llama.cpp: those of [`Param`](super::Param) and [`Linear`].

use super::Linear;

/// An architecture of transformers.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: &'static str,
    /// The class in `architectures` of config.json.
    pub class: &'static str,
    /// Models that have it, for messages.
    pub models: &'static str,
    /// Which linears have a bias.
    pub biases: Biases,
    /// Where config.json has the sliding window.
    pub window: WindowKeys,
    /// Fields of config.json for which transformers assumes a size of one released model if they are missing.
    pub explicit_fields: &'static [&'static str],
    /// How llama.cpp stores it; `None` if its files say that they are of another architecture.
    pub gguf: Option<GgufArchitecture>,
}

/// Which linears have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Biases {
    /// Those of attention if `attention_bias` is true, those of the feed-forward block if `mlp_bias` is.
    ByField,
    /// These, whatever the fields are.
    Fixed(&'static [Linear]),
}

/// Where config.json has the sliding window of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKeys {
    /// Nowhere: attention is full.
    Unsupported,
    /// `sliding_window` is that of every layer; null for full attention.
    EveryLayer,
    /// `sliding_window`, if `use_sliding_window` is true, is that of the layers from `max_window_layers` on, or of those that
    /// `layer_types` lists.
    SomeLayers,
}

/// An architecture in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufArchitecture {
    /// `general.architecture`, which is also the prefix of its keys.
    pub name: &'static str,
    /// The order of rows in query and key projections.
    pub rotary_rows: RotaryRows,
}

/// The order of rows in the query and key projections of GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryRows {
    /// The two halves of a head one after the other, as in transformers.
    Halves,
    /// The two halves of a head interleaved, as the first rotary embedding of ggml pairs them.
    Interleaved,
}

/// Llama 2, 3 and what is like them.
pub static LLAMA: Architecture = Architecture {
    model_type: "llama",
    class: "LlamaForCausalLM",
    models: "Llama 2, 3, 3.1, 3.2 and models of their architecture, such as SmolLM2",
    biases: Biases::ByField,
    window: WindowKeys::Unsupported,
    explicit_fields: &[],
    gguf: Some(GgufArchitecture { name: "llama", rotary_rows: RotaryRows::Interleaved }),
};

/// Source: `modeling_qwen2.py` and `configuration_qwen2.py` of transformers 5.24, `Qwen2Model` of `convert_hf_to_gguf.py`.
pub static QWEN2: Architecture = Architecture {
    model_type: "qwen2",
    class: "Qwen2ForCausalLM",
    models: "Qwen 2 and 2.5",
    biases: Biases::Fixed(&[Linear::Query, Linear::Key, Linear::Value]),
    window: WindowKeys::SomeLayers,
    explicit_fields: &["num_key_value_heads"],
    gguf: Some(GgufArchitecture { name: "qwen2", rotary_rows: RotaryRows::Halves }),
};

/// Source: `modeling_mistral.py` and `configuration_mistral.py` of transformers 5.24. llama.cpp stores it as a Llama.
pub static MISTRAL: Architecture = Architecture {
    model_type: "mistral",
    class: "MistralForCausalLM",
    models: "Mistral",
    biases: Biases::Fixed(&[]),
    window: WindowKeys::EveryLayer,
    explicit_fields: &["num_key_value_heads", "sliding_window"],
    gguf: None,
};

impl Architecture {
    /// Every architecture.
    pub const ALL: [&'static Self; 3] = [&LLAMA, &QWEN2, &MISTRAL];

    /// The architecture with this `model_type`.
    pub fn of_model_type(model_type: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|architecture| architecture.model_type == model_type)
    }

    /// The architecture with one of these classes.
    pub fn of_classes<'a>(mut classes: impl Iterator<Item = &'a str>) -> Option<&'static Self> {
        classes.find_map(|class| Self::ALL.into_iter().find(|architecture| architecture.class == class))
    }

    /// The architecture with this `general.architecture` in GGUF files.
    pub fn of_gguf(name: &str) -> Option<(&'static Self, GgufArchitecture)> {
        let stored =
            Self::ALL.into_iter().filter_map(|architecture| Some((architecture, architecture.gguf?)));
        stored.into_iter().find(|(_, gguf)| gguf.name == name)
    }

    /// A text of every architecture, with `separator` between them.
    pub(crate) fn list(text: impl Fn(&'static Self) -> Option<&'static str>, separator: &str) -> String {
        Self::ALL.into_iter().filter_map(text).collect::<Vec<_>>().join(separator)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_finds_its_own_architecture() {
        for architecture in Architecture::ALL {
            assert_eq!(Architecture::of_model_type(architecture.model_type), Some(architecture));
            let classes = ["PreTrainedModel", architecture.class];
            assert_eq!(Architecture::of_classes(classes.into_iter()), Some(architecture));
            if let Some(gguf) = architecture.gguf {
                assert_eq!(Architecture::of_gguf(gguf.name), Some((architecture, gguf)));
            }
        }
        assert_eq!(Architecture::of_model_type("gemma"), None);
        assert_eq!(Architecture::of_gguf("mistral"), None);
        let types: BTreeSet<_> = Architecture::ALL.map(|architecture| architecture.model_type).into();
        assert_eq!(types.len(), Architecture::ALL.len());
    }
}
