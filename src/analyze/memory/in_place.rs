//! Which operands an instruction overwrites with its result, and which it may.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::leaves::LeafTable;
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode, ShapeId};

/// Maximum nesting of fusions that is followed.
const MAX_NESTED_FUSIONS: usize = 8;

/// Maximum number of tuples and bitcasts between two instructions that is followed.
const MAX_INDIRECTIONS: usize = 64;

/// A leaf of the result that is written into the memory of a leaf of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InPlace {
    pub operand: usize,
    pub operand_leaf: usize,
    pub result_leaf: usize,
}

/// An output and an input that share memory, as text has them: `{0}: (2, {1}, may-alias)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    pub output: Vec<usize>,
    pub input: usize,
    pub input_path: Vec<usize>,
}

/// The pairs of `input_output_alias` or `output_to_operand_aliasing`.
pub(super) fn aliases(text: &str) -> Vec<Alias> {
    let indices = |path: &str| path.split(',').filter_map(|index| index.trim().parse().ok()).collect();
    let mut found = Vec::new();
    // Each pair has one parenthesis, and in front of it one path.
    let mut parts = text.split('(');
    let mut before = parts.next().unwrap_or_default();
    for part in parts {
        let output = before.rsplit_once('}').and_then(|(path, _)| path.rsplit_once('{'));
        let input = part.split_once(',').and_then(|(input, rest)| {
            let (_, path) = rest.split_once('{')?;
            Some((input.trim().parse().ok()?, path.split_once('}')?.0))
        });
        if let (Some((_, output)), Some((input, input_path))) = (output, input) {
            found.push(Alias { output: indices(output), input, input_path: indices(input_path) });
        }
        before = part;
    }
    found
}

/// The rules by which instructions write in place, for one module.
pub(super) struct Rules<'m> {
    module: &'m Module,
    pub leaves: LeafTable<'m>,
    /// Of fused computations.
    fused: FxHashMap<CompId, Rc<[InPlace]>>,
    /// Of fused computations: the parameters that reach the root through elementwise instructions alone.
    elementwise: FxHashMap<CompId, Rc<[usize]>>,
}

