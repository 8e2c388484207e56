use std::{fmt, str::FromStr};

use super::{AttrsKind, CompId};
use crate::base::{Diagnostic, Literal};

/// The attributes of an instruction. Opcodes with the same attributes share a variant.
#[derive(Clone, Debug, PartialEq)]
pub enum Attrs {
    /// No attributes.
    Plain,
    /// The parameter number.
    Parameter(usize),
    /// The literal of a constant.
    Constant(Literal),
    /// The dimension along which `iota` counts.
    Iota(usize),
    /// `dimensions` of `broadcast`, `transpose`, `reverse` and `concatenate`.
    Dims(Vec<usize>),
    /// The direction of `compare`.
    Compare(ComparisonDirection),
    /// The dimensions of `dot`.
    Dot(DotDims),
    /// One range per operand dimension.
    Slice(Vec<SliceDim>),
    /// The slice sizes of `dynamic-slice`.
    DynamicSlice(Vec<usize>),
    /// One entry per operand dimension.
    Pad(Vec<PadDim>),
    /// The attributes of `reduce`.
    Reduce {
        /// Dimensions of the operand that are reduced.
        dims: Vec<usize>,
        /// The reducer, a computation of two scalars.
        to_apply: CompId,
    },
    /// The dimensions of `gather`.
    Gather(GatherDims),
    /// The attributes of `scatter`.
    Scatter {
        /// How updates map to the operand.
        dims: ScatterDims,
        /// The reducer, a computation of the old and the update element.
        to_apply: CompId,
    },
    /// The callee of `call`.
    Call(CompId),
    /// The two computations of `while`, both of the carry.
    While {
        /// Returns `pred[]`: whether to run the body again.
        condition: CompId,
        /// Returns the next carry.
        body: CompId,
    },
    /// The element index of `get-tuple-element`.
    TupleIndex(usize),
    /// The target of `custom-call`.
    CustomCall(CustomCall),
}

impl Attrs {
    /// The kind of these attributes.
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

    /// The computations that the attributes refer to.
    pub fn callees(&self) -> Vec<CompId> {
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

    /// The computations that the attributes refer to, for renaming them.
    pub fn callees_mut(&mut self) -> Vec<&mut CompId> {
        match self {
            Self::Reduce { to_apply, .. } | Self::Scatter { to_apply, .. } | Self::Call(to_apply) => {
                vec![to_apply]
            }
            Self::While { condition, body } => vec![condition, body],
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
}

/// The relation that `compare` tests.
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
    /// Every direction.
    pub const ALL: &[ComparisonDirection] = &[Self::Eq, Self::Ne, Self::Ge, Self::Gt, Self::Le, Self::Lt];

    /// The spelling in HLO text and protos.
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

/// An unknown comparison direction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown comparison direction: {0}")]
pub struct UnknownComparisonDirection(pub String);

/// An error without a location, with the known directions as the hint.
impl From<UnknownComparisonDirection> for Diagnostic {
    fn from(unknown: UnknownComparisonDirection) -> Self {
        let names: Vec<&str> = ComparisonDirection::ALL.iter().map(|direction| direction.name()).collect();
        Self::from(unknown.to_string()).with_hint(format!("known: {}", names.join(", ")))
    }
}

impl FromStr for ComparisonDirection {
    type Err = UnknownComparisonDirection;

    fn from_str(text: &str) -> Result<Self, UnknownComparisonDirection> {
        Self::ALL
            .iter()
            .copied()
            .find(|c| c.name() == text)
            .ok_or_else(|| UnknownComparisonDirection(text.to_owned()))
    }
}

/// The batch and contracting dimensions of `dot`; the other dimensions are free. The result has the batch dimensions,
/// then the free dimensions of the left operand, then those of the right one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch dimensions of the right operand, in the order of those of the left one.
    pub rhs_batch: Vec<usize>,
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Vec<usize>,
    /// Contracting dimensions of the right operand, in the order of those of the left one.
    pub rhs_contracting: Vec<usize>,
}

/// A half-open range with a stride, along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// First index.
    pub start: usize,
    /// One past the last index that may be included.
    pub limit: usize,
    /// Distance between indices, at least one.
    pub stride: usize,
}

/// Padding along one dimension; a negative edge removes elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PadDim {
    /// Elements before the first.
    pub low: i64,
    /// Elements after the last.
    pub high: i64,
    /// Elements between each two neighbours.
    pub interior: usize,
}

/// The dimensions of `gather`, as XLA's operation semantics name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatherDims {
    /// Result dimensions that index into a slice.
    pub offset_dims: Vec<usize>,
    /// Operand dimensions of slice size one that the result does not have.
    pub collapsed_slice_dims: Vec<usize>,
    /// The operand dimension of each component of a start index.
    pub start_index_map: Vec<usize>,
    /// The dimension of the indices along which the components are.
    pub index_vector_dim: usize,
    /// The slice sizes, one for each operand dimension.
    pub slice_sizes: Vec<usize>,
}

/// The dimensions of `scatter`, as XLA's operation semantics name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScatterDims {
    /// Update dimensions that index into a window.
    pub update_window_dims: Vec<usize>,
    /// Operand dimensions of window size one that the updates do not have.
    pub inserted_window_dims: Vec<usize>,
    /// The operand dimension of each component of an index.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The dimension of the indices along which the components are.
    pub index_vector_dim: usize,
}

/// The attributes of `custom-call`, which calls an operation of the platform by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CustomCall {
    /// The name of the operation.
    pub target: String,
    /// Whether it has side effects.
    pub side_effect: SideEffect,
    /// Opaque configuration.
    pub backend_config: String,
}

/// Whether an operation has side effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SideEffect {
    /// It may be removed if its result is unused.
    #[default]
    Absent,
    /// It is kept even if its result is unused.
    Present,
}
