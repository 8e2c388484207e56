use super::Dim;
use crate::hlo::{Annotation, CompId, InstrId, ModuleBuilder, Value};

/// The logical dimensions of a value, and the rules that map them to mesh axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogicalSharding {
    /// One name for each dimension, outermost first, without repetition.
    pub dims: Vec<Dim>,
    /// The rules of the mesh config that apply.
    pub rules: RuleSet,
}

/// The rules of a mesh config that apply to a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleSet {
    /// `[store]`, and the overrides for a parameter of the base model.
    AtRest {
        /// The Hugging Face name of the parameter, with `*` in place of the layer where layers are stacked.
        param: String,
    },
    /// `[compute]`.
    Compute,
    /// `[compute]`, but `dim` is sharded as that dimension of the stored parameter, and its mesh axes shard no other
    /// dimension. Computing on a parameter as it is stored moves activations between devices instead of the parameter.
    ComputeAsStored {
        /// The Hugging Face name of the parameter.
        param: String,
        /// The dimension that keeps its sharding.
        dim: Dim,
    },
}

impl LogicalSharding {
    /// Sharding of a value in computation.
    pub fn compute(dims: impl Into<Vec<Dim>>) -> Self {
        Self { dims: dims.into(), rules: RuleSet::Compute }
    }

    /// Sharding of a stored value, by the rules for the parameter `param`.
    pub fn at_rest(dims: impl Into<Vec<Dim>>, param: impl Into<String>) -> Self {
        Self { dims: dims.into(), rules: RuleSet::AtRest { param: param.into() } }
    }

    /// Sharding of a value in computation with the parameter `param`, whose dimension `dim` stays sharded as it is stored.
    pub fn compute_as_stored(dims: impl Into<Vec<Dim>>, param: impl Into<String>, dim: Dim) -> Self {
        Self { dims: dims.into(), rules: RuleSet::ComputeAsStored { param: param.into(), dim } }
    }

    /// Sharding of one slice along the first dimension, without that dimension.
    pub fn layer_slice(&self) -> Self {
        Self { dims: self.dims.iter().skip(1).copied().collect(), rules: self.rules.clone() }
    }

    /// Sharding of a stack of such values, with the layers as its first dimension.
    pub fn stacked(&self) -> Self {
        let dims = [Dim::Layers].into_iter().chain(self.dims.iter().copied());
        Self { dims: dims.collect(), rules: self.rules.clone() }
    }

    /// Sharding of the same dimensions in computation.
    pub fn in_compute(&self) -> Self {
        Self::compute(self.dims.clone())
    }
}

/// The last logical sharding of the value of an instruction.
pub fn last_logical_sharding(
    module: &ModuleBuilder,
    computation: CompId,
    instr: InstrId,
) -> Option<LogicalSharding> {
    let annotations = module.annotations(computation, instr);
    annotations.iter().rev().find_map(Annotation::downcast_ref).cloned()
}

/// Logical shardings of values under construction.
pub trait WithLogicalSharding {
    /// The same value with a logical sharding, which [`annotate`](super::annotate()) turns into a sharding. A value with several
    /// is resharded from each to the next.
    #[track_caller]
    fn with_logical_sharding(self, logical: LogicalSharding) -> Self;
}

impl WithLogicalSharding for Value<'_> {
    #[track_caller]
    fn with_logical_sharding(self, logical: LogicalSharding) -> Self {
        if self.shape().as_array().is_some_and(|array| array.rank() == logical.dims.len()) {
            return self.annotate(Annotation::new(logical));
        }
        let names: Vec<&str> = logical.dims.iter().map(|dim| dim.name()).collect();
        self.reject(format!("expected a name for each dimension, found [{}]", names.join(", ")))
    }
}
