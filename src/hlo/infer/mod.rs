//! Shape inference. The builder, the parser and the verifier share it, so that they cannot disagree.
//!
//! The rules are those of XLA's operation semantics and `shape_inference.cc`.

mod calls;
mod checks;
mod contraction;
mod elementwise;
mod indexing;
mod layout;

use super::{Attrs, CompId, Computation, Opcode, OpcodeClass};
use crate::base::{ArrayShape, Diagnostic, Shape};

/// Arrays and tuples in one value. Tuples of tuples would otherwise grow without bound.
const MAX_SUBSHAPES: usize = 1 << 16;

/// Infers the result shape of `opcode` applied to operands of the shapes `operands`.
///
/// Some result shapes do not follow from the operands (those of parameters, `convert`, `reshape` and others): for these
/// `declared` is the result shape, which is checked against the operands. `computations` are those that `attrs` may
/// refer to.
///
/// # Errors
/// The rule of the opcode that operands, attributes or the declared shape violate, without a location.
pub fn infer(
    opcode: Opcode,
    operands: &[&Shape],
    attrs: &Attrs,
    declared: Option<&Shape>,
    computations: &[Computation],
) -> Result<Shape, Diagnostic> {
    let (expected, found) = (opcode.attrs_kind(), attrs.attrs_kind());
    if expected != found {
        return Err(format!("expected attributes of kind {expected:?} for {opcode}, found {found:?}").into());
    }
    if let Some(arity) = opcode.arity() {
        checks::len("operands", operands.len(), arity)?;
    }
    let op = Operation { opcode, operands, attrs, declared, computations };
    match opcode.class() {
        OpcodeClass::ElementwiseUnary
        | OpcodeClass::ElementwiseBinary
        | OpcodeClass::ElementwiseTernary
        | OpcodeClass::Conversion => elementwise::infer(&op),
        OpcodeClass::DataMovement => layout::infer(&op),
        OpcodeClass::Reduction | OpcodeClass::Contraction => contraction::infer(&op),
        OpcodeClass::Indexing => indexing::infer(&op),
        OpcodeClass::Leaf | OpcodeClass::Tuple | OpcodeClass::ControlFlow | OpcodeClass::CustomCall => {
            calls::infer(&op)
        }
    }
}

/// An instruction whose result shape is to be inferred.
struct Operation<'a> {
    opcode: Opcode,
    operands: &'a [&'a Shape],
    attrs: &'a Attrs,
    declared: Option<&'a Shape>,
    computations: &'a [Computation],
}

impl<'a> Operation<'a> {
    /// The shape of an operand, which must be an array.
    fn array(&self, index: usize) -> Result<&'a ArrayShape, Diagnostic> {
        let shape = self.operands.get(index).ok_or_else(|| format!("missing operand {index}"))?;
        checks::array(shape)
    }

    /// The declared result shape.
    fn declared(&self) -> Result<Shape, Diagnostic> {
        self.declared.cloned().ok_or_else(|| format!("missing result shape of {}", self.opcode).into())
    }

    /// A computation that the attributes refer to.
    fn callee(&self, id: CompId) -> Result<&'a Computation, Diagnostic> {
        let callee = self.computations.get(id.index());
        callee.ok_or_else(|| format!("computation {id:?} is not defined before its use").into())
    }

    /// The error of an opcode of the wrong family, which the table of opcodes rules out.
    fn no_rule(&self) -> Diagnostic {
        format!("no shape rule for {}", self.opcode).into()
    }
}

/// The error of an instruction whose shape is not the one that follows from its operands.
pub(super) fn shape_error(expected: &Shape, found: &Shape) -> Diagnostic {
    format!("expected shape {expected} from the operands, found {found}").into()
}
