use super::{Operation, checks, contraction::check_reducer};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Shape},
    hlo::{Attrs, GatherDims, ScatterDims},
};

pub(super) fn infer(op: &Operation<'_>) -> Result<Shape, Diagnostic> {
    match op.attrs {
        Attrs::Gather(dims) => gather(op.array(0)?, op.array(1)?, dims),
        Attrs::Scatter { dims, to_apply } => {
            let x = op.array(0)?;
            check_reducer(op.callee(*to_apply)?, x.dtype)?;
            scatter(x, op.array(1)?, op.array(2)?, dims)
        }
        _ => Err(op.no_rule()),
    }
}

fn gather(x: &ArrayShape, indices: &ArrayShape, dims: &GatherDims) -> Result<Shape, Diagnostic> {
    checks::dtype(indices, "an integer type", DType::is_integer)?;
    checks::len("slice sizes", dims.slice_sizes.len(), x.rank())?;
    checks::in_bounds("slice", &dims.slice_sizes, &x.dims)?;
    checks::ascending(&dims.collapsed_slice_dims, x.rank())?;
    checks::distinct(&dims.start_index_map, x.rank())?;
    if let Some(&dim) = dims.collapsed_slice_dims.iter().find(|&&dim| dims.slice_sizes[dim] != 1) {
        let found = dims.slice_sizes[dim];
        return Err(format!("expected slice size 1 along collapsed dimension {dim}, found {found}").into());
    }
    let batch = batch_sizes(indices, dims.index_vector_dim, dims.start_index_map.len())?;
    let window = checks::without(&dims.slice_sizes, &dims.collapsed_slice_dims);
    checks::len("offset dimensions", dims.offset_dims.len(), window.len())?;
    let rank = batch.len() + window.len();
    checks::ascending(&dims.offset_dims, rank)?;
    let (mut batch, mut window) = (batch.into_iter(), window.into_iter());
    let sizes = (0..rank)
        .filter_map(|dim| if dims.offset_dims.contains(&dim) { window.next() } else { batch.next() });
    Ok(Shape::array(x.dtype, sizes.collect::<Vec<_>>()))
}

fn scatter(
    x: &ArrayShape,
    indices: &ArrayShape,
    updates: &ArrayShape,
    dims: &ScatterDims,
) -> Result<Shape, Diagnostic> {
    checks::dtype(indices, "an integer type", DType::is_integer)?;
    checks::equal("the element type of the updates", updates.dtype, x.dtype)?;
    checks::ascending(&dims.inserted_window_dims, x.rank())?;
    checks::distinct(&dims.scatter_dims_to_operand_dims, x.rank())?;
    checks::ascending(&dims.update_window_dims, updates.rank())?;
    let window = checks::without(&x.dims, &dims.inserted_window_dims);
    checks::len("window dimensions", dims.update_window_dims.len(), window.len())?;
    let sizes: Vec<usize> = dims.update_window_dims.iter().map(|&dim| updates.dims[dim]).collect();
    checks::in_bounds("window", &sizes, &window)?;
    let expected = batch_sizes(indices, dims.index_vector_dim, dims.scatter_dims_to_operand_dims.len())?;
    let found = checks::without(&updates.dims, &dims.update_window_dims);
    if found != expected {
        return Err(
            format!("expected scatter dimensions {expected:?} of the updates, found {found:?}").into()
        );
    }
    Ok(x.clone().into())
}

/// The sizes of the indices without `vector_dim`, along which the `components` of one index are.
fn batch_sizes(indices: &ArrayShape, vector_dim: usize, components: usize) -> Result<Vec<usize>, Diagnostic> {
    let found = if vector_dim == indices.rank() {
        1
    } else {
        checks::dim(vector_dim, indices.rank())?;
        indices.dims[vector_dim]
    };
    checks::len("components of an index", found, components)?;
    Ok(checks::without(&indices.dims, &[vector_dim]))
}
