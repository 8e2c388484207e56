use std::fmt;

use crate::base::named_enum;

named_enum! {
    /// The name of a tensor dimension, as parameters, activations and mesh rules speak of it.
    pub enum Dim {
        /// The stack of transformer layers.
        Layers = "layers";
        /// Sequences of a batch.
        Batch = "batch";
        /// Positions of a sequence.
        Seq = "seq";
        /// The residual stream.
        Embed = "embed";
        /// Query heads.
        Heads = "heads";
        /// Key and value heads.
        KvHeads = "kv_heads";
        /// Features inside one head.
        HeadDim = "head_dim";
        /// The hidden features of the feed-forward block.
        Mlp = "mlp";
        /// Token ids.
        Vocab = "vocab";
        /// The rank of a low-rank adapter.
        Rank = "rank";
        /// Elements of a part of a quantized weight that follow none of its dimensions.
        Packed = "packed";
    }
}

impl Dim {
    /// The dimension with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dim| dim.name() == name)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
