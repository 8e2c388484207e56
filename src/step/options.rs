use std::{fmt, num::NonZeroUsize};

use serde::{Deserialize, Serialize};

use super::{Role, Workload};
use crate::{
    autodiff::SavePolicy,
    base::{DType, Dim, MemorySpace},
    model::{Linear, Param, features, nn::Attention, sizes},
};

/// How a step is computed. It decides what time and memory it takes; what comes out is the same, up to
/// rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOptions {
    /// How attention is computed.
    pub attention: Attention,
    /// Positions of each sequence whose logits are there at one time; without a number, as many as take a moderate part of
    /// a device's memory.
    pub loss_chunk: Option<NonZeroUsize>,
    /// What the forward pass over a layer leaves for the backward one; where nothing is said, [`Remat::Dots`] if that takes
    /// a moderate part of a device's memory, else [`Remat::Full`].
    pub remat: Option<Remat>,
    /// Where given, the forward pass leaves the input of every so many layers, from which the backward pass runs these
    /// layers forward once more, under `remat`.
    pub remat_every: Option<NonZeroUsize>,
    /// Where the frozen matrices of the layers lie; from the host, a layer's come to the device while it is computed.
    pub weights: MemorySpace,
    /// Equal parts of a batch that a step computes one after the other, summing their gradients.
    pub micro_batches: NonZeroUsize,
}

/// What the forward pass over a layer leaves for the backward one, which computes again what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remat {
    /// The layer's input: all is computed again.
    Full,
    /// The results of matrix products and of attention too.
    Dots,
    /// All that the backward pass needs of the values between the layer's operations. Nothing but these operations' own
    /// intermediate values is computed again.
    None,
    /// The layer's input, in the host's memory.
    Offload,
}

/// Bytes that the results of matrix products take on a device at most where they are kept unasked.
const KEPT_BYTES: usize = 1 << 30;

/// The number of elements of these dimensions.
fn elements(dims: &[(Dim, usize)]) -> usize {
    sizes(dims).iter().product()
}

impl StepOptions {
    /// What suits sequences of this length.
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
    /// What the forward pass leaves in a step of `workload` whose batch a mesh splits into `batch_shards`.
    pub fn remat_of(&self, workload: &Workload<'_>, batch_shards: usize) -> Remat {
        self.remat.unwrap_or_else(|| {
            let &Workload { config, dtype, batch, seq, .. } = workload;
            let features = |linear| features(linear, config);
            let products =
                [Linear::Query, Linear::Key, Linear::Value, Linear::Output, Linear::Gate, Linear::Up];
            let products: usize = products.map(|linear| elements(&features(linear).output)).iter().sum();
            let (input, mixed) =
                (elements(&features(Linear::Query).input), elements(&features(Linear::Output).input));
            let weights = match self.attention {
                Attention::Dense => config.num_attention_heads * seq,
                Attention::Blocks(_) => config.num_attention_heads,
            };
            let of_token = (input + products + mixed) * dtype.bytes() + weights * DType::F32.bytes();
            let tokens = (batch * seq).div_ceil(batch_shards.max(1));
            let kept = tokens.saturating_mul(of_token).saturating_mul(config.num_hidden_layers);
            if kept <= KEPT_BYTES { Remat::Dots } else { Remat::Full }
        })
    }

    /// Where an argument lies. Vectors stay on the device: they take no room, and those of several layers share a tile of a
    /// TPU's memory.
    pub fn memory(&self, role: Role) -> MemorySpace {
        match role {
            Role::Base(Param::Weight(_)) => self.weights,
            _ => MemorySpace::Device,
        }
    }
}

impl Remat {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Full, Self::Dots, Self::None, Self::Offload];

    /// The spelling on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Dots => "dots",
            Self::None => "none",
            Self::Offload => "offload",
        }
    }

    /// What a layer's backward computation takes over besides the layer's input.
    pub(super) fn keep(self) -> SavePolicy {
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
