use std::{fmt, str::FromStr};

use crate::base::{Diagnostic, nearest_hint};

macro_rules! opcodes {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $attrs:ident, $arity:expr, $class:ident, $shape:ident; )*) => {
        /// An opcode that a training step can have. [`raw::Opcode`](crate::hlo::raw::Opcode) has all of XLA's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Opcode { $( $(#[$doc])* $variant, )* }

        impl Opcode {
            /// Every opcode, in the order of the table.
            pub const ALL: &[Opcode] = &[$( Opcode::$variant, )*];

            /// The spelling in HLO text and in `HloInstructionProto.opcode`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// The kind of attributes that an instruction with this opcode has.
            pub const fn attrs_kind(self) -> AttrsKind {
                match self { $( Self::$variant => AttrsKind::$attrs, )* }
            }

            /// The number of operands, or `None` for a variadic opcode.
            pub const fn arity(self) -> Option<usize> {
                match self { $( Self::$variant => $arity, )* }
            }

            /// The class of the opcode.
            pub const fn class(self) -> OpcodeClass {
                match self { $( Self::$variant => OpcodeClass::$class, )* }
            }

            /// The rule that infers the result shape from the operand shapes.
            pub const fn shape_rule(self) -> ShapeRule {
                match self { $( Self::$variant => ShapeRule::$shape, )* }
            }
        }
    };
}

/// The kind of attributes of an instruction, one for each variant of [`Attrs`](super::Attrs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrsKind {
    /// No attributes.
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

/// The class of an opcode, by the work that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpcodeClass {
    /// Parameters and constants.
    Leaf,
    /// One operation for each element of one operand.
    ElementwiseUnary,
    /// One operation for each pair of elements of two operands.
    ElementwiseBinary,
    /// One operation for each triple of elements of three operands.
    ElementwiseTernary,
    /// Conversion of the elements to another type.
    Conversion,
    /// Copying, repeating or numbering of elements, without arithmetic on operands.
    DataMovement,
    /// Reduction of dimensions.
    Reduction,
    /// Sums of products over contracting dimensions of two operands.
    Contraction,
    /// Reads or writes at indices that are operands.
    Indexing,
    /// Construction of a tuple, or access to an element of one, without a copy.
    Tuple,
    /// Execution of other computations.
    ControlFlow,
    /// A custom call: an operation of the platform.
    CustomCall,
}

/// The rule of shape inference of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// One floating-point operand; the result has its shape.
    UnaryFloat,
    /// One numeric operand; the result has its shape.
    UnaryNumeric,
    /// One integer or boolean operand; the result has its shape.
    UnaryLogical,
    /// Two operands of the same shape and any type; the result has their shape.
    BinaryAny,
    /// Two numeric operands of the same shape; the result has their shape.
    BinaryNumeric,
    /// Two integer or boolean operands of the same shape; the result has their shape.
    BinaryLogical,
    /// A rule for this opcode only, in [`infer`](super::infer()).
    PerOpcode,
}

