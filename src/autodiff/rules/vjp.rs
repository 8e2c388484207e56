use crate::hlo::Value;

/// The vector-Jacobian product of one instruction.
pub(crate) enum Vjp<'b> {
    /// One cotangent for each operand; `None` where the operand has none or it is not needed.
    Rule(Vec<Option<Value<'b>>>),
    /// Piecewise constant: no cotangent is propagated.
    NoGradient,
    /// There is no rule, for this reason.
    Unsupported(&'static str),
}

/// The reason of a case that shape inference rules out.
pub(super) const INVALID_ATTRS: &str = "its attributes are invalid for its opcode";
