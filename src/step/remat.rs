use super::{Remat, Workload, builder::StepBuilder};
use crate::{
    base::{DType, MemorySpace},
    hlo::Value,
    model::nn::ModelScope,
};

/// Layers that run forward a second time: `num_groups` groups of `group_len` layers, of which only the input of the first
/// layer is saved, then `tail_len` layers whose residuals are saved.
#[derive(Clone, Copy)]
pub(super) struct RematSchedule {
    pub num_groups: usize,
    pub group_len: usize,
    pub tail_len: usize,
    /// Memory space of the inputs of groups.
    pub group_inputs: MemorySpace,
    /// Memory space of the inputs of layers, of one group at a time and of the tail.
    pub layer_inputs: MemorySpace,
}

/// Consecutive layers.
#[derive(Clone, Copy)]
pub(super) struct LayerRange<'b> {
    /// `s32[]`.
    pub first: Value<'b>,
    pub len: usize,
}

impl RematSchedule {
    /// The layers of the group numbered `group`.
    pub(super) fn group(self, group: Value<'_>) -> LayerRange<'_> {
        let len = group.builder().scalar(DType::S32, self.group_len as f64);
        LayerRange { first: group * len, len: self.group_len }
    }
}

impl StepBuilder<'_> {
    /// The rematerialization policy of the options, else the default for this workload and mesh.
    pub(super) fn remat(&self) -> Remat {
        let ModelScope { batch, .. } = self.scope;
        let batch_shards = self.spec.mesh.map_or(1, |plan| plan.batch_shards(batch));
        self.spec.options.remat_of(&Workload { batch, ..self.spec.workload }, batch_shards)
    }

    /// The schedule of a rematerialization policy.
    pub(super) fn remat_schedule(&self, remat: Remat) -> RematSchedule {
        let layers = self.num_layers();
        let every = self.spec.options.remat_every;
        let group_len = every.map_or(layers, |every| every.get().min(layers)).max(1);
        // The residuals of the last layers are read at once, so these layers need not run forward again. There are at least
        // two of them: the weights of a single one would be gathered before all micro-batches, and be held until the last.
        let num_groups = layers.saturating_sub(2) / group_len;
        let (group_inputs, layer_inputs) = match (remat, num_groups) {
            (Remat::Full | Remat::Dots | Remat::None, _) => (MemorySpace::Device, MemorySpace::Device),
            (Remat::Offload, 0) => (MemorySpace::Device, MemorySpace::Host),
            (Remat::Offload, _) => (MemorySpace::Host, MemorySpace::Device),
        };
        let tail_len = layers - num_groups * group_len;
        RematSchedule { num_groups, group_len, tail_len, group_inputs, layer_inputs }
    }
}
