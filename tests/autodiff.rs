//! Every rule of reverse mode against difference quotients on the CPU plugin.

mod cases;

use std::cell::RefCell;

use cases::{Case, cases};
use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::{ArrayShape, DType, Diagnostics, Literal, Shape},
    hlo::{
        Attrs, Builder, CompId, Computation, CustomCall, InstrId, ModuleBuilder, Opcode, ScatterDims, Value,
    },
    testing::CpuBuild,
};
use proptest::{collection::vec, prelude::*};

use crate::support::{Cpu, Random, norm};

/// Those that stand in the way of a derivative.
const WITHOUT_RULE: [Opcode; 3] = [Opcode::BitcastConvert, Opcode::While, Opcode::CustomCall];

/// The step of difference quotients. Arguments are such that adding it is exact in float32 too.
const STEP: f64 = 1.0 / (1 << 20) as f64;

/// The parameters of a computation under construction, and arguments drawn for them.
pub struct Inputs<'b> {
    pub b: &'b Builder<'b>,
    pub vjps: VjpTable,
    random: RefCell<Random>,
    arguments: RefCell<Vec<Literal>>,
}

impl<'b> Inputs<'b> {
    /// A parameter with a given argument.
    pub fn fixed(&self, argument: Literal) -> Value<'b> {
        let mut arguments = self.arguments.borrow_mut();
        let value = self.b.parameter(&format!("x{}", arguments.len()), argument.shape().clone());
        arguments.push(argument);
        value
    }

    /// Numbers that are neither whole nor half.
    pub fn float(&self, dtype: DType, low: f64, high: f64, dims: &[usize]) -> Value<'b> {
        self.fixed(grid(&mut self.random.borrow_mut(), ArrayShape::new(dtype, dims), low, high))
    }

    pub fn within(&self, low: f64, high: f64, dims: &[usize]) -> Value<'b> {
        self.float(DType::F64, low, high, dims)
    }

    pub fn any(&self, dims: &[usize]) -> Value<'b> {
        self.within(-2.0, 2.0, dims)
    }

    pub fn positive(&self, dims: &[usize]) -> Value<'b> {
        self.within(0.5, 2.0, dims)
    }

    /// Whole numbers below `bound`.
    pub fn indices(&self, bound: usize, dims: &[usize]) -> Value<'b> {
        let shape = ArrayShape::new(DType::S32, dims);
        let mut random = self.random.borrow_mut();
        let values: Vec<f64> = (0..shape.elements()).map(|_| random.below(bound) as f64).collect();
        drop(random);
        self.fixed(Literal::from_f64s(shape, values))
    }
}

/// Odd multiples of 2^-11.
fn grid(random: &mut Random, shape: ArrayShape, low: f64, high: f64) -> Literal {
    let draw = |_| ((random.within(low, high) * 1024.0).floor() * 2.0 + 1.0) / 2048.0;
    let values: Vec<f64> = (0..shape.elements()).map(draw).collect();
    Literal::from_f64s(shape, values)
}

/// A computation with arguments to differentiate it at.
struct Primal {
    module: ModuleBuilder,
    vjps: VjpTable,
    id: CompId,
    arguments: Vec<Literal>,
}

