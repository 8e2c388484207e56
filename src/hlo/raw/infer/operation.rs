//! What the shape of an instruction follows from.

use crate::hlo::raw::{
    attr::AttrName,
    module::Computation,
    opcode::Opcode,
    shape::{ShapeId, ShapeTable},
    span::Span,
};

/// What the shape of an instruction follows from.
pub(crate) struct Operation<'a> {
    pub opcode: Opcode,
    pub operands: &'a [ShapeId],
    /// The text of an attribute.
    pub attr: &'a dyn Fn(AttrName) -> Option<&'a str>,
    /// The called computations, with the attributes that name them.
    pub called: &'a [(AttrName, &'a Computation)],
    /// The number that is the payload of a parameter.
    pub parameter_number: &'a dyn Fn(Span) -> Option<usize>,
}

impl Operation<'_> {
    /// The result of the first called computation.
    pub(super) fn result(&self) -> Option<ShapeId> {
        self.called.first().map(|(_, computation)| computation.result())
    }

    /// The result of a called computation, if it takes these arguments.
    pub(super) fn result_for(
        &self,
        computation: &Computation,
        arguments: &[ShapeId],
        shapes: &ShapeTable,
    ) -> Option<ShapeId> {
        let parameters = computation.instrs.iter().filter(|instr| instr.opcode == Opcode::Parameter);
        let mut count = 0;
        for parameter in parameters {
            let argument = *arguments.get((self.parameter_number)(parameter.payload)?)?;
            if !shapes.compatible(parameter.shape, argument) {
                return None;
            }
            count += 1;
        }
        (count == arguments.len()).then(|| computation.result())
    }
}
