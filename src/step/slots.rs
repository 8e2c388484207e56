use std::fmt;

use crate::{
    base::{ArrayShape, DType, Dim, MemorySpace},
    hlo::{Sharding, Verified},
    model::{AdapterId, Factor, Param},
};

/// What a value is for. An output with the role of an argument takes its place: that argument is donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A frozen parameter, as its `ParamSpec` says, in the compute type.
    Base(Param),
    /// A trained factor, `f32[layers, rank, features]`.
    Adapter(AdapterId),
    /// The mean of its gradients, of its shape.
    Moment1(AdapterId),
    /// The mean of its squared gradients, of its shape.
    Moment2(AdapterId),
    /// Its gradient, summed over micro-batches, of its shape.
    Gradient(AdapterId),
    /// `s32[]`, updates made.
    Updates,
    /// `s32[batch, seq]`, token ids.
    InputIds,
    /// `s32[batch, seq]`, token ids where they count, else -100.
    Labels,
    /// `s32[batch, seq]`, the sequence of its row that each token belongs to.
    SegmentIds,
    /// `s32[batch]`, the position whose logits are asked for.
    Position,
    /// `f32[]`, what the update is multiplied with.
    LearningRate,
    /// `s32[]`, the positions that count.
    NumLabelTokens,
    /// `f32[]`, the mean loss over the positions that count; summed over micro-batches where there are several.
    Loss,
    /// `f32[]`, the norm of the gradients before clipping.
    GradNorm,
    /// `f32[batch, seq, vocab]`.
    Logits,
    /// `f32[batch, vocab]`, at one position of each sequence.
    NextLogits,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adapter = |f: &mut fmt::Formatter<'_>, prefix: &str, id: &AdapterId| {
            let factor = match id.factor {
                Factor::A => "lora_A",
                Factor::B => "lora_B",
            };
            write!(f, "{prefix}{}.{factor}", id.linear.name())
        };
        match self {
            Self::Base(Param::Embed) => f.write_str("embed_tokens"),
            Self::Base(Param::InputNorm) => f.write_str("input_layernorm"),
            Self::Base(Param::Weight(linear)) => f.write_str(linear.name()),
            Self::Base(Param::Bias(linear)) => write!(f, "{}.bias", linear.name()),
            Self::Base(Param::PostAttentionNorm) => f.write_str("post_attention_layernorm"),
            Self::Base(Param::FinalNorm) => f.write_str("norm"),
            Self::Base(Param::Head) => f.write_str("lm_head"),
            Self::Adapter(id) => adapter(f, "", id),
            Self::Moment1(id) => adapter(f, "m.", id),
            Self::Moment2(id) => adapter(f, "v.", id),
            Self::Gradient(id) => adapter(f, "grad.", id),
            Self::Updates => f.write_str("updates"),
            Self::InputIds => f.write_str("input_ids"),
            Self::Labels => f.write_str("labels"),
            Self::SegmentIds => f.write_str("segment_ids"),
            Self::Position => f.write_str("position"),
            Self::LearningRate => f.write_str("learning_rate"),
            Self::NumLabelTokens => f.write_str("num_label_tokens"),
            Self::Loss => f.write_str("loss"),
            Self::GradNorm => f.write_str("grad_norm"),
            Self::Logits => f.write_str("logits"),
            Self::NextLogits => f.write_str("next_logits"),
        }
    }
}

/// An argument or a result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What it is for.
    pub role: Role,
    /// Its named dimensions, outermost first.
    pub dims: Vec<(Dim, usize)>,
    /// Its element type.
    pub dtype: DType,
    /// How it lies on the devices; whole, where there is but one.
    pub sharding: Sharding,
    /// In which memory of the devices; of an argument on the host the module says so too, by `host_parameters`.
    pub memory: MemorySpace,
}

impl Slot {
    /// The shape of the whole value.
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(self.dtype, self.dims.iter().map(|&(_, size)| size).collect::<Vec<_>>())
    }

    /// The shape that it has as an argument or result: padded up to whole shards, since not every partitioner splits
    /// those unevenly.
    pub fn padded_shape(&self) -> ArrayShape {
        let shape = self.shape();
        self.sharding.padded_shape(&shape).unwrap_or(shape)
    }
}

/// A module with the meaning of its arguments and results.
#[derive(Clone, Debug)]
pub struct StepProgram {
    /// The program.
    pub module: Verified,
    /// Arguments, in call order.
    pub inputs: Vec<Slot>,
    /// Results, in order.
    pub outputs: Vec<Slot>,
}

impl StepProgram {
    /// Whether an output takes the place of the argument with this role.
    pub fn is_donated(&self, role: Role) -> bool {
        self.outputs.iter().any(|slot| slot.role == role)
    }
}
