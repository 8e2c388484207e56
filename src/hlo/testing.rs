//! Random modules for property tests: small, well typed, and with every opcode of the table.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};

use super::{
    Alias, Annotations, Attrs, CompId, ComparisonDirection, Computation, CustomCall, DotDims, GatherDims,
    Instr, InstrId, MetadataTable, Module, OpMetadata, Opcode, PadDim, ScatterDims, ShapeRule, Sharding,
    SideEffect, SliceDim, TileAssignment, Verified, infer, verify,
};
use crate::base::{ArrayShape, DType, Literal, Shape};

/// Modules of up to 24 instructions, apart from the parameters that these need and the tuple of all values.
pub(crate) fn modules() -> impl Strategy<Value = Verified> {
    vec((select(Opcode::ALL), any::<u64>()), 1..24).prop_map(|steps| module(&steps))
}

/// A module with one instruction for each step, its details drawn from the seed of the step.
pub(crate) fn module(steps: &[(Opcode, u64)]) -> Verified {
    let mut grower = Grower::default();
    for &(opcode, seed) in steps {
        let mut draw = Draw(seed);
        grower.grow(opcode, &mut draw);
        if let Some(instr) = grower.instrs.last_mut() {
            annotate(instr, &mut draw);
            let metadata = metadata(&mut draw);
            grower.metadata.push((InstrId::new(grower.instrs.len() - 1), metadata));
        }
    }
    grower.finish()
}

/// Gives one instruction in three a sharding, and one in three a frontend attribute.
fn annotate(instr: &mut Instr, draw: &mut Draw) {
    if draw.below(3) == 0 {
        instr.sharding = Some(sharding(&instr.shape, draw));
    }
    if draw.below(3) == 0 {
        let value = FRONTEND_VALUES[draw.below(FRONTEND_VALUES.len())];
        instr.frontend_attributes.insert("_xla.key-1".into(), value.into());
    }
}

/// No metadata, or some of its fields.
fn metadata(draw: &mut Draw) -> OpMetadata {
    let mut text = || FRONTEND_VALUES[draw.below(FRONTEND_VALUES.len())].into();
    let (op_type, op_name, source_file) = (text(), text(), text());
    let source_line = [0, 0, 1, i32::MAX as u32][draw.below(4)];
    OpMetadata { op_type, op_name, source_file, source_line }
}

const FRONTEND_VALUES: &[&str] =
    &["", "device", "{mesh = <[\"a\"=2]>}", "{\"}// \\\"\"(}", "{} ", "{\n}", "{\"", "ä\n\"\\"];

fn sharding(shape: &Shape, draw: &mut Draw) -> Sharding {
    let array = match shape {
        Shape::Array(array) => array,
        Shape::Tuple(elements) => {
            return Sharding::Tuple(elements.iter().map(|element| sharding(element, draw)).collect());
        }
    };
    match draw.below(4) {
        0 => Sharding::Maximal(draw.below(9)),
        1 => {
            let mut devices = vec![];
            (0..6).for_each(|device| devices.insert(draw.below(devices.len() + 1), device));
            let tiles = (0..array.rank()).map(|dim| if dim == 0 { 3 } else { 1 }).collect();
            let replicas = if array.rank() == 0 { 6 } else { 2 };
            Sharding::tiled(tiles, replicas, TileAssignment::Listed(devices)).unwrap()
        }
        _ => {
            let mut dims = vec![vec![]; array.rank()];
            for axis in 0..3 {
                if let Some(axes) = dims.get_mut(draw.below(array.rank() + 1)) {
                    axes.insert(draw.below(axes.len() + 1), axis);
                }
            }
            Sharding::on_mesh(&[2, 3, 4], &dims)
        }
    }
}

/// A source of small random numbers.
pub(super) struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn dtype(&mut self, accepts: impl Fn(DType) -> bool) -> DType {
        let accepted: Vec<DType> = DType::ALL.iter().copied().filter(|&t| accepts(t)).collect();
        accepted[self.below(accepted.len())]
    }

    /// One to three sizes of one to three.
    fn dims(&mut self) -> Vec<usize> {
        (0..=self.below(3)).map(|_| self.below(3) + 1).collect()
    }

    fn literal(&mut self) -> Literal {
        let rank = self.below(3);
        let shape =
            ArrayShape::new(self.dtype(|_| true), (0..rank).map(|_| self.below(4)).collect::<Vec<_>>());
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-30, 1.0 / 3.0];
        let values: Vec<f64> = (0..shape.elements())
            .map(|_| match self.below(12) {
                index if index < special.len() => special[index],
                other => other as f64 - 8.5,
            })
            .collect();
        Literal::from_f64s(shape, values)
    }
}

