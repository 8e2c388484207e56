//! The operation of each opcode.

use super::{literal::dense, syntax::list};
use crate::{
    base::{DType, Shape},
    hlo::{Attrs, DotDims, Instr, Opcode, PadDim, SliceDim},
};

/// The form of an instruction.
pub(super) enum Form {
    /// No operation: the value is that of operands, or of an argument.
    Value,
    /// An operation on one line.
    Line(Line),
    /// A constant.
    Constant(String),
    /// An operation with a form of its own, which its attributes decide.
    Own,
}

/// `stablehlo.NAME BEFORE operands AFTER : TYPES`
pub(super) struct Line {
    pub name: &'static str,
    pub before: String,
    pub after: String,
    pub types: Types,
}

/// The types that an operation states.
pub(super) enum Types {
    /// That of the result, which is that of every operand.
    Result,
    /// Those of the operands and of the result, as of a function.
    Function,
    /// That of the predicate and that of the values, of `select`.
    Select,
}

/// The form of an instruction whose operands have these shapes.
pub(super) fn form(instr: &Instr, operands: &[&Shape]) -> Form {
    let elementwise = |name| Form::Line(Line::new(name, Types::Result));
    let typed = |name| Form::Line(Line { after: after(instr), ..Line::new(name, Types::Function) });
    match instr.opcode {
        Opcode::Parameter | Opcode::Tuple | Opcode::GetTupleElement => Form::Value,
        Opcode::Constant => match &instr.attrs {
            Attrs::Constant(literal) => Form::Constant(dense(literal)),
            _ => Form::Value,
        },
        Opcode::Iota => Form::Line(Line { after: after(instr), ..Line::new("iota", Types::Result) }),
        Opcode::Abs => elementwise("abs"),
        Opcode::Ceil => elementwise("ceil"),
        Opcode::Cosine => elementwise("cosine"),
        Opcode::Exponential => elementwise("exponential"),
        Opcode::ExponentialMinusOne => elementwise("exponential_minus_one"),
        Opcode::Floor => elementwise("floor"),
        Opcode::Log => elementwise("log"),
        Opcode::LogPlusOne => elementwise("log_plus_one"),
        Opcode::Logistic => elementwise("logistic"),
        Opcode::Negate => elementwise("negate"),
        Opcode::Not => elementwise("not"),
        Opcode::RoundNearestEven => elementwise("round_nearest_even"),
        Opcode::Rsqrt => elementwise("rsqrt"),
        Opcode::Sign => elementwise("sign"),
        Opcode::Sine => elementwise("sine"),
        Opcode::Sqrt => elementwise("sqrt"),
        Opcode::Tanh => elementwise("tanh"),
        Opcode::IsFinite => typed("is_finite"),
        Opcode::Convert => typed("convert"),
        Opcode::BitcastConvert => typed(bitcast(operands, &instr.shape)),
        Opcode::Add => elementwise("add"),
        Opcode::Divide => elementwise("divide"),
        Opcode::Maximum => elementwise("maximum"),
        Opcode::Minimum => elementwise("minimum"),
        Opcode::Multiply => elementwise("multiply"),
        Opcode::Power => elementwise("power"),
        Opcode::Remainder => elementwise("remainder"),
        Opcode::Subtract => elementwise("subtract"),
        Opcode::And => elementwise("and"),
        Opcode::Or => elementwise("or"),
        Opcode::Xor => elementwise("xor"),
        Opcode::ShiftLeft => elementwise("shift_left"),
        Opcode::ShiftRightLogical => elementwise("shift_right_logical"),
        Opcode::Compare => Form::Line(compare(instr, operands)),
        Opcode::Select => Form::Line(Line::new("select", Types::Select)),
        Opcode::Clamp => typed("clamp"),
        Opcode::Broadcast => typed("broadcast_in_dim"),
        Opcode::Reshape => typed("reshape"),
        Opcode::Transpose => typed("transpose"),
        Opcode::Reverse => Form::Line(Line { after: after(instr), ..Line::new("reverse", Types::Result) }),
        Opcode::Concatenate => typed("concatenate"),
        Opcode::Slice => typed("slice"),
        Opcode::DynamicSlice => typed("dynamic_slice"),
        Opcode::DynamicUpdateSlice => typed("dynamic_update_slice"),
        Opcode::Pad => typed("pad"),
        Opcode::Dot => typed("dot_general"),
        Opcode::Reduce
        | Opcode::Gather
        | Opcode::Scatter
        | Opcode::Call
        | Opcode::While
        | Opcode::CustomCall
        | Opcode::OptimizationBarrier => Form::Own,
    }
}

