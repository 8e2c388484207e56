//! What is differentiated; the files are those of the rules.

mod calls;
mod contraction;
mod elementwise;
mod indexing;
mod layout;

use hloom::{
    base::{ArrayShape, DType, Literal},
    hlo::{Attrs, DotDims, Opcode, Value},
};

use super::Inputs;

/// A computation that is checked for the sake of one opcode.
pub struct Case {
    pub opcode: Opcode,
    pub what: String,
    pub define: Define,
}

type Define = Box<dyn for<'b> FnOnce(&Inputs<'b>) -> Value<'b>>;

pub fn cases() -> Vec<Case> {
    [
        leaves(),
        elementwise::unary(),
        elementwise::binary(),
        elementwise::piecewise_constant(),
        elementwise::choices(),
        elementwise::conversions(),
        layout::layout(),
        layout::windows(),
        contraction::reductions(),
        contraction::dots(),
        contraction::all_dot_orders(),
        indexing::dynamic(),
        indexing::gathers(),
        indexing::scatters(),
        calls::tuples(),
        calls::calls(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn case(
    opcode: Opcode,
    what: impl Into<String>,
    define: impl for<'b> FnOnce(&Inputs<'b>) -> Value<'b> + 'static,
) -> Case {
    Case { opcode, what: what.into(), define: Box::new(define) }
}

/// Contracts one dimension of each side.
pub fn contract(lhs: usize, rhs: usize) -> DotDims {
    DotDims { lhs_contracting: vec![lhs], rhs_contracting: vec![rhs], ..DotDims::default() }
}

fn plain<'b>(opcode: Opcode, operands: &[Value<'b>]) -> Value<'b> {
    operands[0].builder().push(opcode, operands, Attrs::Plain, None)
}

fn leaves() -> Vec<Case> {
    vec![
        case(Opcode::Parameter, "as the result", |i| i.any(&[3])),
        case(Opcode::Parameter, "used three times", |i| {
            let x = i.any(&[3]);
            x * x + x
        }),
        case(Opcode::Constant, "", |i| {
            i.any(&[2]) * i.b.constant(Literal::from_f64s(ArrayShape::new(DType::F64, [2]), [3.0, -0.5]))
        }),
        case(Opcode::Iota, "", |i| i.any(&[2, 3]) * i.b.iota(ArrayShape::new(DType::F64, [2, 3]), 1)),
    ]
}
