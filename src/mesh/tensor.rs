use super::{dim::Dim, logical::RuleSet};
use crate::base::{ArrayShape, DType};

/// What a tensor is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// The frozen parameters.
    Base,
    /// The trained factors.
    Adapter,
    /// What the optimizer keeps.
    Optimizer,
    /// What is summed over micro-batches.
    Gradient,
    /// A value of the computation.
    Activation,
    /// An array of the batch.
    Batch,
}

/// A tensor to lay on a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// As Hugging Face names it; `*` stands for the layer where the layers are stacked.
    pub name: String,
    /// What it is part of.
    pub group: Group,
    /// Named dimensions with their sizes, outermost first; without duplicates.
    pub dims: Vec<(Dim, usize)>,
    /// Element type.
    pub dtype: DType,
    /// Which rules it goes by; an adapter and its optimizer state by those for the parameter that they adapt.
    pub rules: RuleSet,
}

impl Tensor {
    /// The base parameter whose overrides hold for it.
    pub fn param(&self) -> Option<&str> {
        match &self.rules {
            RuleSet::AtRest { param } | RuleSet::ComputeAsStored { param, .. } => Some(param),
            RuleSet::Compute => None,
        }
    }

    /// Whether it lies at rest.
    pub fn is_stored(&self) -> bool {
        matches!(self.rules, RuleSet::AtRest { .. })
    }

    /// Whether one of its dimensions has this name.
    pub fn has(&self, dim: Dim) -> bool {
        self.dims.iter().any(|&(name, _)| name == dim)
    }

    /// Element type and sizes of the whole.
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(self.dtype, self.dims.iter().map(|&(_, size)| size).collect::<Vec<_>>())
    }
}