impl Primal {
    fn new(name: &str, define: impl for<'b> FnOnce(&Inputs<'b>) -> Value<'b>) -> Self {
        let (module, mut vjps) = (ModuleBuilder::new(), VjpTable::default());
        let mut arguments = Vec::new();
        let id = module.define("primal", |b| {
            let random = RefCell::new(Random::named(name));
            let inputs = Inputs { b, vjps: VjpTable::default(), random, arguments: RefCell::default() };
            let root = define(&inputs);
            (arguments, vjps) = (inputs.arguments.into_inner(), inputs.vjps);
            root
        });
        let id = id.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"));
        Self { module, vjps, id, arguments }
    }

    fn computation(&self) -> Computation {
        self.module.get(self.id)
    }

    /// The parameters of a floating-point type.
    fn differentiable(&self) -> Vec<usize> {
        let float = |&index: &usize| self.arguments[index].shape().dtype.is_float();
        (0..self.arguments.len()).filter(float).collect()
    }

    /// Results and gradients at the arguments and anywhere near them.
    fn checked<'c>(self, name: &str, cpu: &'c Cpu, keep: SavePolicy) -> Checked<'c> {
        let wrt = self.differentiable();
        let gradient = backward(&self.module, &self.vjps, self.id, &wrt, keep);
        let gradient = gradient.unwrap_or_else(|error| panic!("{name}: {error}"));
        let computation = self.computation();
        let Self { module, arguments, .. } = self;
        let entry = module.define("checked", |b| {
            let mut values: Vec<Value<'_>> = Vec::new();
            for instr in &computation.instrs {
                values.push(match instr.attrs {
                    Attrs::Parameter(_) => b.parameter("x", instr.shape.clone()),
                    _ => {
                        let operands: Vec<_> = instr.operands.iter().map(|id| values[id.index()]).collect();
                        b.push(instr.opcode, &operands, instr.attrs.clone(), Some(instr.shape.clone()))
                    }
                });
            }
            let root = values[computation.root.index()];
            let (results, cotangent) = match root.shape() {
                Shape::Array(shape) => (vec![root], b.parameter("cotangent", shape)),
                Shape::Tuple(shapes) => {
                    let parts: Vec<_> = shapes.into_iter().map(|s| b.parameter("cotangent", s)).collect();
                    (root.elements(), b.tuple(&parts))
                }
            };
            let values = |ids: &[InstrId]| ids.iter().map(|id| values[id.index()]).collect::<Vec<_>>();
            let (passed, kept) = (values(&computation.parameters()), values(&gradient.residuals));
            let gradients = b.call(gradient.computation, &[&passed[..], &[cotangent], &kept].concat());
            b.tuple(&[results, gradients.elements()].concat())
        });
        let entry = entry.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"));
        let shapes = match computation.result() {
            Shape::Array(shape) => vec![shape.clone()],
            Shape::Tuple(shapes) => shapes.iter().filter_map(Shape::as_array).cloned().collect(),
        };
        let mut random = Random::named(&format!("{name} cotangent"));
        let cotangents = shapes.into_iter().map(|shape| grid(&mut random, shape, -1.0, 1.0)).collect();
        let function = cpu.compile(module.finish("checked", entry, vec![]));
        Checked { function, arguments, cotangents, wrt, random }
    }
}

struct Checked<'c> {
    function: crate::support::Function<'c>,
    arguments: Vec<Literal>,
    cotangents: Vec<Literal>,
    wrt: Vec<usize>,
    random: Random,
}

