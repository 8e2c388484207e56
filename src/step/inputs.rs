//! The signatures of a layer's computations, and what the loops over the layers carry and capture.

use indexmap::IndexMap;

use super::Role;
use crate::{
    hlo::{Value, value_tree},
    model::{AdapterId, Linear, nn::RopeTable},
};

/// Inputs that all layers share.
#[derive(Clone, Copy)]
pub(super) struct SharedInputs<'b> {
    pub rope: RopeTable<'b>,
    /// `s32[batch, seq]`, where rows are packed.
    pub segments: Option<Value<'b>>,
}

/// The parameters of a layer's forward computation.
pub(super) struct LayerInputs<'b> {
    /// `[batch, seq, embed]`.
    pub x: Value<'b>,
    pub shared: SharedInputs<'b>,
    /// The layer's slice of each stacked parameter, then of each adapter factor.
    pub params: IndexMap<Role, Value<'b>>,
    /// `f32[]`, the scale of each adapter.
    pub scales: IndexMap<Linear, Value<'b>>,
}

/// Loop invariants of the loops over the layers.
#[derive(Clone)]
pub(super) struct LayerCaptures<'b> {
    pub shared: SharedInputs<'b>,
    /// Stacked parameters, then adapter factors, with all layers in each.
    pub stacks: IndexMap<Role, Value<'b>>,
}

/// Values of the forward pass that the backward pass reads: of one layer, or stacked over several.
pub(super) struct LayerResiduals<V> {
    /// The layer's input.
    pub x: V,
    /// What the layer's backward computation reads besides.
    pub saved: Vec<V>,
}

/// The cotangent of a layer's input and the gradients of the adapter factors: of one layer, or with all layers stacked.
#[derive(Clone)]
pub(super) struct Cotangents<'b> {
    /// `[batch, seq, embed]`.
    pub x: Value<'b>,
    pub factors: IndexMap<AdapterId, Value<'b>>,
}

/// What the forward loop carries where it leaves residuals.
pub(super) struct ForwardCarry<'b> {
    /// The input of the next layer.
    pub x: Value<'b>,
    pub residuals: LayerResiduals<Value<'b>>,
}

/// What the loop over groups of layers carries.
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
    Cotangents { x, factors }
    ForwardCarry { x, residuals }
    GroupsCarry { x, inputs }
}
