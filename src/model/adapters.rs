//! Adapter factors, stacked over the layers.

use super::{Config, Factor, Features, Linear, LoraPlan, NamedDims, features};
use crate::mesh::Dim;

/// A factor of the adapters of one linear, stacked over the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId {
    /// The linear that is adapted.
    pub linear: Linear,
    /// The factor, `A` or `B`.
    pub factor: Factor,
}

/// One factor of the adapters of a linear, stacked over all layers and padded with zeros to the largest rank among
/// them: zero rows of both factors have zero gradients, so the padding stays zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSpec {
    /// The linear and the factor.
    pub id: AdapterId,
    /// `f32[layers, rank, features...]`: the input features of `A`, the output features of `B`.
    pub dims: NamedDims,
}

/// Every adapter factor, in the order of the program's arguments.
pub(crate) fn adapter_params(config: &Config, plan: &LoraPlan) -> Vec<AdapterSpec> {
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