impl<'m> Rules<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        let leaves = LeafTable::new(module);
        Self { module, leaves, fused: FxHashMap::default(), elementwise: FxHashMap::default() }
    }

    /// The position of the leaf, or of the first leaf, at a path of tuple indices.
    pub(super) fn leaf(&mut self, shape: ShapeId, path: &[usize]) -> Option<usize> {
        let Some((&first, rest)) = path.split_first() else { return Some(0) };
        let start = self.leaves.of(shape).element(first)?.start;
        let crate::hlo::raw::Shape::Tuple(elements) = self.module.shapes().get(shape) else { return None };
        Some(start + self.leaf(*elements.get(first)?, rest)?)
    }

    /// The leaves of the result that an instruction writes into operands: those of an update, of a fusion that ends in one, and
    /// those that the text declares.
    pub(super) fn in_place(&mut self, instr: InstrRef<'m>) -> Rc<[InPlace]> {
        self.nested(instr, 0)
    }

    fn nested(&mut self, instr: InstrRef<'m>, depth: usize) -> Rc<[InPlace]> {
        let opcode = match (instr.opcode(), instr.wrapped()) {
            (Opcode::AsyncStart, Some(wrapped)) => wrapped,
            (opcode, _) => opcode,
        };
        let mut found = match opcode {
            Opcode::DynamicUpdateSlice | Opcode::SetDimensionSize => self.pairs(instr, 0..1),
            Opcode::Scatter => self.pairs(instr, 0..instr.operands().len() / 2),
            Opcode::AllReduceStart => self.pairs(instr, 0..instr.operands().len()),
            Opcode::RaggedAllToAll => vec![InPlace { operand: 1, operand_leaf: 0, result_leaf: 0 }],
            Opcode::Fusion => self.fusion(instr, depth).to_vec(),
            _ => vec![],
        };
        if instr.opcode() == Opcode::AsyncStart {
            // The result of what runs is the second element of the tuple.
            let start = self.leaves.of(instr.shape()).element(1).map_or(0, |result| result.start);
            found.iter_mut().for_each(|pair| pair.result_leaf += start);
        }
        if let Some(text) = instr.attr(AttrName::OutputToOperandAliasing) {
            for alias in aliases(text) {
                let operand = instr.operand(alias.input).map(InstrRef::shape);
                let operand_leaf = operand.and_then(|shape| self.leaf(shape, &alias.input_path));
                if let (Some(operand_leaf), Some(result_leaf)) =
                    (operand_leaf, self.leaf(instr.shape(), &alias.output))
                {
                    found.push(InPlace { operand: alias.input, operand_leaf, result_leaf });
                }
            }
        }
        found.into()
    }

    /// Each of some operands with the element of the result in the same position.
    fn pairs(&mut self, instr: InstrRef<'m>, operands: std::ops::Range<usize>) -> Vec<InPlace> {
        let leaves = self.leaves.of(instr.shape());
        let result = |position| leaves.element(position).map_or(0, |element| element.start);
        operands.map(|operand| InPlace { operand, operand_leaf: 0, result_leaf: result(operand) }).collect()
    }

    fn fusion(&mut self, instr: InstrRef<'m>, depth: usize) -> Rc<[InPlace]> {
        let Some(fused) = instr.called(AttrName::Calls).next().filter(|_| depth < MAX_NESTED_FUSIONS) else {
            return Rc::new([]);
        };
        if let Some(known) = self.fused.get(&fused) {
            return known.clone();
        }
        let root = self.module.instruction(fused, self.module.root(fused));
        let mut found = Vec::new();
        for leaf in 0..self.leaves.of(root.shape()).list.len() {
            let (source, at) = self.source(root, leaf);
            let Some(pair) =
                self.nested(source, depth + 1).iter().copied().find(|pair| pair.result_leaf == at)
            else {
                continue;
            };
            if let Some((operand, operand_leaf)) = self.parameter(source, pair, depth) {
                found.push(InPlace { operand, operand_leaf, result_leaf: leaf });
            }
        }
        let found: Rc<[InPlace]> = found.into();
        self.fused.insert(fused, found.clone());
        found
    }

    /// The parameter of a fused computation whose memory an operand is, also through fusions that write in place.
    fn parameter(&mut self, instr: InstrRef<'m>, pair: InPlace, depth: usize) -> Option<(usize, usize)> {
        let (source, leaf) = self.source(instr.operand(pair.operand)?, pair.operand_leaf);
        match source.opcode() {
            Opcode::Parameter => Some((source.payload().parse().ok()?, leaf)),
            Opcode::Fusion if depth < MAX_NESTED_FUSIONS => {
                let pairs = self.nested(source, depth + 1);
                let pair = pairs.iter().copied().find(|pair| pair.result_leaf == leaf)?;
                self.parameter(source, pair, depth + 1)
            }
            _ => None,
        }
    }

    /// The instruction that makes a leaf of the value of another, through tuples and bitcasts.
    fn source(&mut self, instr: InstrRef<'m>, leaf: usize) -> (InstrRef<'m>, usize) {
        let (mut instr, mut leaf) = (instr, leaf);
        for _ in 0..MAX_INDIRECTIONS {
            let next = match instr.opcode() {
                Opcode::Bitcast => instr.operand(0).map(|operand| (operand, leaf)),
                Opcode::GetTupleElement => instr.operand(0).and_then(|operand| {
                    let index = usize::try_from(instr.int(AttrName::Index)?).ok()?;
                    let start = self.leaves.of(operand.shape()).element(index)?.start;
                    Some((operand, start + leaf))
                }),
                Opcode::Tuple => {
                    let leaves = self.leaves.of(instr.shape());
                    leaves.element_at(leaf).and_then(|(index, leaf)| Some((instr.operand(index)?, leaf)))
                }
                _ => None,
            };
            match next {
                Some(next) => (instr, leaf) = next,
                None => break,
            }
        }
        (instr, leaf)
    }

    /// The operands in whose memory an instruction may write its result if nothing reads them afterward, since it reads each
    /// element before it writes the one in the same place.
    pub(super) fn reusable(&mut self, instr: InstrRef<'m>) -> Rc<[usize]> {
        match instr.opcode() {
            Opcode::Fusion if instr.attr(AttrName::Kind) == Some("kLoop") => {
                let fused = instr.called(AttrName::Calls).next();
                fused.map_or_else(|| [].into(), |fused| self.streamed(fused))
            }
            opcode if is_elementwise(opcode) => (0..instr.operands().len()).collect(),
            _ => Rc::new([]),
        }
    }

    /// The parameters of a fused computation all of whose paths to the root are elementwise.
    fn streamed(&mut self, fused: CompId) -> Rc<[usize]> {
        if let Some(known) = self.elementwise.get(&fused) {
            return known.clone();
        }
        let count = self.module.instructions(fused).len();
        let mut moved = vec![false; count];
        let mut parameters = Vec::new();
        for (index, instr) in self.module.instructions(fused).enumerate().rev() {
            if instr.opcode() == Opcode::Parameter && !moved[index] {
                parameters.extend(instr.payload().parse::<usize>());
            }
            let keeps =
                matches!(instr.opcode(), Opcode::Tuple | Opcode::Bitcast) || is_elementwise(instr.opcode());
            for operand in instr.operands() {
                moved[operand.index()] |= moved[index] || !keeps;
            }
        }
        let parameters: Rc<[usize]> = parameters.into();
        self.elementwise.insert(fused, parameters.clone());
        parameters
    }
}

/// Whether each element of the result depends on the elements of the operands in the same place only.
fn is_elementwise(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Abs
            | O::Acos
            | O::Acosh
            | O::Add
            | O::And
            | O::Asin
            | O::Asinh
            | O::Atan2
            | O::Atanh
            | O::BitcastConvert
            | O::Cbrt
            | O::Ceil
            | O::Clamp
            | O::Compare
            | O::Complex
            | O::Convert
            | O::Cosine
            | O::Cosh
            | O::CountLeadingZeros
            | O::Divide
            | O::Erf
            | O::Exponential
            | O::ExponentialMinusOne
            | O::Floor
            | O::Imag
            | O::IsFinite
            | O::Log
            | O::LogPlusOne
            | O::Logistic
            | O::Map
            | O::Maximum
            | O::Minimum
            | O::Multiply
            | O::Negate
            | O::Not
            | O::Or
            | O::Popcnt
            | O::Power
            | O::Real
            | O::ReducePrecision
            | O::Remainder
            | O::RoundNearestAfz
            | O::RoundNearestEven
            | O::Rsqrt
            | O::Select
            | O::ShiftLeft
            | O::ShiftRightArithmetic
            | O::ShiftRightLogical
            | O::Sign
            | O::Sine
            | O::Sinh
            | O::Sqrt
            | O::StochasticConvert
            | O::Subtract
            | O::Tan
            | O::Tanh
            | O::Xor
    )
}