impl Checked<'_> {
    /// The results projected on the cotangents, and the gradients of that.
    fn at(&self, arguments: &[Literal]) -> (f64, Vec<Literal>) {
        let mut results = self.function.run(&[arguments, &self.cotangents].concat());
        let gradients = results.split_off(self.cotangents.len());
        let product = |(x, y): (&Literal, &Literal)| dot(&x.to_f64s(), &y.to_f64s());
        (results.iter().zip(&self.cotangents).map(product).sum(), gradients)
    }

    /// The difference quotient where argument `index` moves along `directions[index]`.
    fn quotient(&self, directions: &[Option<Vec<f64>>]) -> f64 {
        let moved = |step: f64| {
            let along = |(argument, direction): (&Literal, &Option<Vec<f64>>)| match direction {
                None => argument.clone(),
                Some(direction) => {
                    let values = argument.to_f64s().into_iter().zip(direction).map(|(x, d)| x + step * d);
                    Literal::from_f64s(argument.shape().clone(), values)
                }
            };
            let arguments: Vec<Literal> = self.arguments.iter().zip(directions).map(along).collect();
            self.at(&arguments).0
        };
        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    }

    /// Compares along two directions of signs, and coordinate by coordinate where there are few.
    fn check(&mut self, name: &str) {
        let (_, gradients) = self.at(&self.arguments);
        for _ in 0..2 {
            let mut directions = vec![None; self.arguments.len()];
            let mut expected = 0.0;
            for (&index, gradient) in self.wrt.iter().zip(&gradients) {
                let sign = |_| [-1.0, 1.0][self.random.below(2)];
                let direction: Vec<f64> = (0..gradient.shape().elements()).map(sign).collect();
                expected += dot(&gradient.to_f64s(), &direction);
                directions[index] = Some(direction);
            }
            let found = self.quotient(&directions);
            close(name, "along a direction", &gradients, &[expected], &[found]);
        }
        for (&index, gradient) in self.wrt.iter().zip(&gradients) {
            assert_eq!(gradient.shape(), self.arguments[index].shape(), "{name}: gradient of x{index}");
            let elements = gradient.shape().elements();
            if elements > 72 {
                continue;
            }
            let along = |element: usize| {
                let mut directions = vec![None; self.arguments.len()];
                directions[index] = Some((0..elements).map(|e| f64::from(u8::from(e == element))).collect());
                self.quotient(&directions)
            };
            let quotients: Vec<f64> = (0..elements).map(along).collect();
            close(name, &format!("x{index}"), &gradients, &gradient.to_f64s(), &quotients);
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Gradients are as exact as their element type, quotients to about nine digits.
#[track_caller]
fn close(name: &str, what: &str, gradients: &[Literal], gradient: &[f64], quotient: &[f64]) {
    let narrow = gradients.iter().any(|gradient| gradient.shape().dtype != DType::F64);
    let limit = if narrow { 1e-6 } else { 1e-7 };
    let error = norm(gradient.iter().zip(quotient).map(|(gradient, quotient)| gradient - quotient));
    let allowed = limit * (1.0 + norm(quotient.iter().copied()));
    assert!(error <= allowed, "{name}, {what}: gradient {gradient:?}, difference quotient {quotient:?}");
}

#[test]
fn every_rule_agrees_with_difference_quotients() {
    // The newer plugin cannot compile an array clamped between scalars.
    let cpu = Cpu::start(CpuBuild::Api081);
    let cases = cases();
    for &opcode in Opcode::ALL {
        let covered = cases.iter().any(|case| case.opcode == opcode);
        assert_ne!(covered, WITHOUT_RULE.contains(&opcode), "{opcode} has no case, or should have none");
    }
    for Case { opcode, what, define } in cases {
        let name = format!("{opcode} {what}");
        let primal = Primal::new(&name, define);
        let has = |id: usize| primal.module.get(CompId::new(id)).instrs.iter().any(|i| i.opcode == opcode);
        assert!((0..=primal.id.index()).any(has), "{name}: does not use {opcode}");
        primal.checked(&name, &cpu, SavePolicy::Nothing).check(&name);
    }
}

/// The gradients of the sum of the result.
#[track_caller]
fn gradients(define: impl for<'b> FnOnce(&Inputs<'b>) -> Value<'b>) -> Vec<Vec<f64>> {
    let cpu = Cpu::start(CpuBuild::Pinned);
    let mut checked = Primal::new("gradients", define).checked("gradients", &cpu, SavePolicy::Nothing);
    let ones = |literal: &Literal| {
        let shape = literal.shape().clone();
        Literal::from_f64s(shape.clone(), vec![1.0; shape.elements()])
    };
    checked.cotangents = checked.cotangents.iter().map(ones).collect();
    checked.at(&checked.arguments).1.iter().map(Literal::to_f64s).collect()
}

fn f64s(values: &[f64]) -> Literal {
    Literal::from_f64s(ArrayShape::new(DType::F64, [values.len()]), values.iter().copied())
}

#[test]
fn ties_share_the_cotangent() {
    fn pair<'b>(i: &Inputs<'b>) -> [Value<'b>; 2] {
        [i.fixed(f64s(&[1.0, 2.0, 3.0])), i.fixed(f64s(&[1.0, 3.0, 2.0]))]
    }
    let larger = gradients(|i| {
        let [x, y] = pair(i);
        x.max(y)
    });
    assert_eq!(larger, [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]);
    let smaller = gradients(|i| {
        let [x, y] = pair(i);
        x.min(y)
    });
    assert_eq!(smaller, [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]);
    let largest =
        gradients(|i| i.fixed(f64s(&[4.0, 1.0, 4.0])).reduce(Opcode::Maximum, f64::NEG_INFINITY, &[0]));
    assert_eq!(largest, [[0.5, 0.0, 0.5]]);
}

#[test]
fn a_value_at_a_bound_of_clamp_takes_the_whole_cotangent() {
    let found = gradients(|i| {
        let [low, x, high] = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]].map(|values| i.fixed(f64s(&values)));
        i.b.push(Opcode::Clamp, &[low, x, high], Attrs::Plain, None)
    });
    assert_eq!(found, [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]);
}

#[test]
fn powers_of_zero_have_no_nan() {
    let found = gradients(|i| i.fixed(f64s(&[0.0, 0.0, 2.0, 0.0])).pow(i.fixed(f64s(&[1.0, 2.0, 0.0, 0.0]))));
    assert_eq!(found, [vec![1.0, 0.0, 0.0, 0.0], vec![0.0, 0.0, 2.0_f64.ln(), 0.0]]);
}

#[test]
fn what_the_result_does_not_depend_on_gets_zeros() {
    let found = gradients(|i| {
        let _ = i.any(&[2]);
        i.fixed(f64s(&[3.0])) * 2.0
    });
    assert_eq!(found, [vec![0.0, 0.0], vec![2.0]]);
}