#[derive(Default)]
struct Grower {
    computations: Vec<Computation>,
    instrs: Vec<Instr>,
    metadata: Vec<(InstrId, OpMetadata)>,
    parameters: usize,
}

impl Grower {
    fn push(
        &mut self,
        opcode: Opcode,
        declared: Option<Shape>,
        operands: Vec<InstrId>,
        attrs: Attrs,
    ) -> InstrId {
        let shapes: Vec<&Shape> = operands.iter().map(|id| &self.instrs[id.index()].shape).collect();
        let shape = infer(opcode, &shapes, &attrs, declared.as_ref(), &self.computations)
            .unwrap_or_else(|error| panic!("the generator made an invalid {opcode}: {error}"));
        let index = self.instrs.len();
        // The first name is a keyword in HLO text.
        let name = if index == 0 { "true".to_owned() } else { format!("{opcode}.{index}") };
        self.instrs.push(Instr::new(name, opcode, shape, operands, attrs));
        InstrId::new(index)
    }

    /// An earlier value of this shape, else a new parameter, or a tuple of these.
    fn value(&mut self, draw: &mut Draw, shape: Shape) -> InstrId {
        let found: Vec<usize> = (0..self.instrs.len()).filter(|&i| self.instrs[i].shape == shape).collect();
        if !found.is_empty() {
            return InstrId::new(found[draw.below(found.len())]);
        }
        if let Shape::Tuple(elements) = shape {
            let elements = elements.into_iter().map(|element| self.value(draw, element)).collect();
            return self.push(Opcode::Tuple, None, elements, Attrs::Plain);
        }
        let number = self.parameters;
        self.parameters += 1;
        self.push(Opcode::Parameter, Some(shape), vec![], Attrs::Parameter(number))
    }

    fn values<const N: usize>(&mut self, draw: &mut Draw, shapes: [&Shape; N]) -> Vec<InstrId> {
        shapes.into_iter().map(|shape| self.value(draw, shape.clone())).collect()
    }

    /// A computation of `parameters` whose root is `opcode` of them, or the first parameter itself.
    fn callee(&mut self, parameters: &[Shape], root: Option<(Opcode, Attrs)>) -> CompId {
        let mut callee = Grower::default();
        for (number, shape) in parameters.iter().enumerate() {
            callee.push(Opcode::Parameter, Some(shape.clone()), vec![], Attrs::Parameter(number));
        }
        let root = match root {
            Some((opcode, attrs)) => {
                let operands = (0..opcode.arity().unwrap_or(0)).map(|i| InstrId::new(i % parameters.len()));
                callee.push(opcode, None, operands.collect(), attrs)
            }
            None => InstrId::new(0),
        };
        let name = format!("callee.{}", self.computations.len());
        self.computations.push(Computation { name, instrs: callee.instrs, root });
        CompId::new(self.computations.len() - 1)
    }

    fn reducer(&mut self, dtype: DType) -> CompId {
        let scalar = Shape::scalar(dtype);
        self.callee(&[scalar.clone(), scalar], Some((Opcode::Add, Attrs::Plain)))
    }

