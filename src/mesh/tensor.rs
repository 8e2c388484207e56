use super::{dim::Dim, logical::RuleSet};
use crate::base::{ArrayShape, DType};

/// The kind of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TensorGroup {
    /// The frozen parameters.
    Base,
    /// The trained factors.
    Adapter,
    /// The optimizer state.
    Optimizer,
    /// Gradients, summed over micro-batches.
    Gradient,
    /// A value of the computation.
    Activation,
    /// An array of the batch.
    Batch,
}

/// A tensor to be sharded over a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name in Hugging Face's models, with `*` in place of the layer where layers are stacked.
    pub name: String,
    /// The kind of the tensor.
    pub group: TensorGroup,
    /// Named dimensions with their sizes, outermost first; without duplicates.
    pub dims: Vec<(Dim, usize)>,
    /// Element type.
    pub dtype: DType,
    /// The rules that apply; for an adapter and its optimizer state, those for the adapted parameter.
    pub rules: RuleSet,
}

impl Tensor {
    /// The base parameter whose overrides apply to it.
    pub fn param(&self) -> Option<&str> {
        match &self.rules {
            RuleSet::AtRest { param } | RuleSet::ComputeAsStored { param, .. } => Some(param),
            RuleSet::Compute => None,
        }
    }

    /// Whether it is stored between steps.
    pub fn is_stored(&self) -> bool {
        matches!(self.rules, RuleSet::AtRest { .. })
    }

    /// Whether one of its dimensions has this name.
    pub fn has(&self, dim: Dim) -> bool {
        self.dims.iter().any(|&(name, _)| name == dim)
    }

    /// Element type and sizes before sharding.
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(self.dtype, self.dims.iter().map(|&(_, size)| size).collect::<Vec<_>>())
    }
}
