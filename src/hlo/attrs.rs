use std::{fmt, str::FromStr};

use super::{AttrsKind, CompId};
use crate::base::Literal;

/// What an instruction carries besides its operands, grouped by layout rather than by opcode.
#[derive(Clone, Debug, PartialEq)]
pub enum Attrs {
    /// Nothing.
    Plain,
    /// The position of an argument.
    Parameter(usize),
    /// The value of a constant.
    Constant(Literal),
    /// The dimension along which `iota` counts.
    Iota(usize),
    /// `dimensions` of `broadcast`, `transpose`, `reverse` and `concatenate`.
    Dims(Vec<usize>),
    /// The relation tested by `compare`.
    Compare(ComparisonDirection),
    /// The dimensions of `dot`.
    Dot(DotDims),
    /// One range per operand dimension.
    Slice(Vec<SliceDim>),
    /// The sizes of the box that `dynamic-slice` takes.
    DynamicSlice(Vec<usize>),
    /// One entry per operand dimension.
    Pad(Vec<PadDim>),
    /// The dimensions `reduce` folds away, and the computation that folds two scalars.
    Reduce {
        /// Dimensions of the operand that are folded away.
        dims: Vec<usize>,
        /// Folds two scalars into one.
        to_apply: CompId,
    },
    /// The dimensions of `gather`.
    Gather(GatherDims),
    /// The dimensions of `scatter`, and the computation that combines old and new.
    Scatter {
        /// How updates map to the operand.
        dims: ScatterDims,
        /// Combines an old and a new scalar.
        to_apply: CompId,
    },
    /// The computation that `call` runs.
    Call(CompId),
    /// The two computations of `while`; both take the carried value.
    While {
        /// Gives a boolean: whether to go on.
        condition: CompId,
        /// Gives the next carried value.
        body: CompId,
    },
    /// Which element `get-tuple-element` takes.
    TupleIndex(usize),
    /// The target of `custom-call`.
    CustomCall(CustomCall),
}

impl Attrs {
    /// The layout of this payload.
    pub fn attrs_kind(&self) -> AttrsKind {
        match self {
            Self::Plain => AttrsKind::Plain,
            Self::Parameter(_) => AttrsKind::Parameter,
            Self::Constant(_) => AttrsKind::Constant,
            Self::Iota(_) => AttrsKind::Iota,
            Self::Dims(_) => AttrsKind::Dims,
            Self::Compare(_) => AttrsKind::Compare,
            Self::Dot(_) => AttrsKind::Dot,
            Self::Slice(_) => AttrsKind::Slice,
            Self::DynamicSlice(_) => AttrsKind::DynamicSlice,
            Self::Pad(_) => AttrsKind::Pad,
            Self::Reduce { .. } => AttrsKind::Reduce,
            Self::Gather(_) => AttrsKind::Gather,
            Self::Scatter { .. } => AttrsKind::Scatter,
            Self::Call(_) => AttrsKind::Call,
            Self::While { .. } => AttrsKind::While,
            Self::TupleIndex(_) => AttrsKind::TupleIndex,
            Self::CustomCall(_) => AttrsKind::CustomCall,
        }
    }

    /// The computations it refers to.
    pub fn called(&self) -> Vec<CompId> {
        match self {
            Self::Reduce { to_apply, .. } | Self::Scatter { to_apply, .. } | Self::Call(to_apply) => {
                vec![*to_apply]
            }
            Self::While { condition, body } => vec![*condition, *body],
            Self::Plain
            | Self::Parameter(_)
            | Self::Constant(_)
            | Self::Iota(_)
            | Self::Dims(_)
            | Self::Compare(_)
            | Self::Dot(_)
            | Self::Slice(_)
            | Self::DynamicSlice(_)
            | Self::Pad(_)
            | Self::Gather(_)
            | Self::TupleIndex(_)
            | Self::CustomCall(_) => vec![],
        }
    }

