//! The pieces of a Llama, each a template and its arguments.

mod attention;
mod embed;
mod linear;
mod loss;
mod mlp;
mod norm;
mod rope;

pub use attention::{Attention, attention};
pub use embed::embed;
pub use linear::{LoraValues, linear};
pub use loss::{IGNORED, NextToken, loss, next_token};
pub use mlp::mlp;
pub use norm::norm;
pub use rope::{RopeTable, rope, rope_table};

use super::Config;
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

/// What every piece needs to know of the step it is part of.
#[derive(Clone, Copy)]
pub struct Scope<'m> {
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
