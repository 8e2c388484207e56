use std::collections::BTreeSet;

use crate::{
    base::Shape,
    hlo::{Attrs, CompId, Computation, Instr, InstrId, ModuleBuilder, OpMetadata, Opcode, OpcodeClass},
};

/// Which values of the primal computation are residuals of the backward one. The others are computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavePolicy {
    /// No values but the parameters.
    Nothing,
    /// The results of contractions, and of calls and loops that contain one.
    Dots,
    /// All values that the backward computation reads, except copies in another layout and values without a derivative.
    Everything,
}

/// The cost of computing a value again.
#[derive(PartialEq, Eq)]
enum RecomputeCost {
    /// A copy, if any.
    Layout,
    /// Some operations for each element.
    Elementwise,
    /// A contraction, or a computation that may contain one.
    Contraction,
}

impl SavePolicy {
    /// Whether the value of `instr` is a residual.
    pub(super) fn saves(self, module: &ModuleBuilder, instr: &Instr) -> bool {
        match self {
            Self::Nothing => false,
            Self::Dots => cost(module, instr) == RecomputeCost::Contraction,
            Self::Everything => instr.shape.holds_float() && cost(module, instr) != RecomputeCost::Layout,
        }
    }
}

fn cost(module: &ModuleBuilder, instr: &Instr) -> RecomputeCost {
    match instr.opcode.class() {
        OpcodeClass::Leaf | OpcodeClass::Conversion | OpcodeClass::DataMovement | OpcodeClass::Tuple => {
            RecomputeCost::Layout
        }
        OpcodeClass::ElementwiseUnary
        | OpcodeClass::ElementwiseBinary
        | OpcodeClass::ElementwiseTernary
        | OpcodeClass::Reduction
        | OpcodeClass::Indexing => RecomputeCost::Elementwise,
        OpcodeClass::Contraction | OpcodeClass::CustomCall => RecomputeCost::Contraction,
        OpcodeClass::ControlFlow => match instr.attrs {
            Attrs::Call(callee) if !has_contraction(module, callee) => RecomputeCost::Elementwise,
            _ => RecomputeCost::Contraction,
        },
    }
}

/// Whether a computation, or one that it calls, may contain a contraction.
fn has_contraction(module: &ModuleBuilder, computation: CompId) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([computation]), vec![computation]);
    while let Some(id) = next.pop() {
        for instr in module.get(id).instrs {
            match (instr.opcode.class(), &instr.attrs) {
                (_, &Attrs::Call(callee)) => next.extend(seen.insert(callee).then_some(callee)),
                (OpcodeClass::Contraction | OpcodeClass::CustomCall | OpcodeClass::ControlFlow, _) => {
                    return true;
                }
                _ => {}
            }
        }
    }
    false
}

/// Adds the computation that returns a tuple of the result of `primal` and its values `residuals`.
pub fn forward_with_residuals(module: &ModuleBuilder, primal: CompId, residuals: &[InstrId]) -> CompId {
    let Computation { name, mut instrs, root } = module.get(primal);
    let results: Vec<InstrId> = [root].iter().chain(residuals).copied().collect();
    let shape = Shape::Tuple(results.iter().map(|id| instrs[id.index()].shape.clone()).collect());
    let root = InstrId::new(instrs.len());
    instrs.push(Instr::new(
        format!("residuals.{}", root.index()),
        Opcode::Tuple,
        shape,
        results,
        Attrs::Plain,
    ));
    let id = module.push(Computation { name: format!("{name}.with_residuals"), instrs, root });
    module.copy_side_tables(primal, id);
    module.set_metadata(id, root, OpMetadata::default().nested("residuals"));
    id
}
