use super::{MISMATCH, Vjp};
use crate::{
    autodiff::{Step, zeros},
    hlo::{Attrs, GatherDims, Opcode, ScatterDims, Value},
};

/// What was not taken gets zeros.
pub fn dynamic_slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let whole = zeros(step.builder(), step.operand_shape(0));
    let part = whole.dynamic_update_slice(step.cotangent, &starts(step, 1));
    with_indices(step, vec![Some(part)])
}

/// The cotangent of what was replaced goes to the update, the rest to the operand.
pub fn dynamic_update_slice<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Some(update) = step.operand_shape(1).as_array().cloned() else { return Vjp::Unsupported(MISMATCH) };
    let starts = starts(step, 2);
    let rest = step.when_wanted(0, || {
        let hole = step.builder().full(update.clone(), 0.0);
        step.cotangent.dynamic_update_slice(hole, &starts)
    });
    let part = step.when_wanted(1, || step.cotangent.dynamic_slice(&starts, &update.dims));
    with_indices(step, vec![rest, part])
}

/// Slices taken several times gather the sum of their cotangents. Indices are taken to be in range: past the end, XLA's
/// gather moves a slice inside, but its scatter drops the update.
pub fn gather<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Gather(dims) = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let GatherDims { offset_dims, collapsed_slice_dims, start_index_map, index_vector_dim, slice_sizes: _ } =
        dims.clone();
    let dims = ScatterDims {
        update_window_dims: offset_dims,
        inserted_window_dims: collapsed_slice_dims,
        scatter_dims_to_operand_dims: start_index_map,
        index_vector_dim,
    };
    let whole = zeros(step.builder(), step.operand_shape(0));
    Vjp::Rule(vec![Some(whole.scatter_add(step.operand(1), step.cotangent, dims)), None])
}

/// For sums only: the operand passes its cotangent on, each update takes that of the window it was added to.
pub fn scatter<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Attrs::Scatter { dims, to_apply } = &step.instr.attrs else { return Vjp::Unsupported(MISMATCH) };
    let combine = step.builder().module().get(*to_apply);
    if combine.reducer_opcode() != Some(Opcode::Add) {
        return Vjp::Unsupported("only sums have a rule");
    }
    let (Some(x), Some(updates)) = (step.operand_shape(0).as_array(), step.operand_shape(2).as_array())
    else {
        return Vjp::Unsupported(MISMATCH);
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

/// Start indices are integers and have no cotangent.
fn with_indices<'b>(step: &Step<'_, 'b>, mut parts: Vec<Option<Value<'b>>>) -> Vjp<'b> {
    parts.resize(step.instr.operands.len(), None);
    Vjp::Rule(parts)
}
