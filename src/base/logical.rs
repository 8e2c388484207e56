use super::Dim;

/// What the rules of a mesh need to know of a value: its named dimensions, and by which rules it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogicalSharding {
    /// One name for each dimension, outermost first; none stands twice.
    pub dims: Vec<Dim>,
    /// Which rules it goes by.
    pub rules: RuleSet,
}

/// Which rules of a mesh config hold for a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleSet {
    /// Those for what lies at rest between two steps, and the overrides for this parameter of the base model.
    AtRest {
        /// Its name as Hugging Face gives it; `*` stands for the layer where the layers are stacked.
        param: String,
    },
    /// Those for what is computed.
    Compute,
    /// For what is computed with a parameter where it lies: the dimension `dim` is split as that of the parameter at rest,
    /// the others as in computation, as far as axes are left. What moves between devices is then not the parameter.
    ComputeAsStored {
        /// The parameter.
        param: String,
        /// Its dimension.
        dim: Dim,
    },
}

impl LogicalSharding {
    /// A value of the computation.
    pub fn compute(dims: impl Into<Vec<Dim>>) -> Self {
        Self { dims: dims.into(), rules: RuleSet::Compute }
    }

    /// A value at rest, by the rules for the parameter `param`.
    pub fn at_rest(dims: impl Into<Vec<Dim>>, param: impl Into<String>) -> Self {
        Self { dims: dims.into(), rules: RuleSet::AtRest { param: param.into() } }
    }

    /// A value computed with the parameter `param` where its dimension `dim` lies.
    pub fn compute_as_stored(dims: impl Into<Vec<Dim>>, param: impl Into<String>, dim: Dim) -> Self {
        Self { dims: dims.into(), rules: RuleSet::ComputeAsStored { param: param.into(), dim } }
    }

    /// An entry along the first dimension, without that dimension.
    pub fn layer_slice(&self) -> Self {
        Self { dims: self.dims.iter().skip(1).copied().collect(), rules: self.rules.clone() }
    }

    /// A stack of such values, with the layers as its first dimension.
    pub fn stacked(&self) -> Self {
        let dims = [Dim::Layers].into_iter().chain(self.dims.iter().copied());
        Self { dims: dims.collect(), rules: self.rules.clone() }
    }

    /// The same dimensions where they are computed with.
    pub fn in_compute(&self) -> Self {
        Self::compute(self.dims.clone())
    }
}
