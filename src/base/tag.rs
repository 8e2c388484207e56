use super::Dim;

/// What the rules of a mesh need to know of a value: its named dimensions, and by which rules it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// One name for each dimension, outermost first; none stands twice.
    pub dims: Vec<Dim>,
    /// Which rules it goes by.
    pub used: Use,
}

/// Which rules of a mesh config hold for a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// Those for what lies at rest between two steps, and the overrides for this parameter of the base model.
    Store {
        /// Its name as Hugging Face gives it; `*` stands for the layer where the layers are stacked.
        param: String,
    },
    /// Those for what is computed.
    Compute,
    /// For what is looked up in a parameter at rest: a dimension that the parameter is split along stays so, the others
    /// are split as computation splits them, as far as axes are left.
    Lookup {
        /// The parameter.
        param: String,
    },
}

impl Tag {
    /// A value of the computation.
    pub fn compute(dims: impl Into<Vec<Dim>>) -> Self {
        Self { dims: dims.into(), used: Use::Compute }
    }

    /// A value at rest, by the rules for the parameter `param`.
    pub fn store(dims: impl Into<Vec<Dim>>, param: impl Into<String>) -> Self {
        Self { dims: dims.into(), used: Use::Store { param: param.into() } }
    }

    /// An entry along the first dimension, without that dimension.
    pub fn entry(&self) -> Self {
        Self { dims: self.dims.iter().skip(1).copied().collect(), used: self.used.clone() }
    }

    /// The same dimensions where they are computed with.
    pub fn computed(&self) -> Self {
        Self::compute(self.dims.clone())
    }
}