opcodes! {
    /// A parameter of the computation.
    Parameter = "parameter", Parameter, Some(0), Leaf, PerOpcode;
    /// A literal.
    Constant = "constant", Constant, Some(0), Leaf, PerOpcode;
    /// Values that count up from zero along one dimension.
    Iota = "iota", Iota, Some(0), DataMovement, PerOpcode;

    /// Absolute value.
    Abs = "abs", Plain, Some(1), ElementwiseUnary, UnaryNumeric;
    /// Smallest integer not less than the operand.
    Ceil = "ceil", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Cosine of an angle in radians.
    Cosine = "cosine", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// `exp(x)`.
    Exponential = "exponential", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// `exp(x) - 1`, accurate near zero.
    ExponentialMinusOne = "exponential-minus-one", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Largest integer not greater than the operand.
    Floor = "floor", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Natural logarithm.
    Log = "log", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// `log(1 + x)`, accurate near zero.
    LogPlusOne = "log-plus-one", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// `1 / (1 + exp(-x))`.
    Logistic = "logistic", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Arithmetic negation.
    Negate = "negate", Plain, Some(1), ElementwiseUnary, UnaryNumeric;
    /// Logical or bitwise complement.
    Not = "not", Plain, Some(1), ElementwiseUnary, UnaryLogical;
    /// Nearest integer, ties to even.
    RoundNearestEven = "round-nearest-even", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// `1 / sqrt(x)`.
    Rsqrt = "rsqrt", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// -1, 0 or 1.
    Sign = "sign", Plain, Some(1), ElementwiseUnary, UnaryNumeric;
    /// Sine of an angle in radians.
    Sine = "sine", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Square root.
    Sqrt = "sqrt", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Hyperbolic tangent.
    Tanh = "tanh", Plain, Some(1), ElementwiseUnary, UnaryFloat;
    /// Whether the value is neither infinite nor NaN.
    IsFinite = "is-finite", Plain, Some(1), ElementwiseUnary, PerOpcode;
    /// Conversion to another element type.
    Convert = "convert", Plain, Some(1), Conversion, PerOpcode;
    /// The same bits as another element type of equal width.
    BitcastConvert = "bitcast-convert", Plain, Some(1), Conversion, PerOpcode;

    /// Sum; logical or of booleans.
    Add = "add", Plain, Some(2), ElementwiseBinary, BinaryAny;
    /// Quotient.
    Divide = "divide", Plain, Some(2), ElementwiseBinary, BinaryNumeric;
    /// The larger operand; NaN if either is NaN.
    Maximum = "maximum", Plain, Some(2), ElementwiseBinary, BinaryAny;
    /// The smaller operand; NaN if either is NaN.
    Minimum = "minimum", Plain, Some(2), ElementwiseBinary, BinaryAny;
    /// Product; logical and of booleans.
    Multiply = "multiply", Plain, Some(2), ElementwiseBinary, BinaryAny;
    /// The first operand to the power of the second.
    Power = "power", Plain, Some(2), ElementwiseBinary, BinaryNumeric;
    /// Remainder with the sign of the dividend.
    Remainder = "remainder", Plain, Some(2), ElementwiseBinary, BinaryNumeric;
    /// Difference.
    Subtract = "subtract", Plain, Some(2), ElementwiseBinary, BinaryNumeric;
    /// Logical or bitwise and.
    And = "and", Plain, Some(2), ElementwiseBinary, BinaryLogical;
    /// Logical or bitwise or.
    Or = "or", Plain, Some(2), ElementwiseBinary, BinaryLogical;
    /// Logical or bitwise exclusive or.
    Xor = "xor", Plain, Some(2), ElementwiseBinary, BinaryLogical;
    /// Left shift.
    ShiftLeft = "shift-left", Plain, Some(2), ElementwiseBinary, BinaryLogical;
    /// Right shift that fills with zeros.
    ShiftRightLogical = "shift-right-logical", Plain, Some(2), ElementwiseBinary, BinaryLogical;
    /// Elementwise comparison.
    Compare = "compare", Compare, Some(2), ElementwiseBinary, PerOpcode;
    /// The second operand where the first is true, else the third.
    Select = "select", Plain, Some(3), ElementwiseTernary, PerOpcode;
    /// `min(max(low, x), high)`.
    Clamp = "clamp", Plain, Some(3), ElementwiseTernary, PerOpcode;

    /// Repetition along new dimensions; `dimensions` maps operand dimensions to result dimensions.
    Broadcast = "broadcast", Dims, Some(1), DataMovement, PerOpcode;
    /// The same elements in row-major order with other dimension sizes.
    Reshape = "reshape", Plain, Some(1), DataMovement, PerOpcode;
    /// Permutation of dimensions: result dimension `i` is operand dimension `dimensions[i]`.
    Transpose = "transpose", Dims, Some(1), DataMovement, PerOpcode;
    /// Reversal of the listed dimensions.
    Reverse = "reverse", Dims, Some(1), DataMovement, PerOpcode;
    /// Concatenation along one dimension.
    Concatenate = "concatenate", Dims, None, DataMovement, PerOpcode;
    /// A slice with static bounds and strides.
    Slice = "slice", Slice, Some(1), DataMovement, PerOpcode;
    /// A slice of static sizes at dynamic start indices.
    DynamicSlice = "dynamic-slice", DynamicSlice, None, DataMovement, PerOpcode;
    /// The operand with a slice at dynamic start indices overwritten.
    DynamicUpdateSlice = "dynamic-update-slice", Plain, None, DataMovement, PerOpcode;
    /// Padding at the edges and between elements.
    Pad = "pad", Pad, Some(2), DataMovement, PerOpcode;
    /// Reduction of dimensions with a reducer.
    Reduce = "reduce", Reduce, Some(2), Reduction, PerOpcode;
    /// General dot product (`dot_general`).
    Dot = "dot", Dot, Some(2), Contraction, PerOpcode;
    /// Slices at the start indices of a second operand.
    Gather = "gather", Gather, Some(2), Indexing, PerOpcode;
    /// Updates combined into slices at given start indices.
    Scatter = "scatter", Scatter, Some(3), Indexing, PerOpcode;

    /// A tuple of the operands.
    Tuple = "tuple", Plain, None, Tuple, PerOpcode;
    /// One element of a tuple.
    GetTupleElement = "get-tuple-element", TupleIndex, Some(1), Tuple, PerOpcode;
    /// A call of another computation.
    Call = "call", Call, None, ControlFlow, PerOpcode;
    /// A loop: the body runs as long as the condition is true.
    While = "while", While, Some(1), ControlFlow, PerOpcode;
    /// An operation of the platform, by the name of its target.
    CustomCall = "custom-call", CustomCall, None, CustomCall, PerOpcode;
    /// A barrier that the compiler does not move work across.
    OptimizationBarrier = "opt-barrier", Plain, Some(1), Tuple, PerOpcode;
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown opcode name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown opcode: {0}")]
pub struct UnknownOpcode(pub String);

/// An error without a location; the hint suggests the nearest known opcode.
impl From<UnknownOpcode> for Diagnostic {
    fn from(unknown: UnknownOpcode) -> Self {
        let hint = nearest_hint(&unknown.0, Opcode::ALL.iter().map(|opcode| opcode.name()));
        Self { hint, ..unknown.to_string().into() }
    }
}

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
