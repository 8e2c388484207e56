use super::vjp::{INVALID_ATTRS, Vjp};
use crate::{
    autodiff::tape::{Step, zeros},
    hlo::{Attrs, GatherDims, Opcode, ScatterDims, Value},
};

/// Elements outside of the slice have a zero cotangent.
pub(super) fn dynamic_slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let operand = zeros(step.builder(), step.operand_shape(0));
    let part = operand.dynamic_update_slice(step.cotangent, &starts(step, 1));
    with_indices(step, vec![Some(part)])
}

/// The cotangent of the slice goes to the update, the rest to the operand.
pub(super) fn dynamic_update_slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Some(update) = step.operand_shape(1).as_array().cloned() else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    let starts = starts(step, 2);
    let rest = step.when_wanted(0, || {
        let zeros = step.builder().full(update.clone(), 0.0);
        step.cotangent.dynamic_update_slice(zeros, &starts)
    });
    let part = step.when_wanted(1, || step.cotangent.dynamic_slice(&starts, &update.dims));
    with_indices(step, vec![rest, part])
}

/// The cotangents of a slice that is gathered several times are summed. Indices are assumed to be in range: XLA's gather
/// clamps a start index out of range, but its scatter drops the update.
pub(super) fn gather<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Gather(dims) = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let GatherDims { offset_dims, collapsed_slice_dims, start_index_map, index_vector_dim, slice_sizes: _ } =
        dims.clone();
    let dims = ScatterDims {
        update_window_dims: offset_dims,
        inserted_window_dims: collapsed_slice_dims,
        scatter_dims_to_operand_dims: start_index_map,
        index_vector_dim,
    };
    let operand = zeros(step.builder(), step.operand_shape(0));
    Vjp::Rule(vec![Some(operand.scatter_add(step.operand(1), step.cotangent, dims)), None])
}

/// Only for a sum: the cotangent of the operand is that of the result, the cotangent of an update that of its window.
pub(super) fn scatter<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Scatter { dims, to_apply } = &step.instr.attrs else { return Vjp::Unsupported(INVALID_ATTRS) };
    let combine = step.builder().module().get(*to_apply);
    if combine.reducer_opcode() != Some(Opcode::Add) {
        return Vjp::Unsupported("only sums have a rule");
    }
    let (Some(x), Some(updates)) = (step.operand_shape(0).as_array(), step.operand_shape(2).as_array())
    else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    let ScatterDims {
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims,
        index_vector_dim,
    } = dims.clone();
    let mut window = update_window_dims.iter().map(|&dim| updates.dims[dim]);
    let slice_sizes = (0..x.rank())
        .map(|dim| if inserted_window_dims.contains(&dim) { 1 } else { window.next().unwrap_or(1) })
        .collect();
    let dims = GatherDims {
        offset_dims: update_window_dims,
        collapsed_slice_dims: inserted_window_dims,
        start_index_map: scatter_dims_to_operand_dims,
        index_vector_dim,
        slice_sizes,
    };
    let part = step.when_wanted(2, || step.cotangent.gather(step.operand(1), dims));
    Vjp::Rule(vec![Some(step.cotangent), None, part])
}

fn starts<'b>(step: &Step<'_, 'b>, first: usize) -> Vec<Value<'b>> {
    (first..step.instr.operands.len()).map(|index| step.operand(index)).collect()
}

/// Adds the missing cotangents of the start indices, which are integers.
fn with_indices<'b>(step: &Step<'_, 'b>, mut parts: Vec<Option<Value<'b>>>) -> Vjp<'b> {
    parts.resize(step.instr.operands.len(), None);
    Vjp::Rule(parts)
}
