//! The list of a model's parameters: names on disk, named dimensions, stacking. Loading, sharding, the step and the memory
//! report all use it.

use super::{Config, Linear, Param};
use crate::mesh::Dim;

/// Named dimensions with their sizes, outermost first.
pub type NamedDims = Vec<(Dim, usize)>;

/// A parameter of the base model: its layout on disk and on devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// The parameter.
    pub param: Param,
    /// The tensor name in Hugging Face files, with `*` in place of the layer number.
    pub name: String,
    /// Number of layers stacked into one tensor on the device; `None` for a parameter outside the layers.
    pub layers: Option<usize>,
    /// The dimensions on disk, each as a product of named ones: 4096 rows are 32 heads of 128.
    pub stored: Vec<NamedDims>,
}

impl ParamSpec {
    /// The dimensions on the device: the layers, if stacked, then the named ones.
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
    let single = |param: Param, stored| ParamSpec { param, name: param.tensor_name(), layers: None, stored };
    let mut params = vec![single(Param::Embed, vec![vec![vocab], vec![embed]])];
    params.extend(layer_params(config));
    params.push(single(Param::FinalNorm, vec![vec![embed]]));
    if !config.tie_word_embeddings {
        params.push(single(Param::Head, vec![vec![vocab], vec![embed]]));
    }
    params
}

/// The parameters of the layers, stacked.
pub(crate) fn layer_params(config: &Config) -> Vec<ParamSpec> {
    let stacked = |param: Param, stored| ParamSpec {
        param,
        name: param.tensor_name(),
        layers: Some(config.num_hidden_layers),
        stored,
    };
    let norm = vec![vec![(Dim::Embed, config.hidden_size)]];
    let mut params = vec![stacked(Param::InputNorm, norm.clone()), stacked(Param::PostAttentionNorm, norm)];
    for linear in Linear::ALL {
        let Features { input, output } = features(linear, config);
        if linear.has_bias(config) {
            params.push(stacked(Param::Bias(linear), vec![output.clone()]));
        }
        params.push(stacked(Param::Weight(linear), vec![output, input]));
    }
    params
}

/// The features of a linear, as named dimensions.
pub struct Features {
    /// Input features.
    pub input: NamedDims,
    /// Output features.
    pub output: NamedDims,
}

/// The input and output features of a linear.
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

impl Linear {
    /// Number of input features and of output features; the weight is `[outputs, inputs]`.
    pub fn features(self, config: &Config) -> (usize, usize) {
        let Features { input, output } = features(self, config);
        let product = |dims: NamedDims| dims.iter().map(|&(_, size)| size).product();
        (product(input), product(output))
    }

    /// Whether it has a bias `[outputs]`.
    pub fn has_bias(self, config: &Config) -> bool {
        config.biases.contains(&self)
    }
}

/// The sizes of named dimensions.
pub fn sizes(dims: &[(Dim, usize)]) -> Vec<usize> {
    dims.iter().map(|&(_, size)| size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin_names;

    #[test]
    fn the_parameters_are_as_many_as_the_config_counts() {
        for name in builtin_names() {
            let plain = Config::builtin(name).unwrap();
            for biases in [&[][..], &Linear::ALL[..3], &Linear::ALL[3..]] {
                let config = Config { biases: biases.iter().copied().collect(), ..plain.clone() };
                let count = |spec: &ParamSpec| sizes(&spec.dims()).iter().product::<usize>() as u64;
                assert_eq!(
                    base_params(&config).iter().map(count).sum::<u64>(),
                    config.param_count(),
                    "{name}"
                );
            }
        }
    }
}
