use super::{
    config::{OnViolation, Policy},
    dim::Dim,
    grid::Mesh,
    rules::Rules,
    tensor::Tensor,
};
use crate::base::{ArrayShape, Location};

/// Why a rule could not be followed as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An axis splits an outer dimension of the tensor already, and was taken off this one.
    Conflict {
        /// The axis.
        axis: String,
        /// The outer dimension.
        outer: Dim,
    },
    /// The size is not a multiple of the number of shards.
    Indivisible {
        /// The axes that the rule names.
        axes: Vec<String>,
    },
}

/// How a dimension of a tensor is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimSharding {
    /// The dimension.
    pub dim: Dim,
    /// Its size.
    pub size: usize,
    /// The axes that split it, major to minor; none leaves it whole.
    pub axes: Vec<String>,
    /// The number of shards.
    pub num_shards: usize,
    /// The line that decided it; `None` where no rule is about the dimension.
    pub location: Option<Location>,
    /// Where the rule could not be followed; the policy says whether that is a problem.
    pub violations: Vec<Violation>,
}

impl DimSharding {
    /// The size of a shard; the last ones are padded to it.
    pub fn shard_size(&self) -> usize {
        self.size.div_ceil(self.num_shards)
    }
}

/// A tensor with its sharding over a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSharding {
    /// The tensor.
    pub tensor: Tensor,
    /// Its dimensions, outermost first.
    pub dims: Vec<DimSharding>,
}

impl TensorSharding {
    /// Element type and sizes of a shard.
    pub fn shard_shape(&self) -> ArrayShape {
        ArrayShape::new(self.tensor.dtype, self.dims.iter().map(DimSharding::shard_size).collect::<Vec<_>>())
    }

    /// Bytes that each device holds.
    pub fn shard_bytes(&self) -> u64 {
        self.shard_shape().bytes() as u64
    }

    /// How a dimension is split.
    pub fn dim(&self, dim: Dim) -> Option<&DimSharding> {
        self.dims.iter().find(|split| split.dim == dim)
    }

    /// Into how many shards it is split.
    pub fn num_shards(&self) -> usize {
        self.dims.iter().map(|split| split.num_shards).product()
    }

    /// The axes of more than one device along which every device holds the same, in the order of the mesh.
    pub fn replicated_over<'m>(&self, mesh: &'m Mesh) -> Vec<&'m str> {
        let splits = |name: &str| self.dims.iter().any(|split| split.axes.iter().any(|axis| axis == name));
        let axes = mesh.axes().iter().filter(|axis| axis.size > 1 && !splits(&axis.name));
        axes.map(|axis| axis.name.as_str()).collect()
    }

    /// Bytes of a device that would not be there if the tensor had one copy only, spread over all devices.
    pub fn replicated_bytes(&self, mesh: &Mesh) -> u64 {
        let copies = mesh.devices() / self.num_shards().max(1);
        let bytes = self.shard_bytes();
        bytes - bytes / copies.max(1) as u64
    }
}

/// Maps each dimension of a tensor to mesh axes by the rules. An axis shards at most one dimension: where two rules give the
/// same axis, the outer dimension keeps it. A dimension that the axes do not divide is padded or replicated, as the policy
/// says.
pub fn assign(mesh: &Mesh, rules: &Rules, policy: &Policy, tensor: &Tensor) -> TensorSharding {
    assign_along(mesh, rules, policy, tensor, None)
}

/// The same for a value that is computed with a parameter as it is stored: its dimension of the name of `along` is split as
/// that is, and the axes of that split no other.
pub(super) fn assign_along(
    mesh: &Mesh,
    rules: &Rules,
    policy: &Policy,
    tensor: &Tensor,
    along: Option<&DimSharding>,
) -> TensorSharding {
    let mut splits: Vec<DimSharding> = vec![];
    for &(dim, size) in &tensor.dims {
        if let Some(split) = along.filter(|split| (split.dim, split.size) == (dim, size)) {
            splits.push(split.clone());
            continue;
        }
        let rule = rules.find(tensor, dim);
        let mut violations = vec![];
        let mut axes = rule.map(|rule| rule.axes.clone()).unwrap_or_default();
        axes.retain(|axis| along.is_none_or(|split| !split.axes.contains(axis)));
        axes.retain(|axis| match splits.iter().find(|outer| outer.axes.contains(axis)) {
            Some(outer) => {
                violations.push(Violation::Conflict { axis: axis.clone(), outer: outer.dim });
                false
            }
            None => true,
        });
        if !size.is_multiple_of(mesh.num_shards(&axes)) {
            violations.push(Violation::Indivisible { axes: axes.clone() });
            if policy.indivisible != OnViolation::Pad {
                axes.clear();
            }
        }
        let num_shards = mesh.num_shards(&axes);
        splits.push(DimSharding {
            dim,
            size,
            axes,
            num_shards,
            location: rule.map(|rule| rule.location.clone()),
            violations,
        });
    }
    TensorSharding { tensor: tensor.clone(), dims: splits }
}
