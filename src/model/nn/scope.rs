use serde::{Deserialize, Serialize};

use crate::model::Config;
use crate::{
    base::DType,
    mesh::{Dim, LogicalSharding},
    templates::Instantiator,
};

/// Logical sharding of a value with features for every token, `[batch, seq, features...]`.
pub fn per_token(features: &[(Dim, usize)]) -> LogicalSharding {
    let features = features.iter().map(|&(dim, _)| dim);
    LogicalSharding::compute([Dim::Batch, Dim::Seq].into_iter().chain(features).collect::<Vec<_>>())
}

/// Logical sharding of the residual stream, `[batch, seq, embed]`.
pub fn residual() -> LogicalSharding {
    LogicalSharding::compute([Dim::Batch, Dim::Seq, Dim::Embed])
}

/// Algorithm of attention. The results are the same, up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// All scores of a row at once.
    Dense,
    /// Scores in blocks of this many queries and keys, which are recomputed in the backward pass.
    Blocks(usize),
}

impl Attention {
    /// Default block size: the float32 scores of one head take 1 MiB.
    pub const BLOCK: usize = 512;

    /// Maximum row length for which dense attention is the default.
    pub const LONGEST_DENSE: usize = 1024;

    /// The default for rows of this length.
    pub fn for_length(seq: usize) -> Self {
        if seq <= Self::LONGEST_DENSE { Self::Dense } else { Self::Blocks(Self::BLOCK) }
    }
}

/// The context of every operation in a step.
#[derive(Clone, Copy)]
pub struct ModelScope<'m> {
    /// Instantiates templates in the module of the step.
    pub templates: &'m Instantiator<'m>,
    /// The model.
    pub config: &'m Config,
    /// The element type of weights and activations.
    pub t: DType,
    /// Rows of a batch.
    pub batch: usize,
    /// Positions of a row.
    pub seq: usize,
    /// Algorithm of attention.
    pub attention: Attention,
}

impl ModelScope<'_> {
    /// The model's sliding window, if it is shorter than a row.
    pub(super) fn window(&self) -> Option<usize> {
        self.config.sliding_window.filter(|&window| window < self.seq)
    }
}
