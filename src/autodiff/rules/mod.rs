//! One rule for each opcode. The match has no wildcard: a new opcode does not compile until someone decides.

mod calls;
mod contraction;
mod elementwise;
mod indexing;
mod layout;

use super::{AutodiffError, Step};
use crate::hlo::{Opcode, Value};

/// How an instruction takes part in differentiation.
pub(super) enum Vjp<'b> {
    /// One cotangent per operand; `None` where the operand has none or nobody wants it.
    Rule(Vec<Option<Value<'b>>>),
    /// Piecewise constant: nothing flows back.
    NoGradient,
    /// There is no rule, for this reason.
    Unsupported(&'static str),
}

/// What no verified module holds.
const MISMATCH: &str = "its attributes are not of its opcode";

pub(super) fn vjp<'b>(step: &Step<'_, 'b>) -> Result<Vjp<'b>, AutodiffError> {
    Ok(match step.instr.opcode {
        Opcode::Abs
        | Opcode::Cosine
        | Opcode::Exponential
        | Opcode::ExponentialMinusOne
        | Opcode::Log
        | Opcode::LogPlusOne
        | Opcode::Logistic
        | Opcode::Negate
        | Opcode::Rsqrt
        | Opcode::Sine
        | Opcode::Sqrt
        | Opcode::Tanh
        | Opcode::Convert => elementwise::unary(step),
        Opcode::Add
        | Opcode::Divide
        | Opcode::Maximum
        | Opcode::Minimum
        | Opcode::Multiply
        | Opcode::Power
        | Opcode::Remainder
        | Opcode::Subtract => elementwise::binary(step),
        Opcode::Select => elementwise::select(step),
        Opcode::Clamp => elementwise::clamp(step),

        Opcode::Broadcast => layout::broadcast(step),
        Opcode::Reshape => layout::reshape(step),
        Opcode::Transpose => layout::transpose(step),
        Opcode::Reverse => layout::reverse(step),
        Opcode::Concatenate => layout::concatenate(step),
        Opcode::Slice => layout::slice(step),
        Opcode::Pad => layout::pad(step),

        Opcode::Dot => contraction::dot(step),
        Opcode::Reduce => contraction::reduce(step),

        Opcode::DynamicSlice => indexing::dynamic_slice(step),
        Opcode::DynamicUpdateSlice => indexing::dynamic_update_slice(step),
        Opcode::Gather => indexing::gather(step),
        Opcode::Scatter => indexing::scatter(step),

        Opcode::Tuple => calls::tuple(step),
        Opcode::GetTupleElement => calls::get_tuple_element(step),
        Opcode::Call => calls::call(step)?,
        Opcode::OptimizationBarrier => Vjp::Rule(vec![Some(step.cotangent)]),

        Opcode::Parameter
        | Opcode::Constant
        | Opcode::Iota
        | Opcode::Ceil
        | Opcode::Floor
        | Opcode::RoundNearestEven
        | Opcode::Sign
        | Opcode::Not
        | Opcode::IsFinite
        | Opcode::And
        | Opcode::Or
        | Opcode::Xor
        | Opcode::ShiftLeft
        | Opcode::ShiftRightLogical
        | Opcode::Compare => Vjp::NoGradient,

        Opcode::BitcastConvert => Vjp::Unsupported("the bits of a number have no derivative"),
        Opcode::While => Vjp::Unsupported("loops are differentiated by whoever writes them"),
        Opcode::CustomCall => Vjp::Unsupported("its derivative is not known"),
    })
}