impl Line {
    fn new(name: &'static str, types: Types) -> Self {
        Self { name, before: String::new(), after: String::new(), types }
    }
}

/// The name of an operation that combines two values of one type in any order, in the compact form of `reduce`.
pub(super) fn commutative(opcode: Opcode) -> Option<&'static str> {
    match opcode {
        Opcode::Add => Some("add"),
        Opcode::Multiply => Some("multiply"),
        Opcode::Maximum => Some("maximum"),
        Opcode::Minimum => Some("minimum"),
        Opcode::And => Some("and"),
        Opcode::Or => Some("or"),
        Opcode::Xor => Some("xor"),
        _ => None,
    }
}

/// A boolean is one bit in StableHLO, and a byte of zero or one in HLO.
fn bitcast(operands: &[&Shape], result: &Shape) -> &'static str {
    let is_pred = |shape: &Shape| shape.as_array().is_some_and(|array| array.dtype == DType::Pred);
    if is_pred(result) != operands.iter().any(|operand| is_pred(operand)) {
        "convert"
    } else {
        "bitcast_convert"
    }
}

fn compare(instr: &Instr, operands: &[&Shape]) -> Line {
    let dtype = operands.first().and_then(|shape| shape.as_array()).map_or(DType::F32, |array| array.dtype);
    let order = if dtype.is_float() {
        "FLOAT"
    } else if dtype.is_signed() {
        "SIGNED"
    } else {
        "UNSIGNED"
    };
    let before = match instr.attrs {
        Attrs::Compare(direction) => format!("{direction}, "),
        _ => String::new(),
    };
    Line { before, after: format!(", {order}"), ..Line::new("compare", Types::Function) }
}

/// The attributes between operands and types.
fn after(instr: &Instr) -> String {
    match &instr.attrs {
        Attrs::Iota(dim) => format!("dim = {dim}"),
        Attrs::Dims(dims) if instr.opcode == Opcode::Concatenate => {
            format!(", dim = {}", dims.first().copied().unwrap_or_default())
        }
        Attrs::Dims(dims) => format!(", dims = {}", list(dims)),
        Attrs::Dot(DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting }) => {
            let batching = match lhs_batch.is_empty() {
                true => String::new(),
                false => format!(", batching_dims = {} x {}", list(lhs_batch), list(rhs_batch)),
            };
            format!("{batching}, contracting_dims = {} x {}", list(lhs_contracting), list(rhs_contracting))
        }
        Attrs::Slice(ranges) => {
            let range = |&SliceDim { start, limit, stride }: &SliceDim| match stride {
                1 => format!("{start}:{limit}"),
                _ => format!("{start}:{limit}:{stride}"),
            };
            format!(" {}", list(ranges.iter().map(range)))
        }
        Attrs::DynamicSlice(sizes) => format!(", sizes = {}", list(sizes)),
        Attrs::Pad(edges) => {
            let each = |value: fn(&PadDim) -> i64| list(edges.iter().map(value));
            let (low, high) = (each(|edge| edge.low), each(|edge| edge.high));
            let interior = list(edges.iter().map(|edge| edge.interior));
            format!(", low = {low}, high = {high}, interior = {interior}")
        }
        Attrs::Plain
        | Attrs::Parameter(_)
        | Attrs::Constant(_)
        | Attrs::Compare(_)
        | Attrs::Reduce { .. }
        | Attrs::Gather(_)
        | Attrs::Scatter { .. }
        | Attrs::Call(_)
        | Attrs::While { .. }
        | Attrs::TupleIndex(_)
        | Attrs::CustomCall(_) => String::new(),
    }
}
