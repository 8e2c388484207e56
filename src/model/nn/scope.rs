use serde::{Deserialize, Serialize};

use crate::model::Config;
use crate::{
    base::DType,
    mesh::{Dim, LogicalSharding},
    templates::Instantiator,
};

/// How a value of every token lies on a mesh: `[batch, seq, features...]`.
pub fn per_token(features: &[(Dim, usize)]) -> LogicalSharding {
    let features = features.iter().map(|&(dim, _)| dim);
    LogicalSharding::compute([Dim::Batch, Dim::Seq].into_iter().chain(features).collect::<Vec<_>>())
}

/// How the residual stream lies on a mesh: `[batch, seq, embed]`.
pub fn residual() -> LogicalSharding {
    LogicalSharding::compute([Dim::Batch, Dim::Seq, Dim::Embed])
}

/// How attention is computed. The result is the same, up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// All scores of a sequence at once.
    Dense,
    /// In blocks of this many queries and keys, which are computed again for the gradient.
    Blocks(usize),
}

impl Attention {
    /// The block that is taken where none is asked for: scores of one head take a MiB, whatever the sequence.
    pub const BLOCK: usize = 512;

    /// The longest sequence whose scores are computed at once where nothing is asked for.
    pub const LONGEST_DENSE: usize = 1024;

    /// What is fast for sequences of this length.
    pub fn for_length(seq: usize) -> Self {
        if seq <= Self::LONGEST_DENSE { Self::Dense } else { Self::Blocks(Self::BLOCK) }
    }
}

/// What every piece needs to know of the step it is part of.
#[derive(Clone, Copy)]
pub struct ModelScope<'m> {
    /// Where templates come from and go to.
    pub templates: &'m Instantiator<'m>,
    /// The model.
    pub config: &'m Config,
    /// The element type of weights and activations.
    pub t: DType,
    /// Sequences of a batch.
    pub batch: usize,
    /// Positions of a sequence.
    pub seq: usize,
    /// How attention is computed.
    pub attention: Attention,
}