#[test]
fn a_gradient_set_by_hand_is_taken_at_its_word() {
    let found = gradients(|i| {
        let shape = ArrayShape::new(DType::F64, [1]);
        let module = i.b.module();
        let square = module.define("square", |b| {
            let x = b.parameter("x", shape.clone());
            x * x
        });
        let gradient = module.define("hundred", |b| {
            let (_x, y) = (b.parameter("x", shape.clone()), b.parameter("y", shape.clone()));
            let cotangent = b.parameter("cotangent", shape.clone());
            b.tuple(&[cotangent * 100.0 + y])
        });
        let square = square.unwrap();
        i.vjps.set_custom(square, gradient.unwrap());
        i.b.call(square, &[i.fixed(f64s(&[3.0]))])
    });
    assert_eq!(found, [[109.0]]);
}

/// Two dense layers with a frozen and a trained weight each.
fn layers<'b>(i: &Inputs<'b>) -> Value<'b> {
    let dense = |x: Value<'b>, frozen: Value<'b>, trained: Value<'b>| {
        let dims = || cases::contract(1, 0);
        x.dot(frozen, dims()) + x.dot(trained, dims())
    };
    let (x, frozen1, frozen2) = (i.any(&[2, 3]), i.any(&[3, 4]), i.any(&[4, 2]));
    let (trained1, trained2) = (i.any(&[3, 4]), i.any(&[4, 2]));
    dense(dense(x, frozen1, trained1).tanh(), frozen2, trained2)
}

#[test]
fn a_frozen_parameter_gets_no_instruction() {
    let primal = Primal::new("frozen", layers);
    let dots = |wrt: &[usize]| {
        let backward = primal.module.get(
            backward(&primal.module, &primal.vjps, primal.id, wrt, SavePolicy::Nothing).unwrap().computation,
        );
        backward.instrs.iter().filter(|instr| instr.opcode == Opcode::Dot).count()
    };
    // The first layer is computed again with two dots, which is all that the last weight needs besides its own.
    assert_eq!(dots(&[4]), 2 + 1);
    // The first weight needs its own and the way back through both weights of the second layer.
    assert_eq!(dots(&[3]), 2 + 1 + 2);
    assert_eq!(dots(&[3, 4]), 2 + 2 + 2);
    assert_eq!(dots(&[0, 1, 2, 3, 4]), 2 + 4 + 4);
}

#[test]
fn kept_values_are_used_and_give_the_same() {
    let cpu = Cpu::start(CpuBuild::Pinned);
    let primal = || Primal::new("layers", layers);
    let found = |keep: SavePolicy| {
        let keeping = primal();
        let backward = backward(&keeping.module, &keeping.vjps, keeping.id, &[3, 4], keep).unwrap();
        let kept = backward.residuals.iter().map(|id| keeping.computation().instr(*id).opcode).collect();
        let count = |opcode: Opcode| {
            let instrs = keeping.module.get(backward.computation).instrs;
            instrs.iter().filter(|instr| instr.opcode == opcode).count()
        };
        let kept: Vec<Opcode> = kept;
        (kept, count(Opcode::Dot), count(Opcode::Tanh))
    };
    assert_eq!(found(SavePolicy::Nothing), (vec![], 6, 1));
    assert_eq!(found(SavePolicy::Dots), (vec![Opcode::Dot, Opcode::Dot], 4, 1));
    assert_eq!(found(SavePolicy::Everything), (vec![Opcode::Tanh], 4, 0));
    let gradients = |keep: SavePolicy| {
        let checked = primal().checked("layers", &cpu, keep);
        checked.at(&checked.arguments)
    };
    for keep in [SavePolicy::Dots, SavePolicy::Everything] {
        assert_eq!(gradients(keep), gradients(SavePolicy::Nothing), "{keep:?}");
    }
}

#[track_caller]
fn no_rule(expected: &str, define: impl for<'b> FnOnce(&Inputs<'b>) -> Value<'b>) {
    let primal = Primal::new("f", define);
    let error =
        backward(&primal.module, &primal.vjps, primal.id, &primal.differentiable(), SavePolicy::Nothing)
            .unwrap_err();
    assert_eq!(error.to_string(), expected);
    let hint = "put it into a computation of its own with a custom gradient";
    assert_eq!(error.hint().as_deref(), Some(hint));
}

