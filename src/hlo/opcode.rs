use std::{fmt, str::FromStr};

macro_rules! opcodes {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $form:ident, $arity:expr, $class:ident; )*) => {
        /// An HLO operation. The table in this file is the one location that lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Opcode { $( $(#[$doc])* $variant, )* }

        impl Opcode {
            /// Every opcode, in the order of the table.
            pub const ALL: &[Opcode] = &[$( Opcode::$variant, )*];

            /// The spelling of HLO text and of `HloInstructionProto.opcode`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Which attribute payload the instruction carries.
            pub const fn attrs_kind(self) -> AttrsKind {
                match self { $( Self::$variant => AttrsKind::$form, )* }
            }

            /// The number of operands, or `None` for a variadic opcode.
            pub const fn arity(self) -> Option<usize> {
                match self { $( Self::$variant => $arity, )* }
            }

            /// How the shape of the result follows from the operands.
            pub const fn shape_rule(self) -> ShapeRule {
                match self { $( Self::$variant => ShapeRule::$class, )* }
            }
        }
    };
}

/// The layout of an instruction's attributes; one variant of [`Attrs`](super::Attrs) each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrsKind {
    /// None.
    Plain,
    /// `parameter(0)`.
    Parameter,
    /// `constant({1, 2})`.
    Constant,
    /// `iota_dimension=0`.
    Iota,
    /// `dimensions={0,1}`.
    Dims,
    /// `direction=LT`.
    Compare,
    /// `lhs_contracting_dims={1}, ...`.
    Dot,
    /// `slice={[0:4], [2:8:2]}`.
    Slice,
    /// `dynamic_slice_sizes={1,4}`.
    DynamicSlice,
    /// `padding=0_1x2_0_1`.
    Pad,
    /// `dimensions={1}, to_apply=add`.
    Reduce,
    /// `offset_dims={2}, ...`.
    Gather,
    /// `update_window_dims={1}, ..., to_apply=add`.
    Scatter,
    /// `to_apply=f`.
    Call,
    /// `condition=c, body=b`.
    While,
    /// `index=1`.
    TupleIndex,
    /// `custom_call_target="..."`.
    CustomCall,
}

/// How the shape of a result follows from the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// One floating-point operand; the result has its shape.
    UnaryFloat,
    /// One operand of any numeric type; the result has its shape.
    UnaryNumeric,
    /// One integer or boolean operand; the result has its shape.
    UnaryLogical,
    /// Two operands of one shape and any type; the result has it.
    BinaryAny,
    /// Two numeric operands of one shape; the result has it.
    BinaryNumeric,
    /// Two integer or boolean operands of one shape; the result has it.
    BinaryLogical,
    /// A rule of its own, in `infer`.
    Own,
}

