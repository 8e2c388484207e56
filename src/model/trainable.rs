//! The trainable set: the tensors that a step updates, each with a gradient and optimizer state.

use std::fmt;

use super::{Config, Factor, Features, Linear, LoraPlan, NamedDims, Param, ParamSpec, base_params, features};
use crate::{base::DType, mesh::Dim};

/// What a step trains.
#[derive(Clone, Copy, Debug)]
pub enum TrainableSet<'a> {
    /// The factors of adapters; the base model is frozen.
    Lora(&'a LoraPlan),
    /// Every parameter of the base model.
    All(FullTraining),
}

/// Element types of full fine-tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullTraining {
    /// Of the weights between steps; a step computes with them in its own type.
    pub weights: DType,
    /// Of the moments of AdamW.
    pub moments: DType,
}

impl<'a> From<&'a LoraPlan> for TrainableSet<'a> {
    fn from(plan: &'a LoraPlan) -> Self {
        Self::Lora(plan)
    }
}

impl<'a> TrainableSet<'a> {
    /// The adapters, if it is those that are trained.
    pub fn lora(self) -> Option<&'a LoraPlan> {
        match self {
            Self::Lora(plan) => Some(plan),
            Self::All(_) => None,
        }
    }

    /// Whether the parameter is one of the set.
    pub fn contains(self, _param: Param) -> bool {
        matches!(self, Self::All(_))
    }
}

/// A trainable tensor; those of layers are stacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrainableId {
    /// A factor of the adapters of one linear.
    Adapter(AdapterId),
    /// A parameter of the base model.
    Param(Param),
}

impl TrainableId {
    /// The parameter that it is, or that it adapts: its sharding rules apply.
    pub fn param(self) -> Param {
        match self {
            Self::Adapter(id) => Param::Weight(id.linear),
            Self::Param(param) => param,
        }
    }
}

impl fmt::Display for TrainableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adapter(AdapterId { linear, factor }) => write!(f, "{}.{}", linear.name(), factor.name()),
            Self::Param(param) => param.fmt(f),
        }
    }
}

/// A factor of the adapters of one linear, stacked over the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId {
    /// The linear that is adapted.
    pub linear: Linear,
    /// The factor, `A` or `B`.
    pub factor: Factor,
}

/// A trainable tensor with its layout on devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainableSpec {
    /// The tensor.
    pub id: TrainableId,
    /// The element type that it is stored in; gradients are float32.
    pub dtype: DType,
    /// The element type of its moments.
    pub moments: DType,
    /// Named dimensions, the layers first if it is stacked. A factor is `[layers, rank, features...]`: the input features of
    /// `A`, the output features of `B`. It is padded with zeros to the largest rank among the layers: zero rows of
    /// both factors have zero gradients, so the padding stays zero.
    pub dims: NamedDims,
}

impl TrainableSpec {
    /// Whether its layers are stacked.
    pub fn is_stacked(&self) -> bool {
        self.dims.first().is_some_and(|&(dim, _)| dim == Dim::Layers)
    }
}

/// Every trainable tensor, in the order of the program's arguments.
pub(crate) fn trainable_params(config: &Config, set: TrainableSet<'_>) -> Vec<TrainableSpec> {
    match set {
        TrainableSet::Lora(plan) => adapter_params(config, plan),
        TrainableSet::All(FullTraining { weights, moments }) => {
            let whole = |spec: ParamSpec| TrainableSpec {
                id: TrainableId::Param(spec.param),
                dtype: weights,
                moments,
                dims: spec.dims(),
            };
            base_params(config).into_iter().map(whole).collect()
        }
    }
}

/// The factors of adapters.
pub(crate) fn adapter_params(config: &Config, plan: &LoraPlan) -> Vec<TrainableSpec> {
    let mut specs = Vec::new();
    for linear in Linear::ALL.into_iter().filter(|&linear| plan.is_adapted(linear)) {
        let leading = [(Dim::Layers, config.num_hidden_layers), (Dim::Rank, plan.max_rank(linear))];
        let Features { input, output } = features(linear, config);
        for (factor, side) in [(Factor::A, input), (Factor::B, output)] {
            let dims = leading.into_iter().chain(side).collect();
            let id = TrainableId::Adapter(AdapterId { linear, factor });
            specs.push(TrainableSpec { id, dtype: DType::F32, moments: DType::F32, dims });
        }
    }
    specs
}