fn scalar_computation(
    b: &Builder<'_>,
    name: &str,
    define: impl for<'b> FnOnce(Value<'b>) -> Value<'b>,
) -> Result<CompId, Diagnostics> {
    b.module().define(name, |b| define(b.parameter("x", ArrayShape::scalar(DType::F64))))
}

#[test]
fn what_has_no_rule_is_named() {
    no_rule(
        "primal: `while.1`: cannot differentiate while: a loop needs a backward loop written by hand",
        |i| {
            let goes_on = scalar_computation(i.b, "goes_on", |x| {
                x.compare(hloom::hlo::ComparisonDirection::Lt, x.builder().scalar(DType::F64, 9.0))
            });
            let body = scalar_computation(i.b, "body", |x| x * 2.0).unwrap();
            i.b.while_loop(goes_on.unwrap(), body, i.any(&[]))
        },
    );
    no_rule(
        "primal: `kernel.1`: cannot differentiate custom-call: the derivative of a custom call is unknown",
        |i| {
            let call = CustomCall { target: "kernel".into(), ..CustomCall::default() };
            i.b.custom_call(call, &[i.any(&[2])], Shape::array(DType::F64, [2])).named("kernel")
        },
    );
    no_rule(
        "primal: `bitcast-convert.1`: cannot differentiate bitcast-convert: \
         a bit pattern has no derivative",
        |i| {
            let x = i.float(DType::F32, 0.0, 1.0, &[2]);
            let shape = Shape::array(DType::F32, [2]);
            i.b.push(Opcode::BitcastConvert, &[x], Attrs::Plain, Some(shape))
        },
    );
    no_rule(
        "primal: `reduce.2`: cannot differentiate reduce: only sums, maxima and minima have a rule",
        |i| i.any(&[2]).reduce(Opcode::Multiply, 1.0, &[0]),
    );
    no_rule(
        "primal: `reduce.2`: cannot differentiate reduce: \
         the initial value must not depend on a differentiated parameter",
        |i| {
            let (x, init) = (i.any(&[2]), i.any(&[]));
            let to_apply = i.b.module().reducer(Opcode::Add, DType::F64);
            i.b.push(Opcode::Reduce, &[x, init], Attrs::Reduce { dims: vec![0], to_apply }, None)
        },
    );
    no_rule("primal: `scatter.3`: cannot differentiate scatter: only sums have a rule", |i| {
        let to_apply = i.b.module().reducer(Opcode::Maximum, DType::F64);
        let dims = ScatterDims {
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let operands = [i.any(&[4]), i.indices(4, &[2, 1]), i.any(&[2])];
        i.b.push(Opcode::Scatter, &operands, Attrs::Scatter { dims, to_apply }, None)
    });
}

/// One operation of a random computation on `f64[3,3]`; its operands are counted back from it.
#[derive(Clone, Copy, Debug)]
struct Move {
    kind: usize,
    back: [usize; 2],
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (0..10_usize, 0..4_usize, 0..4_usize);
    vec(one.prop_map(|(kind, first, second)| Move { kind, back: [first, second] }), 1..14)
}

/// Smooth everywhere, and small for small operands.
fn apply<'b>(kind: usize, x: Value<'b>, y: Value<'b>) -> Value<'b> {
    match kind {
        0 => x + y,
        1 => x - y.reverse(&[0]),
        2 => x * y.cos(),
        3 => x / (y * y + 1.0),
        4 => x.tanh(),
        5 => (-(x * x)).exp(),
        6 => (x * x + 1.0).rsqrt() * y,
        7 => x.sin().dot(y.tanh(), cases::contract(0, 1)),
        8 => x.transpose(&[1, 0]) * y.logistic(),
        _ => x.sum(&[1]).broadcast(&[3, 3], &[0]) * 0.25 + y,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_computations_agree_with_difference_quotients(
        moves in moves(),
        keep in prop_oneof![Just(SavePolicy::Nothing), Just(SavePolicy::Dots), Just(SavePolicy::Everything)],
    ) {
        let primal = Primal::new("random", |i| {
            let mut values = vec![i.any(&[3, 3]), i.any(&[3, 3])];
            for Move { kind, back } in &moves {
                let operand = |back: usize| values[values.len() - 1 - back.min(values.len() - 1)];
                values.push(apply(*kind, operand(back[0]), operand(back[1])));
            }
            values[values.len() - 1]
        });
        let cpu = Cpu::start(CpuBuild::Pinned);
        primal.checked("random", &cpu, keep).check("random");
    }
}
