//! The one list of a model's parameters: names on disk, named dimensions, stacking. Loading, sharding, the graph and
//! the memory figures all go by it.

use super::{Config, Linear, LoraPlan};
use crate::mesh::Dim;

/// A parameter of the base model; those of a layer stand for the whole stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Param {
    /// The embedding table, and the head too where the two are tied.
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
    /// The head, where it is not tied.
    Head,
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
}

/// A factor of the adapters of one linear, stacked over the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId {
    /// The linear that is adapted.
    pub linear: Linear,
    /// Which factor.
    pub factor: Factor,
}

/// Named dimensions with their sizes, outermost first.
pub type NamedDims = Vec<(Dim, usize)>;

/// A parameter of the base model: how it lies on disk and on devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// Which parameter.
    pub param: Param,
    /// The tensor name on disk, as Hugging Face gives it; `*` stands for the layer.
    pub name: String,
    /// The layers stacked into one tensor on the device; `None` outside the stack.
    pub layers: Option<usize>,
    /// The dimensions on disk, each as the named ones it is made of: 4096 rows are 32 heads of 128.
    pub stored: Vec<NamedDims>,
}

impl ParamSpec {
    /// The dimensions on the device: the layers, where stacked, then the named ones.
    pub fn dims(&self) -> NamedDims {
        let layers = self.layers.map(|layers| (Dim::Layers, layers));
        layers.into_iter().chain(self.stored.iter().flatten().copied()).collect()
    }

    /// The sizes on disk, of one layer.
    pub fn stored_sizes(&self) -> Vec<usize> {
        self.stored.iter().map(|parts| parts.iter().map(|(_, size)| size).product()).collect()
    }

    /// The names on disk: one, or one for each layer in order.
    pub fn stored_names(&self) -> Vec<String> {
        match self.layers {
            None => vec![self.name.clone()],
            Some(layers) => (0..layers).map(|layer| self.name.replace('*', &layer.to_string())).collect(),
        }
    }
}

/// Every parameter of the base model, in the order of the program's arguments.
pub fn base_params(config: &Config) -> Vec<ParamSpec> {
    let embed = (Dim::Embed, config.hidden_size);
    let vocab = (Dim::Vocab, config.vocab_size);
    let whole = |param, name: &str, stored| ParamSpec { param, name: name.into(), layers: None, stored };
    let mut params = vec![whole(Param::Embed, "model.embed_tokens.weight", vec![vec![vocab], vec![embed]])];
    params.extend(layer_params(config));
    params.push(whole(Param::FinalNorm, "model.norm.weight", vec![vec![embed]]));
    if !config.tie_word_embeddings {
        params.push(whole(Param::Head, "lm_head.weight", vec![vec![vocab], vec![embed]]));
    }
    params
}

/// The parameters of one layer, stacked over all.
pub fn layer_params(config: &Config) -> Vec<ParamSpec> {
    let stacked = |param, name: &str, stored| ParamSpec {
        param,
        name: format!("model.layers.*.{name}"),
        layers: Some(config.num_hidden_layers),
        stored,
    };
    let norm = vec![vec![(Dim::Embed, config.hidden_size)]];
    let mut params = vec![
        stacked(Param::InputNorm, "input_layernorm.weight", norm.clone()),
        stacked(Param::PostAttentionNorm, "post_attention_layernorm.weight", norm),
    ];
    for linear in Linear::ALL {
        let (name, Features { input, output }) = (linear.name(), features(linear, config));
        let parent = linear.parent();
        if linear.has_bias(config) {
            params.push(stacked(Param::Bias(linear), &format!("{parent}.{name}.bias"), vec![output.clone()]));
        }
        let weight = format!("{parent}.{name}.weight");
        params.push(stacked(Param::Weight(linear), &weight, vec![output, input]));
    }
    params
}

/// The named dimensions on both sides of a linear.
pub struct Features {
    /// What it takes.
    pub input: NamedDims,
    /// What it gives.
    pub output: NamedDims,
}

/// The named dimensions on both sides of `linear`.
pub fn features(linear: Linear, config: &Config) -> Features {
    let embed = vec![(Dim::Embed, config.hidden_size)];
    let mlp = vec![(Dim::Mlp, config.intermediate_size)];
    let head_dim = (Dim::HeadDim, config.head_dim);
    let heads = vec![(Dim::Heads, config.num_attention_heads), head_dim];
    let kv_heads = vec![(Dim::KvHeads, config.num_key_value_heads), head_dim];
    let (input, output) = match linear {
        Linear::Query => (embed, heads),
        Linear::Key | Linear::Value => (embed, kv_heads),
        Linear::Output => (heads, embed),
        Linear::Gate | Linear::Up => (embed, mlp),
        Linear::Down => (mlp, embed),
    };
    Features { input, output }
}

/// One factor of the adapters of a linear, stacked over all layers and padded with zeros to the largest rank among
/// them: zero rows of both factors have zero gradients, so the padding stays zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSpec {
    /// Which factor of which linear.
    pub id: AdapterId,
    /// `[layers, rank, features of the factor's outer side]`, float32.
    pub dims: NamedDims,
}

/// Every adapter factor, in the order of the program's arguments.
pub fn adapter_params(config: &Config, plan: &LoraPlan) -> Vec<AdapterSpec> {
    let mut specs = Vec::new();
    for linear in Linear::ALL.into_iter().filter(|&linear| plan.is_adapted(linear)) {
        let leading = [(Dim::Layers, config.num_hidden_layers), (Dim::Rank, plan.max_rank(linear))];
        let Features { input, output } = features(linear, config);
        for (factor, side) in [(Factor::A, input), (Factor::B, output)] {
            let dims = leading.into_iter().chain(side).collect();
            specs.push(AdapterSpec { id: AdapterId { linear, factor }, dims });
        }
    }
    specs
}

/// The sizes of named dimensions.
pub fn sizes(dims: &[(Dim, usize)]) -> Vec<usize> {
    dims.iter().map(|&(_, size)| size).collect()
}
