use crate::model::{Config, Linear};

/// The adapter of one linear of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapted {
    /// Rows of A and columns of B.
    pub rank: usize,
    /// Factor of `B·A·x`.
    pub scale: f64,
}

/// The adapter, if any, of each linear of each layer. There is at least one, except in [`LoraPlan::none`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoraPlan {
    layers: Vec<[Option<Adapted>; Linear::ALL.len()]>,
    sizes: [usize; Linear::ALL.len()],
}

impl LoraPlan {
    /// A plan from the adapters of each layer, in the order of [`Linear::ALL`].
    pub(super) fn new(config: &Config, layers: Vec<[Option<Adapted>; Linear::ALL.len()]>) -> Self {
        let sizes = Linear::ALL.map(|linear| {
            let (inputs, outputs) = linear.features(config);
            inputs + outputs
        });
        Self { layers, sizes }
    }

    /// The plan of a model without adapters.
    pub fn none(config: &Config) -> Self {
        Self::new(config, vec![[None; Linear::ALL.len()]; config.num_hidden_layers])
    }

    /// Number of layers of the model, adapted or not.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// The adapter of one linear; `None` if it has none or the model has no such layer.
    pub fn get(&self, layer: usize, linear: Linear) -> Option<Adapted> {
        self.layers.get(layer).and_then(|linears| linears[linear as usize])
    }

    /// Every adapter, by layer and then in the order of [`Linear::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (usize, Linear, Adapted)> {
        self.layers.iter().enumerate().flat_map(|(layer, linears)| {
            Linear::ALL
                .into_iter()
                .filter_map(move |linear| linears[linear as usize].map(|adapted| (layer, linear, adapted)))
        })
    }

    /// Whether the linear is adapted in any layer.
    pub fn is_adapted(&self, linear: Linear) -> bool {
        self.max_rank(linear) > 0
    }

    /// Maximum rank over the layers; zero if none is adapted.
    pub fn max_rank(&self, linear: Linear) -> usize {
        self.iter().filter(|&(_, l, _)| l == linear).map(|(_, _, adapted)| adapted.rank).max().unwrap_or(0)
    }

    /// The scale in each layer; zero where the linear is not adapted.
    pub fn scales(&self, linear: Linear) -> Vec<f64> {
        (0..self.layers.len()).map(|layer| self.get(layer, linear).map_or(0.0, |a| a.scale)).collect()
    }

    /// Number of elements of all A and B, `rank * (inputs + outputs)` for each adapter; saturating.
    pub fn trainable_params(&self) -> u64 {
        self.iter()
            .map(|(_, linear, adapted)| {
                (adapted.rank as u64).saturating_mul(self.sizes[linear as usize] as u64)
            })
            .fold(0, u64::saturating_add)
    }
}
