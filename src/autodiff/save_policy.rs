use std::collections::BTreeSet;

use crate::{
    base::Shape,
    hlo::{Attrs, CompId, Computation, Instr, InstrId, ModuleBuilder, Opcode},
};

/// Which values of the primal computation a backward one takes over, instead of computing them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavePolicy {
    /// None but the parameters.
    Nothing,
    /// The results of contractions, and of whatever contains one.
    Dots,
    /// All that it needs, save what is only laid out anew or has no derivative.
    Everything,
}

/// What it costs to compute a value again.
#[derive(PartialEq, Eq)]
enum Cost {
    /// Moving numbers about.
    Layout,
    /// Some operations for each element.
    Elements,
    /// A contraction, or what may hold one.
    Contraction,
}

impl SavePolicy {
    /// Whether the value of `instr` is taken over.
    pub(super) fn saves(self, module: &ModuleBuilder, instr: &Instr) -> bool {
        match self {
            Self::Nothing => false,
            Self::Dots => cost(module, instr) == Cost::Contraction,
            Self::Everything => instr.shape.holds_float() && cost(module, instr) != Cost::Layout,
        }
    }
}

fn cost(module: &ModuleBuilder, instr: &Instr) -> Cost {
    match instr.opcode {
        Opcode::Parameter
        | Opcode::Constant
        | Opcode::Iota
        | Opcode::Broadcast
        | Opcode::Reshape
        | Opcode::Transpose
        | Opcode::Reverse
        | Opcode::Concatenate
        | Opcode::Slice
        | Opcode::DynamicSlice
        | Opcode::DynamicUpdateSlice
        | Opcode::Pad
        | Opcode::Convert
        | Opcode::BitcastConvert
        | Opcode::Tuple
        | Opcode::GetTupleElement
        | Opcode::OptimizationBarrier => Cost::Layout,

        Opcode::Abs
        | Opcode::Ceil
        | Opcode::Cosine
        | Opcode::Exponential
        | Opcode::ExponentialMinusOne
        | Opcode::Floor
        | Opcode::Log
        | Opcode::LogPlusOne
        | Opcode::Logistic
        | Opcode::Negate
        | Opcode::Not
        | Opcode::RoundNearestEven
        | Opcode::Rsqrt
        | Opcode::Sign
        | Opcode::Sine
        | Opcode::Sqrt
        | Opcode::Tanh
        | Opcode::IsFinite
        | Opcode::Add
        | Opcode::Divide
        | Opcode::Maximum
        | Opcode::Minimum
        | Opcode::Multiply
        | Opcode::Power
        | Opcode::Remainder
        | Opcode::Subtract
        | Opcode::And
        | Opcode::Or
        | Opcode::Xor
        | Opcode::ShiftLeft
        | Opcode::ShiftRightLogical
        | Opcode::Compare
        | Opcode::Select
        | Opcode::Clamp
        | Opcode::Reduce
        | Opcode::Gather
        | Opcode::Scatter => Cost::Elements,

        Opcode::Call => match instr.attrs {
            Attrs::Call(callee) if !contracts(module, callee) => Cost::Elements,
            _ => Cost::Contraction,
        },
        Opcode::Dot | Opcode::While | Opcode::CustomCall => Cost::Contraction,
    }
}

/// Adds the computation that gives, besides what `primal` gives, the values `residuals` of it: a tuple of one more.
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
    module.copy_annotations(primal, id);
    id
}

/// Whether a computation, or one that it calls, holds a contraction.
fn contracts(module: &ModuleBuilder, computation: CompId) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([computation]), vec![computation]);
    while let Some(id) = next.pop() {
        for instr in module.get(id).instrs {
            match (instr.opcode, &instr.attrs) {
                (Opcode::Call, &Attrs::Call(callee)) => next.extend(seen.insert(callee).then_some(callee)),
                (Opcode::Call | Opcode::Dot | Opcode::While | Opcode::CustomCall, _) => return true,
                _ => {}
            }
        }
    }
    false
}
