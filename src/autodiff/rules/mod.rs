//! Derivative rules. The match over opcodes has no wildcard, so that a new opcode needs a decision to compile.

mod calls;
mod contraction;
mod elementwise;
mod indexing;
mod layout;
mod vjp;

pub(super) use vjp::Vjp;

use elementwise::{binary, unary};

use super::tape::Step;
use crate::hlo::Opcode;

/// Applies the rule of an opcode.
pub(super) fn vjp<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let ct = step.cotangent;
    let (x, y, result) = (|| step.operand(0), || step.operand(1), || step.result());
    match step.instr.opcode {
        Opcode::Abs => unary(ct * x().sign()),
        Opcode::Cosine => unary(-(ct * x().sin())),
        Opcode::Exponential => unary(ct * result()),
        Opcode::ExponentialMinusOne => unary(ct * (result() + 1.0)),
        Opcode::Log => unary(ct / x()),
        Opcode::LogPlusOne => unary(ct / (x() + 1.0)),
        Opcode::Logistic => elementwise::logistic(step),
        Opcode::Negate => unary(-ct),
        Opcode::Rsqrt => unary(ct * (result() / x() * -0.5)),
        Opcode::Sine => unary(ct * x().cos()),
        Opcode::Sqrt => unary(ct / (result() * 2.0)),
        Opcode::Tanh => elementwise::tanh(step),
        Opcode::Convert => elementwise::convert(step),

        Opcode::Add => binary(step, || ct, || ct),
        Opcode::Subtract => binary(step, || ct, || -ct),
        Opcode::Multiply => binary(step, || ct * y(), || ct * x()),
        Opcode::Divide => binary(step, || ct / y(), || -(ct * result() / y())),
        Opcode::Maximum => elementwise::maximum(step),
        Opcode::Minimum => elementwise::minimum(step),
        Opcode::Power => elementwise::power(step),
        // x rem y = x - trunc(x / y) y, and x - (x rem y) is that multiple of y.
        Opcode::Remainder => binary(step, || ct, || -(ct * ((x() - result()) / y()))),
        Opcode::Select => elementwise::select(step),
        Opcode::Clamp => elementwise::clamp(step),

        Opcode::Broadcast => layout::broadcast(step),
        Opcode::Reshape => layout::reshape(step),
        Opcode::Transpose => layout::transpose(step),
        Opcode::Reverse => layout::reverse(step),
        Opcode::Concatenate => layout::concatenate(step),
        Opcode::Slice => layout::slice(step),
        Opcode::Pad => layout::pad(step),
        Opcode::DynamicSlice => indexing::dynamic_slice(step),
        Opcode::DynamicUpdateSlice => indexing::dynamic_update_slice(step),
        Opcode::Gather => indexing::gather(step),
        Opcode::Scatter => indexing::scatter(step),
        Opcode::Dot => contraction::dot(step),
        Opcode::Reduce => contraction::reduce(step),

        Opcode::Tuple => calls::tuple(step),
        Opcode::GetTupleElement => calls::get_tuple_element(step),
        Opcode::Call => calls::call(step),
        Opcode::OptimizationBarrier => unary(ct),

        Opcode::Parameter | Opcode::Constant | Opcode::Iota => Vjp::NoGradient,
        Opcode::Ceil | Opcode::Floor | Opcode::RoundNearestEven | Opcode::Sign => Vjp::NoGradient,
        Opcode::IsFinite | Opcode::Compare | Opcode::Not => Vjp::NoGradient,
        Opcode::And | Opcode::Or | Opcode::Xor => Vjp::NoGradient,
        Opcode::ShiftLeft | Opcode::ShiftRightLogical => Vjp::NoGradient,

        Opcode::BitcastConvert => Vjp::Unsupported("a bit pattern has no derivative"),
        Opcode::While => Vjp::Unsupported("a loop needs a backward loop written by hand"),
        Opcode::CustomCall => Vjp::Unsupported("the derivative of a custom call is unknown"),
    }
}
