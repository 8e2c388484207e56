//! Products: dot, its ragged and scaled forms, convolution.

use super::{
    array::{dense, mixable, windowed},
    operation::Operation,
};
use crate::hlo::raw::{
    access,
    attr::AttrName,
    shape::{Array, Dimension},
};

/// The dimensions of a product that are contracted or batch dimensions, of one operand.
struct Paired {
    contracting: Vec<i64>,
    batch: Vec<i64>,
}

impl Paired {
    fn of(operation: &Operation<'_>, contracting: AttrName, batch: AttrName) -> Option<Self> {
        let ints = |name| (operation.attr)(name).map_or(Some(vec![]), access::ints);
        Some(Self { contracting: ints(contracting)?, batch: ints(batch)? })
    }

    /// The dimensions that are neither, nor among others.
    fn rest(&self, array: &Array, others: &[i64]) -> Vec<Dimension> {
        let kept = array.dims.iter().enumerate().filter(|(dim, _)| {
            let dim = *dim as i64;
            !self.batch.contains(&dim) && !self.contracting.contains(&dim) && !others.contains(&dim)
        });
        kept.map(|(_, &size)| size).collect()
    }
}

fn dims_at(array: &Array, dims: &[i64]) -> Option<Vec<Dimension>> {
    dims.iter().map(|&dim| array.dims.get(usize::try_from(dim).ok()?).copied()).collect()
}

/// Batch dimensions, the rest of the left operand, the rest of the right one without some.
fn product(operation: &Operation<'_>, lhs: &Array, rhs: &Array, right_only: &[i64]) -> Option<Array> {
    use AttrName as A;
    let left = Paired::of(operation, A::LhsContractingDims, A::LhsBatchDims)?;
    let right = Paired::of(operation, A::RhsContractingDims, A::RhsBatchDims)?;
    let pairs = [(&left.contracting, &right.contracting), (&left.batch, &right.batch)];
    for (left, right) in pairs {
        let sizes =
            |array, dims| Some(dims_at(array, dims)?.iter().map(|dim| dim.bound()).collect::<Vec<_>>());
        if sizes(lhs, left)? != sizes(rhs, right)? {
            return None;
        }
    }
    let mut dims = dims_at(lhs, &left.batch)?;
    dims.extend(left.rest(lhs, &[]));
    dims.extend(right.rest(rhs, right_only));
    let element = if rhs.element.bits() > lhs.element.bits() { rhs.element } else { lhs.element };
    mixable(lhs, rhs).then(|| dense(element, dims))
}

pub(super) fn dot(operation: &Operation<'_>, lhs: &Array, rhs: &Array) -> Option<Array> {
    product(operation, lhs, rhs, &[])
}

/// A product in groups along the ragged dimension of the left operand. If that is contracted, each group is a result of its own.
pub(super) fn ragged_dot(
    operation: &Operation<'_>,
    lhs: &Array,
    rhs: &Array,
    sizes: &Array,
) -> Option<Array> {
    let ints = |name| (operation.attr)(name).map_or(Some(vec![]), access::ints);
    let ragged = *ints(AttrName::LhsRaggedDims)?.first()?;
    let mut result = product(operation, lhs, rhs, &ints(AttrName::RhsGroupDims)?)?;
    if ints(AttrName::LhsContractingDims)?.contains(&ragged) {
        result.dims.insert(0, *sizes.dims.last()?);
    }
    Some(result)
}

pub(super) fn convolution(operation: &Operation<'_>, input: &Array, kernel: &Array) -> Option<Array> {
    let labels = access::dim_labels((operation.attr)(AttrName::DimLabels)?)?;
    let window = (operation.attr)(AttrName::Window).map_or(Some(vec![]), access::window)?;
    let groups: u64 =
        (operation.attr)(AttrName::BatchGroupCount).map_or(Some(1), |count| count.parse().ok())?;
    let features: u64 =
        (operation.attr)(AttrName::FeatureGroupCount).map_or(Some(1), |count| count.parse().ok())?;
    let of_group = input.dims.get(labels.input.feature)?.bound()?.checked_div(features)?;
    if kernel.dims.get(labels.kernel.batch)?.bound()? != of_group {
        return None;
    }
    let spatial = |array: &Array, dims: &[usize]| {
        dims.iter().map(|&dim| array.dims.get(dim).copied()).collect::<Option<Vec<_>>>()
    };
    let spatial = windowed(&spatial(input, &labels.input.spatial)?, &window)?;
    let batch = input.dims.get(labels.input.batch)?.bound()?.checked_div(groups)?;
    let mut dims = vec![Dimension::Static(batch); 2 + spatial.len()];
    *dims.get_mut(labels.output.feature)? = *kernel.dims.get(labels.kernel.feature)?;
    for (&position, size) in labels.output.spatial.iter().zip(spatial) {
        *dims.get_mut(position)? = size;
    }
    Some(dense(input.element, dims))
}
