//! Loops over the stack of layers.

use super::StepError;
use crate::{
    base::{ArrayShape, DType, Tag},
    hlo::{Builder, Comparison, ModuleBuilder, Value},
};

/// In which order a loop visits the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First to last.
    Forward,
    /// Last to first.
    Backward,
}

/// What the body of a loop sees.
pub struct Turn<'b> {
    /// The builder of the body.
    pub b: &'b Builder<'b>,
    /// `s32[]`, the layer.
    pub layer: Value<'b>,
    /// What the last turn returned.
    pub carried: Vec<Value<'b>>,
    /// What stays as it is.
    pub fixed: Vec<Value<'b>>,
}

/// Runs `body` once for each of `layers` layers; it returns the next carried values. Returns the last ones.
///
/// # Errors
/// What `body` returns, or a mistake made while building.
pub fn for_each_layer<'b>(
    b: &'b Builder<'b>,
    name: &str,
    layers: usize,
    order: Order,
    carried: &[Value<'b>],
    fixed: &[Value<'b>],
    body: impl for<'t> FnOnce(Turn<'t>) -> Result<Vec<Value<'t>>, StepError>,
) -> Result<Vec<Value<'b>>, StepError> {
    let module: &ModuleBuilder = b.module();
    let init = b.tuple(&[&[b.scalar(DType::S32, 0.0)], carried, fixed].concat());
    let state = init.shape();

    let condition = module.define(&format!("{name}.condition"), |b| {
        let turn = b.parameter("state", state.clone()).get(0);
        turn.compare(Comparison::Lt, b.scalar(DType::S32, layers as f64))
    })?;
    let turns = module.try_define(&format!("{name}.body"), |b| {
        let mut values = b.parameter("state", state.clone()).elements();
        let fixed = values.split_off(1 + carried.len());
        let carried = values.split_off(1);
        let turn = values[0];
        let layer = match order {
            Order::Forward => turn,
            Order::Backward => b.scalar(DType::S32, layers as f64 - 1.0) - turn,
        };
        let next = body(Turn { b, layer, carried, fixed: fixed.clone() })?;
        Ok::<_, StepError>(b.tuple(&[&[turn + 1.0], &next[..], &fixed].concat()))
    })?;
    let result = b.while_loop(condition, turns, init);
    Ok((0..carried.len()).map(|index| result.get(index + 1)).collect())
}

/// The entry of `stack [layers, ...]` at `layer`, without the dimension of layers.
pub fn at_layer<'b>(stack: Value<'b>, layer: Value<'b>) -> Value<'b> {
    let mut sizes = stack.dims();
    let starts = starts(&sizes, layer);
    sizes[0] = 1;
    stack.dynamic_slice(&starts, &sizes).reshape(&sizes[1..])
}

/// `stack [layers, ...]`, which lies as `tag` says, with the entry at `layer` replaced.
pub fn set_layer<'b>(stack: Value<'b>, layer: Value<'b>, entry: Value<'b>, tag: &Tag) -> Value<'b> {
    let sizes = stack.dims();
    let entry = entry.tagged(tag.entry()).reshape(&[&[1], &sizes[1..]].concat());
    stack.dynamic_update_slice(entry, &starts(&sizes, layer)).tagged(tag.clone())
}

/// A stack of zeros to fill with [`set_layer`].
pub fn empty_stack<'b>(b: &'b Builder<'b>, shape: ArrayShape, tag: &Tag) -> Value<'b> {
    b.full(shape, 0.0).tagged(tag.clone())
}

fn starts<'b>(sizes: &[usize], layer: Value<'b>) -> Vec<Value<'b>> {
    let zero = layer.builder().scalar(DType::S32, 0.0);
    (0..sizes.len()).map(|dim| if dim == 0 { layer } else { zero }).collect()
}