opcodes! {
    /// An argument of the computation.
    Parameter = "parameter", Parameter, Some(0), Own;
    /// A value known when the module is built.
    Constant = "constant", Constant, Some(0), Own;
    /// Counts up along one dimension.
    Iota = "iota", Iota, Some(0), Own;

    /// Magnitude.
    Abs = "abs", Plain, Some(1), UnaryNumeric;
    /// Smallest integer not below.
    Ceil = "ceil", Plain, Some(1), UnaryFloat;
    /// Cosine of an angle in radians.
    Cosine = "cosine", Plain, Some(1), UnaryFloat;
    /// e to the power of.
    Exponential = "exponential", Plain, Some(1), UnaryFloat;
    /// e to the power of, less one, exact near zero.
    ExponentialMinusOne = "exponential-minus-one", Plain, Some(1), UnaryFloat;
    /// Largest integer not above.
    Floor = "floor", Plain, Some(1), UnaryFloat;
    /// Natural logarithm.
    Log = "log", Plain, Some(1), UnaryFloat;
    /// Natural logarithm of one more, exact near zero.
    LogPlusOne = "log-plus-one", Plain, Some(1), UnaryFloat;
    /// 1 / (1 + exp(-x)).
    Logistic = "logistic", Plain, Some(1), UnaryFloat;
    /// Arithmetic negation.
    Negate = "negate", Plain, Some(1), UnaryNumeric;
    /// Logical or bitwise complement.
    Not = "not", Plain, Some(1), UnaryLogical;
    /// Nearest integer, ties to even.
    RoundNearestEven = "round-nearest-even", Plain, Some(1), UnaryFloat;
    /// 1 / sqrt(x).
    Rsqrt = "rsqrt", Plain, Some(1), UnaryFloat;
    /// -1, 0 or 1.
    Sign = "sign", Plain, Some(1), UnaryNumeric;
    /// Sine of an angle in radians.
    Sine = "sine", Plain, Some(1), UnaryFloat;
    /// Square root.
    Sqrt = "sqrt", Plain, Some(1), UnaryFloat;
    /// Hyperbolic tangent.
    Tanh = "tanh", Plain, Some(1), UnaryFloat;
    /// Whether the value is neither infinite nor NaN.
    IsFinite = "is-finite", Plain, Some(1), Own;
    /// The same values in another element type.
    Convert = "convert", Plain, Some(1), Own;
    /// The same bits as another element type of equal width.
    BitcastConvert = "bitcast-convert", Plain, Some(1), Own;

    /// Sum; logical or for booleans.
    Add = "add", Plain, Some(2), BinaryAny;
    /// Quotient.
    Divide = "divide", Plain, Some(2), BinaryNumeric;
    /// The larger; NaN if either is.
    Maximum = "maximum", Plain, Some(2), BinaryAny;
    /// The smaller; NaN if either is.
    Minimum = "minimum", Plain, Some(2), BinaryAny;
    /// Product; logical and for booleans.
    Multiply = "multiply", Plain, Some(2), BinaryAny;
    /// The first to the power of the second.
    Power = "power", Plain, Some(2), BinaryNumeric;
    /// Remainder with the sign of the dividend.
    Remainder = "remainder", Plain, Some(2), BinaryNumeric;
    /// Difference.
    Subtract = "subtract", Plain, Some(2), BinaryNumeric;
    /// Logical or bitwise and.
    And = "and", Plain, Some(2), BinaryLogical;
    /// Logical or bitwise or.
    Or = "or", Plain, Some(2), BinaryLogical;
    /// Logical or bitwise exclusive or.
    Xor = "xor", Plain, Some(2), BinaryLogical;
    /// Bits moved towards the high end.
    ShiftLeft = "shift-left", Plain, Some(2), BinaryLogical;
    /// Bits moved towards the low end, filled with zeros.
    ShiftRightLogical = "shift-right-logical", Plain, Some(2), BinaryLogical;
    /// Compares element by element.
    Compare = "compare", Compare, Some(2), Own;
    /// Takes each element from the second operand where the first is true, else from the third.
    Select = "select", Plain, Some(3), Own;
    /// min(max(low, x), high).
    Clamp = "clamp", Plain, Some(3), Own;

    /// Repeats along new dimensions; `dimensions` says where each operand dimension goes.
    Broadcast = "broadcast", Dims, Some(1), Own;
    /// The same elements in the same order under other sizes.
    Reshape = "reshape", Plain, Some(1), Own;
    /// Permutes dimensions: result dimension i is operand dimension `dimensions[i]`.
    Transpose = "transpose", Dims, Some(1), Own;
    /// Turns the listed dimensions around.
    Reverse = "reverse", Dims, Some(1), Own;
    /// Joins operands along one dimension.
    Concatenate = "concatenate", Dims, None, Own;
    /// A box with fixed bounds and strides.
    Slice = "slice", Slice, Some(1), Own;
    /// A box of fixed sizes at a computed start.
    DynamicSlice = "dynamic-slice", DynamicSlice, None, Own;
    /// Replaces a box at a computed start.
    DynamicUpdateSlice = "dynamic-update-slice", Plain, None, Own;
    /// Adds elements at the edges and between elements.
    Pad = "pad", Pad, Some(2), Own;
    /// Folds dimensions away with an associative computation.
    Reduce = "reduce", Reduce, Some(2), Own;
    /// General contraction.
    Dot = "dot", Dot, Some(2), Own;
    /// Collects slices at computed starts.
    Gather = "gather", Gather, Some(2), Own;
    /// Combines updates into slices at computed starts.
    Scatter = "scatter", Scatter, Some(3), Own;

    /// Several values as one.
    Tuple = "tuple", Plain, None, Own;
    /// One element of a tuple.
    GetTupleElement = "get-tuple-element", TupleIndex, Some(1), Own;
    /// Runs another computation.
    Call = "call", Call, None, Own;
    /// Runs the body as long as the condition holds.
    While = "while", While, Some(1), Own;
    /// An operation of the platform's own, by name.
    CustomCall = "custom-call", CustomCall, None, Own;
    /// Keeps the compiler from moving work across.
    OptimizationBarrier = "opt-barrier", Plain, Some(1), Own;
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no opcode of the table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown opcode: {0}")]
pub struct UnknownOpcode(pub String);

impl FromStr for Opcode {
    type Err = UnknownOpcode;

    fn from_str(text: &str) -> Result<Self, UnknownOpcode> {
        Self::ALL.iter().copied().find(|op| op.name() == text).ok_or_else(|| UnknownOpcode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_its_opcode() {
        for &op in Opcode::ALL {
            assert_eq!(op.name().parse(), Ok(op));
        }
        assert_eq!("adddd".parse::<Opcode>().unwrap_err().to_string(), "unknown opcode: adddd");
    }
}
