use crate::model::{Config, Linear};

/// The adapter of one linear of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapted {
    /// Rows of A and columns of B.
    pub rank: usize,
    /// What `B·A·x` is multiplied by.
    pub scale: f64,
}

/// What every linear of every layer carries; at least one carries an adapter, but in [`LoraPlan::none`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoraPlan {
    layers: Vec<[Option<Adapted>; Linear::ALL.len()]>,
    sizes: [usize; Linear::ALL.len()],
}

impl LoraPlan {
    /// A plan from what each layer's linears carry, in the order of [`Linear::ALL`].
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

    /// Layers of the model, adapted or not.
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

    /// Whether any layer's linear of this name is adapted.
    pub fn is_adapted(&self, linear: Linear) -> bool {
        self.max_rank(linear) > 0
    }

    /// The largest rank over the layers; zero if none is adapted.
    pub fn max_rank(&self, linear: Linear) -> usize {
        self.iter().filter(|&(_, l, _)| l == linear).map(|(_, _, adapted)| adapted.rank).max().unwrap_or(0)
    }

    /// One scale for every layer; zero where the layer's linear is not adapted.
    pub fn scales(&self, linear: Linear) -> Vec<f64> {
        (0..self.layers.len()).map(|layer| self.get(layer, linear).map_or(0.0, |a| a.scale)).collect()
    }

    /// Elements of all A and B, `rank * (inputs + outputs)` each; saturates.
    pub fn trainable_params(&self) -> u64 {
        self.iter()
            .map(|(_, linear, adapted)| {
                (adapted.rank as u64).saturating_mul(self.sizes[linear as usize] as u64)
            })
            .fold(0, u64::saturating_add)
    }
}
