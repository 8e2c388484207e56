//! The signatures of a layer's computations; carries and captures of the loops over the layers.

use indexmap::IndexMap;

use super::Role;
use crate::{
    hlo::{Value, value_tree},
    model::{Linear, TrainableId, nn::RopeTable},
};

/// Inputs that all layers share.
#[derive(Clone, Copy)]
pub(super) struct SharedInputs<'b> {
    pub rope: RopeTable<'b>,
    /// `s32[batch, seq]`, if rows are packed.
    pub segments: Option<Value<'b>>,
}

/// The parameters of a layer's forward computation.
pub(super) struct LayerInputs<'b> {
    /// `[batch, seq, embed]`.
    pub x: Value<'b>,
    pub shared: SharedInputs<'b>,
    /// The layer's slice of each frozen parameter, then of each trainable tensor.
    pub params: IndexMap<Role, Value<'b>>,
    /// `f32[]`, the scale of each adapter.
    pub scales: IndexMap<Linear, Value<'b>>,
}

/// Loop invariants of the loops over the layers.
#[derive(Clone)]
pub(super) struct LayerCaptures<'b> {
    pub shared: SharedInputs<'b>,
    /// Frozen parameters, then trainable tensors, with all layers in each.
    pub stacks: IndexMap<Role, Value<'b>>,
}

/// Values of the forward pass that the backward pass reads: of one layer, or stacked over several.
pub(super) struct LayerResiduals<V> {
    /// The layer's input.
    pub x: V,
    /// Other values that the layer's backward computation reads.
    pub saved: Vec<V>,
}

/// The cotangent of a layer's input and the gradients of its trainable tensors: of one layer, or with all layers stacked.
#[derive(Clone)]
pub(super) struct Cotangents<'b> {
    /// `[batch, seq, embed]`.
    pub x: Value<'b>,
    pub gradients: IndexMap<TrainableId, Value<'b>>,
}

/// Carry of the forward loop with residuals.
pub(super) struct ForwardCarry<'b> {
    /// The input of the next layer.
    pub x: Value<'b>,
    pub residuals: LayerResiduals<Value<'b>>,
}

/// Carry of the loop over groups of layers.
pub(super) struct GroupsCarry<'b> {
    /// The input of the next group.
    pub x: Value<'b>,
    /// The input of each group, stacked.
    pub inputs: Value<'b>,
}

type ValueResiduals<'b> = LayerResiduals<Value<'b>>;

value_tree! {
    SharedInputs { rope, segments }
    LayerInputs { x, shared, params, scales }
    LayerCaptures { shared, stacks }
    ValueResiduals { x, saved }
    Cotangents { x, gradients }
    ForwardCarry { x, residuals }
    GroupsCarry { x, inputs }
}