    /// The same payload with each computation it refers to renamed.
    pub fn with_called(mut self, rename: impl Fn(CompId) -> CompId) -> Self {
        match &mut self {
            Self::Reduce { to_apply, .. } | Self::Scatter { to_apply, .. } | Self::Call(to_apply) => {
                *to_apply = rename(*to_apply);
            }
            Self::While { condition, body } => {
                *condition = rename(*condition);
                *body = rename(*body);
            }
            Self::Plain
            | Self::Parameter(_)
            | Self::Constant(_)
            | Self::Iota(_)
            | Self::Dims(_)
            | Self::Compare(_)
            | Self::Dot(_)
            | Self::Slice(_)
            | Self::DynamicSlice(_)
            | Self::Pad(_)
            | Self::Gather(_)
            | Self::TupleIndex(_)
            | Self::CustomCall(_) => {}
        }
        self
    }
}

/// The relation tested by `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparisonDirection {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater or equal.
    Ge,
    /// Greater.
    Gt,
    /// Less or equal.
    Le,
    /// Less.
    Lt,
}

impl ComparisonDirection {
    /// Every relation.
    pub const ALL: &[ComparisonDirection] = &[Self::Eq, Self::Ne, Self::Ge, Self::Gt, Self::Le, Self::Lt];

    /// The spelling of HLO text and proto.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Ne => "NE",
            Self::Ge => "GE",
            Self::Gt => "GT",
            Self::Le => "LE",
            Self::Lt => "LT",
        }
    }
}

impl fmt::Display for ComparisonDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ComparisonDirection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|c| c.name() == text)
            .ok_or_else(|| format!("unknown comparison direction: {text}"))
    }
}

/// Which dimensions a `dot` sums over and which it pairs; the rest are free.
/// The result has the batch dimensions, then the free ones of the left, then those of the right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    /// Left dimensions that are paired, in order.
    pub lhs_batch: Vec<usize>,
    /// Right dimensions that are paired, in order.
    pub rhs_batch: Vec<usize>,
    /// Left dimensions summed over, in order.
    pub lhs_contracting: Vec<usize>,
    /// Right dimensions summed over, in order.
    pub rhs_contracting: Vec<usize>,
}

/// A half-open range with a stride, along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// First index.
    pub start: usize,
    /// One past the last index considered.
    pub limit: usize,
    /// Distance between indices, at least one.
    pub stride: usize,
}

/// Padding along one dimension; negative edges cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PadDim {
    /// Elements before the first.
    pub low: i64,
    /// Elements after the last.
    pub high: i64,
    /// Elements between two neighbours.
    pub interior: usize,
}

/// The dimensions of `gather`, as XLA's operation semantics name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatherDims {
    /// Result dimensions that run inside a slice.
    pub offset_dims: Vec<usize>,
    /// Operand dimensions of size one in the slice that the result leaves out.
    pub collapsed_slice_dims: Vec<usize>,
    /// For each component of a start index, the operand dimension it is for.
    pub start_index_map: Vec<usize>,
    /// The dimension of the indices that holds the components.
    pub index_vector_dim: usize,
    /// The sizes of one slice.
    pub slice_sizes: Vec<usize>,
}

/// The dimensions of `scatter`, as XLA's operation semantics name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScatterDims {
    /// Update dimensions that run inside a window.
    pub update_window_dims: Vec<usize>,
    /// Operand dimensions of size one in the window that the updates leave out.
    pub inserted_window_dims: Vec<usize>,
    /// For each component of an index, the operand dimension it is for.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The dimension of the indices that holds the components.
    pub index_vector_dim: usize,
}

/// An operation of the platform's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CustomCall {
    /// The name the platform knows it by.
    pub target: String,
    /// Whether it does more than give a value.
    pub side_effect: SideEffect,
    /// Opaque configuration.
    pub backend_config: String,
}

/// Whether an operation does more than give a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SideEffect {
    /// It may be left out where nothing uses its value.
    #[default]
    Absent,
    /// It stays, used or not.
    Present,
}
