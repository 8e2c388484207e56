use std::{fmt, num::NonZeroUsize};

use serde::{Deserialize, Serialize};

use super::{Role, Workload};
use crate::{
    autodiff::SavePolicy,
    base::{DType, MemorySpace, Part},
    mesh::Dim,
    model::{Linear, Param, PartId, features, nn::Attention, sizes},
};

/// Options that trade time for memory. The results are the same, up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOptions {
    /// The algorithm of attention.
    pub attention: Attention,
    /// Positions of each row whose logits exist at one time; `None`: as many as fit 128 MiB on a device.
    pub loss_chunk: Option<NonZeroUsize>,
    /// Rematerialization policy of a layer; `None`: [`Remat::Dots`] if its residuals take at most 1 GiB on a device, else
    /// [`Remat::Full`].
    pub remat: Option<Remat>,
    /// Number of layers in a group of which only the input is saved; the backward pass runs the group forward again, with the
    /// policy `remat`.
    pub remat_every: Option<NonZeroUsize>,
    /// Memory space of the frozen matrices of the layers; from host memory, those of one layer at a time are copied to the device.
    pub weights: MemorySpace,
    /// The number of equal parts of a batch that a step computes one after the other, summing their gradients.
    pub micro_batches: NonZeroUsize,
}

/// Rematerialization policy: the residuals that the forward pass of a layer saves; the backward pass recomputes the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remat {
    /// The layer's input.
    Full,
    /// The layer's input and the results of matrix products and attention.
    Dots,
    /// Every value between the layer's operations that the backward pass reads; only values inside an operation are recomputed.
    None,
    /// The layer's input, in host memory.
    Offload,
}

/// Maximum bytes of saved results of matrix products on a device, if no policy is set.
const MAX_SAVED_BYTES: usize = 1 << 30;

/// The number of elements of these dimensions.
fn elements(dims: &[(Dim, usize)]) -> usize {
    sizes(dims).iter().product()
}

impl StepOptions {
    /// The defaults for rows of this length.
    pub fn for_length(seq: usize) -> Self {
        Self {
            attention: Attention::for_length(seq),
            loss_chunk: None,
            remat: None,
            remat_every: None,
            weights: MemorySpace::Device,
            micro_batches: NonZeroUsize::MIN,
        }
    }
}

impl StepOptions {
    /// The rematerialization policy for `workload`, on a mesh that shards the batch into `batch_shards`.
    pub fn remat_of(&self, workload: &Workload<'_>, batch_shards: usize) -> Remat {
        self.remat.unwrap_or_else(|| {
            let &Workload { config, dtype, batch, seq, .. } = workload;
            let features = |linear| features(linear, config);
            let products =
                [Linear::Query, Linear::Key, Linear::Value, Linear::Output, Linear::Gate, Linear::Up];
            let products: usize = products.map(|linear| elements(&features(linear).output)).iter().sum();
            let (input, heads) =
                (elements(&features(Linear::Query).input), elements(&features(Linear::Output).input));
            let weights = match self.attention {
                Attention::Dense => config.num_attention_heads * seq,
                Attention::Blocks(_) => config.num_attention_heads,
            };
            let of_token = (input + products + heads) * dtype.bytes() + weights * DType::F32.bytes();
            let tokens = (batch * seq).div_ceil(batch_shards.max(1));
            let saved = tokens.saturating_mul(of_token).saturating_mul(config.num_hidden_layers);
            if saved <= MAX_SAVED_BYTES { Remat::Dots } else { Remat::Full }
        })
    }

    /// The memory space of an argument. Vectors and scalars of layers stay on the device: they are small, and those of several
    /// layers share a tile of TPU memory.
    pub fn memory(&self, role: Role) -> MemorySpace {
        match role {
            Role::Base(PartId { part: Some(Part::NestedAbsmax | Part::Offset), .. }) => MemorySpace::Device,
            Role::Base(PartId { param: Param::Weight(_), .. }) => self.weights,
            _ => MemorySpace::Device,
        }
    }
}

impl Remat {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Full, Self::Dots, Self::None, Self::Offload];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Dots => "dots",
            Self::None => "none",
            Self::Offload => "offload",
        }
    }

    /// Residuals that a layer's backward computation reads besides the layer's input.
    pub(super) fn save_policy(self) -> SavePolicy {
        match self {
            Self::Full | Self::Offload => SavePolicy::Nothing,
            Self::Dots => SavePolicy::Dots,
            Self::None => SavePolicy::Everything,
        }
    }
}

impl fmt::Display for Remat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