    fn grow(&mut self, opcode: Opcode, draw: &mut Draw) {
        let accepts: fn(DType) -> bool = match opcode.shape_rule() {
            ShapeRule::UnaryFloat => DType::is_float,
            ShapeRule::UnaryNumeric | ShapeRule::BinaryNumeric => |t| t != DType::Pred,
            ShapeRule::UnaryLogical | ShapeRule::BinaryLogical => |t| !t.is_float(),
            ShapeRule::BinaryAny => |_| true,
            ShapeRule::PerOpcode => return self.grow_own(opcode, draw),
        };
        let shape = Shape::array(draw.dtype(accepts), draw.dims());
        let operands = (0..opcode.arity().unwrap_or(0)).map(|_| self.value(draw, shape.clone())).collect();
        self.push(opcode, None, operands, Attrs::Plain);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each opcode with attributes")]
    fn grow_own(&mut self, opcode: Opcode, draw: &mut Draw) {
        let dtype = draw.dtype(|_| true);
        let dims = draw.dims();
        let (rank, axis) = (dims.len(), draw.below(dims.len()));
        let shape = Shape::array(dtype, dims.clone());
        let scalar = Shape::scalar(dtype);
        let index = Shape::scalar(DType::S32);
        let other = |dtype: DType| Shape::array(dtype, dims.clone());
        let (declared, operands, attrs) = match opcode {
            Opcode::Parameter => {
                self.parameters += 1;
                (Some(shape), vec![], Attrs::Parameter(self.parameters - 1))
            }
            Opcode::Constant => (None, vec![], Attrs::Constant(draw.literal())),
            Opcode::Iota => {
                let counting = if dtype == DType::Pred { other(DType::S32) } else { shape };
                (Some(counting), vec![], Attrs::Iota(axis))
            }
            Opcode::IsFinite => (None, self.values(draw, [&other(DType::BF16)]), Attrs::Plain),
            Opcode::Convert => (Some(other(DType::F64)), self.values(draw, [&shape]), Attrs::Plain),
            Opcode::BitcastConvert => {
                let to = draw.dtype(|t| t.bits() == dtype.bits());
                (Some(other(to)), self.values(draw, [&shape]), Attrs::Plain)
            }
            Opcode::Compare => {
                let comparison = ComparisonDirection::ALL[draw.below(ComparisonDirection::ALL.len())];
                (None, self.values(draw, [&shape, &shape]), Attrs::Compare(comparison))
            }
            Opcode::Select => (None, self.values(draw, [&other(DType::Pred), &shape, &shape]), Attrs::Plain),
            Opcode::Clamp => (None, self.values(draw, [&scalar, &shape, &scalar]), Attrs::Plain),
            Opcode::Broadcast => {
                let to = Shape::array(dtype, [&[2], dims.as_slice()].concat());
                (Some(to), self.values(draw, [&shape]), Attrs::Dims((1..=rank).collect()))
            }
            Opcode::Reshape => {
                let to = Shape::array(dtype, [dims.iter().product()]);
                (Some(to), self.values(draw, [&shape]), Attrs::Plain)
            }
            Opcode::Transpose => (None, self.values(draw, [&shape]), Attrs::Dims((0..rank).rev().collect())),
            Opcode::Reverse => (None, self.values(draw, [&shape]), Attrs::Dims(vec![axis])),
            Opcode::Concatenate => (None, self.values(draw, [&shape, &shape]), Attrs::Dims(vec![axis])),
            Opcode::Slice => {
                let stride = draw.below(2) + 1;
                let ranges = dims.iter().map(|&limit| SliceDim { start: limit / 2, limit, stride }).collect();
                (None, self.values(draw, [&shape]), Attrs::Slice(ranges))
            }
            Opcode::DynamicSlice => {
                let mut operands = self.values(draw, [&shape]);
                operands.extend(dims.iter().map(|_| self.value(draw, index.clone())));
                (None, operands, Attrs::DynamicSlice(vec![1; rank]))
            }
            Opcode::DynamicUpdateSlice => {
                let mut operands = self.values(draw, [&shape, &Shape::array(dtype, vec![1; rank])]);
                operands.extend(dims.iter().map(|_| self.value(draw, index.clone())));
                (None, operands, Attrs::Plain)
            }
            Opcode::Pad => {
                let interior = draw.below(2);
                let edge = PadDim { low: draw.below(3) as i64 - 1, high: 1, interior };
                (None, self.values(draw, [&shape, &scalar]), Attrs::Pad(vec![edge; rank]))
            }
            Opcode::Reduce => {
                let to_apply = self.reducer(dtype);
                (None, self.values(draw, [&shape, &scalar]), Attrs::Reduce { dims: vec![axis], to_apply })
            }
            Opcode::Dot => {
                let shape = Shape::array(dtype, [2, 3, draw.below(3) + 1]);
                let batch = vec![0; draw.below(2)];
                let dims = DotDims {
                    lhs_batch: batch.clone(),
                    rhs_batch: batch,
                    lhs_contracting: vec![1],
                    rhs_contracting: vec![1],
                };
                (None, self.values(draw, [&shape, &shape]), Attrs::Dot(dims))
            }
            Opcode::Gather => {
                let operands =
                    self.values(draw, [&Shape::array(dtype, [5, 3]), &Shape::array(DType::S32, [4, 1])]);
                let dims = GatherDims {
                    offset_dims: vec![1],
                    collapsed_slice_dims: vec![0],
                    start_index_map: vec![0],
                    index_vector_dim: 1,
                    slice_sizes: vec![1, 2],
                };
                (None, operands, Attrs::Gather(dims))
            }
            Opcode::Scatter => {
                let to_apply = self.reducer(dtype);
                let (x, updates) = (Shape::array(dtype, [5, 3]), Shape::array(dtype, [4, 2]));
                let operands = self.values(draw, [&x, &Shape::array(DType::S32, [4, 1]), &updates]);
                let dims = ScatterDims {
                    update_window_dims: vec![1],
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                };
                (None, operands, Attrs::Scatter { dims, to_apply })
            }
            Opcode::Tuple => (None, self.values(draw, [&shape, &scalar]), Attrs::Plain),
            Opcode::GetTupleElement => {
                let pair = Shape::Tuple(vec![shape, scalar]);
                (None, self.values(draw, [&pair]), Attrs::TupleIndex(draw.below(2)))
            }
            Opcode::Call => {
                let callee = self.callee(&[shape.clone(), scalar.clone()], None);
                (None, self.values(draw, [&shape, &scalar]), Attrs::Call(callee))
            }
            Opcode::While => {
                let less = Some((Opcode::Compare, Attrs::Compare(ComparisonDirection::Lt)));
                let condition = self.callee(std::slice::from_ref(&scalar), less);
                let body = self.callee(std::slice::from_ref(&scalar), None);
                (None, self.values(draw, [&scalar]), Attrs::While { condition, body })
            }
            Opcode::CustomCall => {
                let backend_config = ["", "{\"a\": 1}", "ä\n\"\\"][draw.below(3)].to_owned();
                let side_effect = [SideEffect::Absent, SideEffect::Present][draw.below(2)];
                let call = CustomCall { target: "target".into(), side_effect, backend_config };
                (Some(shape), self.values(draw, [&scalar]), Attrs::CustomCall(call))
            }
            Opcode::OptimizationBarrier => (None, self.values(draw, [&shape]), Attrs::Plain),
            _ => unreachable!("{opcode} has a shape rule of its own"),
        };
        self.push(opcode, declared, operands, attrs);
    }

    /// The module whose entry returns all values. Array parameters are alternately donated to themselves and in host
    /// memory.
    fn finish(mut self) -> Verified {
        let values = (0..self.instrs.len()).map(InstrId::new).collect();
        let root = self.push(Opcode::Tuple, None, values, Attrs::Plain);
        let (mut aliases, mut host_parameters) = (vec![], BTreeSet::new());
        for (output, instr) in self.instrs.iter().enumerate() {
            match instr.attrs {
                Attrs::Parameter(_) if instr.shape.as_array().is_none() => {}
                Attrs::Parameter(parameter) if parameter % 2 == 1 => drop(host_parameters.insert(parameter)),
                Attrs::Parameter(parameter) => aliases.push(Alias { output, parameter }),
                _ => {}
            }
        }
        let entry = CompId::new(self.computations.len());
        self.computations.push(Computation { name: "main".into(), instrs: self.instrs, root });
        let mut metadata = MetadataTable::default();
        self.metadata.into_iter().for_each(|(instr, found)| metadata.set(entry, instr, found));
        let frontend_attributes =
            [("key".to_owned(), FRONTEND_VALUES[self.parameters % FRONTEND_VALUES.len()].to_owned())].into();
        let module = Module {
            name: "random".into(),
            computations: self.computations,
            entry,
            aliases,
            host_parameters,
            frontend_attributes,
            metadata,
            annotations: Annotations::default(),
        };
        verify(module)
            .unwrap_or_else(|diagnostics| panic!("the generator made an invalid module: {diagnostics}"))
    }
}

/// The text of a module in which `depth` calls are nested, of four lines for each computation.
pub(crate) fn nested_calls(depth: usize) -> String {
    let computation =
        |name: String, y: String| format!("{name} {{\n  x = f32[] parameter(0)\n  ROOT y = f32[] {y}\n}}\n");
    let call = |n: usize| {
        let entry = if n == depth { "ENTRY " } else { "" };
        computation(format!("{entry}call{n}"), format!("call(x), to_apply=call{}", n - 1))
    };
    let leaf = computation("call0".to_owned(), "sine(x)".to_owned());
    (1..=depth).fold(format!("HloModule m\n{leaf}"), |text, n| text + &call(n))
}

proptest! {
    #[test]
    fn random_modules_are_well_typed(module in modules()) {
        prop_assert!(module.entry().instrs.len() > 1);
    }
}
