use std::fmt;

use crate::{
    base::{ArrayShape, DType, MemorySpace},
    hlo::{Sharding, Verified},
    mesh::Dim,
    model::{PartId, TrainableId},
};

/// The role of an argument or a result. A result with the role of an argument replaces it: that argument is donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A frozen parameter or a part of it, as its `PartSpec` describes it.
    Base(PartId),
    /// A trainable tensor, as its `TrainableSpec` describes it.
    Trainable(TrainableId),
    /// Its first moment in AdamW, of its dimensions.
    Moment1(TrainableId),
    /// Its second moment in AdamW, of its dimensions.
    Moment2(TrainableId),
    /// Its gradient, summed over gradient accumulation steps: float32, of its dimensions.
    Gradient(TrainableId),
    /// `s32[]`, the number of updates.
    Updates,
    /// `s32[batch, seq]`, token ids.
    InputIds,
    /// `s32[batch, seq]`, token ids of labelled tokens, else -100.
    Labels,
    /// `s32[batch, seq]`, the segment of its row that each token belongs to.
    SegmentIds,
    /// `s32[batch]`, the position whose logits are requested.
    Position,
    /// `f32[]`.
    LearningRate,
    /// `s32[]`, the number of labelled tokens.
    NumLabelTokens,
    /// `f32[]`, the mean loss over the labelled tokens; with gradient accumulation, the sum of each step's share.
    Loss,
    /// `f32[]`, the gradient norm before clipping.
    GradNorm,
    /// `f32[batch, seq, vocab]`.
    Logits,
    /// `f32[batch, vocab]`, at one position of each row.
    NextLogits,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(id) => id.fmt(f),
            Self::Trainable(id) => id.fmt(f),
            Self::Moment1(id) => write!(f, "m.{id}"),
            Self::Moment2(id) => write!(f, "v.{id}"),
            Self::Gradient(id) => write!(f, "grad.{id}"),
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
    /// Its role.
    pub role: Role,
    /// Its named dimensions, outermost first.
    pub dims: Vec<(Dim, usize)>,
    /// Its element type.
    pub dtype: DType,
    /// Its sharding; replicated on a single device.
    pub sharding: Sharding,
    /// Its memory space; arguments in host memory are listed in the module's `host_parameters` too.
    pub memory: MemorySpace,
}

impl Slot {
    /// The unpadded shape, of all shards together.
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(self.dtype, self.dims.iter().map(|&(_, size)| size).collect::<Vec<_>>())
    }

    /// Its shape as an argument or result: padded to equal shards, since not every partitioner supports uneven ones.
    pub fn padded_shape(&self) -> ArrayShape {
        let shape = self.shape();
        self.sharding.padded_shape(&shape).unwrap_or(shape)
    }
}

/// A module with the slots of its arguments and results.
///
/// ```
/// use hloom::{
///     base::DType,
///     model::{Config, LoraSpec},
///     step::{self, Packing, Role, StepKind, StepSpec, Workload},
///     templates::TemplateLibrary,
/// };
///
/// let config = Config::builtin("tiny")?;
/// let lora = LoraSpec::all_linear(8, 16.0).resolve(&config)?;
/// let templates = TemplateLibrary::embedded();
/// let workload =
///     Workload::new(&config, &lora, DType::F32, 2, 16);
/// let program = step::build(&StepSpec::new(workload, &templates), StepKind::NextLogits)?;
/// // The arguments of a call, besides weights and adapters.
/// let of_call = program.inputs.iter().filter(|slot| !matches!(slot.role, Role::Base(_) | Role::Trainable(_)));
/// let of_call: Vec<String> = of_call.map(|slot| format!("{} {}", slot.role, slot.shape())).collect();
/// assert_eq!(of_call, ["input_ids s32[2,16]", "position s32[2]"]);
/// assert_eq!(program.outputs[0].shape().to_string(), "f32[2,512]");
/// # Ok::<(), hloom::step::StepError>(())
/// ```
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
    /// Whether a result replaces the argument with this role.
    pub fn is_donated(&self, role: Role) -> bool {
        self.outputs.iter().any(|slot| slot.role == role)
    }
}
