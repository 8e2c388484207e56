//! What each template computes, against its formula in float64.

mod dequantize;
pub use dequantize::decoded;
mod dropout;
mod replaced;

use std::{fs, path::Path};

use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::{ArrayShape, DType, Literal},
    hlo::{ModuleBuilder, text, verify},
    templates::{Instantiator, TemplateArg, TemplateLibrary},
    testing::CpuBuild,
};

use crate::support::{Cpu, Random, relative_error};

const BATCH: usize = 2;
const SEQ: usize = 5;
const KEYS: usize = 4;
const WINDOW: usize = 2;
const DIM: usize = 6;
const KV_HEADS: usize = 2;
const GROUP: usize = 3;
const HEAD_DIM: usize = 4;
const HALF: usize = HEAD_DIM / 2;
const VOCAB: usize = 11;
const RANK: usize = 3;
const MLP: usize = 7;
const EPS: f64 = 1e-5;
const BETAS: [f64; 2] = [0.9, 0.999];
const DECAY: f64 = 0.1;

/// Every template's args.
fn args(t: DType) -> Vec<(&'static str, TemplateArg)> {
    vec![
        ("t", t.into()),
        ("batch", BATCH.into()),
        ("seq", SEQ.into()),
        ("queries", SEQ.into()),
        ("keys", KEYS.into()),
        ("block", SEQ.into()),
        ("window", WINDOW.into()),
        ("dim", DIM.into()),
        ("eps", EPS.into()),
        ("heads", KV_HEADS.into()),
        ("kv_heads", KV_HEADS.into()),
        ("group", GROUP.into()),
        ("head_dim", HEAD_DIM.into()),
        ("half", HALF.into()),
        ("scale", scale().into()),
        ("vocab", VOCAB.into()),
        ("mlp", MLP.into()),
        ("rank", RANK.into()),
        ("in", DIM.into()),
        ("out", MLP.into()),
        ("x_in", 2.into()),
        ("weight_in", 1.into()),
        ("a_in", 1.into()),
        ("dims", vec![RANK, DIM].into()),
        ("codes", vec![RANK, DIM / 2].into()),
        ("codes_dims", vec![0, 1].into()),
        ("nibble_dim", 2.into()),
        ("index_dim", 2.into()),
        ("blocks", vec![RANK, 1].into()),
        ("kept", RANK.into()),
        ("kept_dims", 0.into()),
        ("split", vec![RANK, DIM].into()),
        ("out_dims", 0.into()),
        ("limit", 0x8000_0000_usize.into()),
        ("factor", 2.0.into()),
        ("beta1", BETAS[0].into()),
        ("beta2", BETAS[1].into()),
        ("one_minus_beta1", (1.0 - BETAS[0]).into()),
        ("one_minus_beta2", (1.0 - BETAS[1]).into()),
        ("log_beta1", BETAS[0].ln().into()),
        ("log_beta2", BETAS[1].ln().into()),
        ("decay", DECAY.into()),
    ]
}

fn scale() -> f64 {
    (HEAD_DIM as f64).sqrt().recip()
}

/// The results of template `name`, a tuple's elements each.
fn run(name: &str, args: &[(&str, TemplateArg)], arguments: &[Literal]) -> Vec<Literal> {
    let (templates, module) = (TemplateLibrary::embedded(), ModuleBuilder::new());
    let vjps = VjpTable::default();
    let entry = Instantiator::new(&templates, &module, &vjps).instantiate(name, args);
    let entry = entry.unwrap_or_else(|error| panic!("{error}"));
    Cpu::start(CpuBuild::Pinned).compile(module.finish("template", entry, vec![])).run(arguments)
}

/// A float64 array that formulas can be written with.
struct Array {
    dims: Vec<usize>,
    values: Vec<f64>,
}

impl Array {
    fn of(literal: &Literal) -> Self {
        Self { dims: literal.shape().dims.clone(), values: literal.to_f64s() }
    }

    fn build(dims: &[usize], element: impl Fn(&[usize]) -> f64) -> Self {
        let index = |mut place: usize| -> Vec<usize> {
            let mut index = vec![0; dims.len()];
            for (index, size) in index.iter_mut().zip(dims).rev() {
                *index = place % size;
                place /= size;
            }
            index
        };
        let values = (0..dims.iter().product()).map(|place| element(&index(place))).collect();
        Self { dims: dims.to_vec(), values }
    }

    fn at(&self, index: &[usize]) -> f64 {
        assert_eq!(index.len(), self.dims.len());
        self.values[index.iter().zip(&self.dims).fold(0, |place, (index, size)| place * size + index)]
    }
}

fn sum(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    (0..count).map(term).sum()
}

/// Checks a result in float32 and bfloat16, with what roundings to `t` leave.
#[track_caller]
fn close(what: &str, found: &Literal, expected: &Array) {
    assert_eq!(found.shape().dims, expected.dims, "{what}");
    within(what, found, expected, if found.shape().dtype == DType::F32 { 1e-6 } else { 1e-2 });
}

#[track_caller]
fn within(what: &str, found: &Literal, expected: &Array, limit: f64) {
    let error = relative_error(&found.to_f64s(), &expected.values);
    assert!(error <= limit, "{what}: relative error {error:e}, the limit is {limit:e}");
}

const TYPES: [DType; 2] = [DType::F32, DType::BF16];

#[test]
fn rms_norm() {
    for t in TYPES {
        let mut random = Random::named("rms_norm");
        let arguments = [random.array(t, &[BATCH, SEQ, DIM], 3.0), random.array(t, &[DIM], 2.0)];
        let [x, weight] = arguments.each_ref().map(Array::of);
        let expected = Array::build(&[BATCH, SEQ, DIM], |index| {
            let &[b, s, d] = index else { unreachable!() };
            let mean = sum(DIM, |j| x.at(&[b, s, j]).powi(2)) / DIM as f64;
            x.at(index) / (mean + EPS).sqrt() * weight.at(&[d])
        });
        close("rms_norm", &run("rms_norm", &args(t), &arguments)[0], &expected);
    }
}

#[test]
fn rms_norm_of_small_numbers_is_held_by_eps() {
    let x = Literal::from_f64s(ArrayShape::new(DType::F32, [BATCH, SEQ, DIM]), [1e-4; BATCH * SEQ * DIM]);
    let ones = Literal::f32s([DIM], &[1.0; DIM]);
    let expected = Array::build(&[BATCH, SEQ, DIM], |_| 1e-4 / (1e-8 + EPS).sqrt());
    close("rms_norm", &run("rms_norm", &args(DType::F32), &[x, ones])[0], &expected);
}

#[test]
fn rope() {
    let frequency = Literal::f32s([HALF], &[1.0, 0.03]);
    let table = run("rope_table", &args(DType::F32), std::slice::from_ref(&frequency));
    let frequency = Array::of(&frequency);
    let angle = |s: usize, i: usize| s as f64 * frequency.at(&[i]);
    let sign = |half: usize| if half == 0 { -1.0 } else { 1.0 };
    let sizes = [SEQ, 2, HALF];
    close("cos", &table[0], &Array::build(&sizes, |index| angle(index[0], index[2]).cos()));
    let sines = Array::build(&sizes, |index| sign(index[1]) * angle(index[0], index[2]).sin());
    close("sin", &table[1], &sines);

    for t in TYPES {
        let sizes = [BATCH, SEQ, KV_HEADS, HEAD_DIM];
        let x = Random::named("rope").array(t, &sizes, 2.0);
        let y = &run("rope", &args(t), &[x.clone(), table[0].clone(), table[1].clone()])[0];
        let x = Array::of(&x);
        let expected = Array::build(&sizes, |index| {
            let &[b, s, n, d] = index else { unreachable!() };
            let (half, i) = (d / HALF, d % HALF);
            let partner = x.at(&[b, s, n, (1 - half) * HALF + i]);
            x.at(index) * angle(s, i).cos() + sign(half) * partner * angle(s, i).sin()
        });
        close("rope", y, &expected);
    }
}

/// The sizes on both sides of a linear, where heads and their features are two dimensions.
const LINEARS: [(&[usize], &[usize]); 3] =
    [(&[DIM], &[MLP]), (&[DIM], &[KV_HEADS, HEAD_DIM]), (&[KV_HEADS, HEAD_DIM], &[DIM])];

fn linear_holes(t: DType, input: &[usize], output: &[usize]) -> Vec<(&'static str, TemplateArg)> {
    let range = |start: usize, length: usize| TemplateArg::from((start..start + length).collect::<Vec<_>>());
    let own = vec![
        ("in", input.to_vec().into()),
        ("out", output.to_vec().into()),
        ("x_in", range(2, input.len())),
        ("weight_in", range(output.len(), input.len())),
        ("a_in", range(1, input.len())),
    ];
    let others = args(t).into_iter().filter(|(name, _)| own.iter().all(|(own, _)| own != name));
    others.chain(own.clone()).collect()
}

/// The same elements with all input features in one dimension and all output features in another.
fn flat(literal: &Literal, dims: &[usize]) -> Array {
    Array::of(&literal.clone().reshaped(dims))
}

#[test]
fn dense_and_lora_dense() {
    for t in TYPES {
        for (input, output) in LINEARS {
            let (inputs, outputs): (usize, usize) = (input.iter().product(), output.iter().product());
            let mut random = Random::named("dense");
            let mut draw = |t: DType, leading: &[usize], trailing: &[usize]| {
                random.array(t, &[leading, trailing].concat(), 1.0)
            };
            let arguments = [
                draw(t, &[BATCH, SEQ], input),
                draw(t, output, input),
                draw(DType::F32, &[RANK], input),
                draw(DType::F32, &[RANK], output),
                Literal::f32s([], &[1.75]),
            ];
            let x = flat(&arguments[0], &[BATCH, SEQ, inputs]);
            let weight = flat(&arguments[1], &[outputs, inputs]);
            let (a, b) = (flat(&arguments[2], &[RANK, inputs]), flat(&arguments[3], &[RANK, outputs]));
            let frozen =
                |index: &[usize]| sum(inputs, |i| x.at(&[index[0], index[1], i]) * weight.at(&[index[2], i]));
            let added = |index: &[usize]| {
                let down = |r: usize| sum(inputs, |i| x.at(&[index[0], index[1], i]) * a.at(&[r, i]));
                1.75 * sum(RANK, |r| down(r) * b.at(&[r, index[2]]))
            };
            let sizes = [BATCH, SEQ, outputs];
            let args = linear_holes(t, input, output);
            let y = run("dense", &args, &arguments[..2]).remove(0);
            assert_eq!(y.shape().dims, [&[BATCH, SEQ], output].concat());
            close("dense", &y.reshaped(sizes), &Array::build(&sizes, frozen));
            let y = run("lora_dense", &args, &arguments).remove(0);
            let expected = Array::build(&sizes, |index| frozen(index) + added(index));
            close("lora_dense", &y.reshaped(sizes), &expected);
        }
    }
}

#[test]
fn swiglu() {
    for t in TYPES {
        let mut random = Random::named("swiglu");
        let sizes = [BATCH, SEQ, MLP];
        let arguments = [random.array(t, &sizes, 6.0), random.array(t, &sizes, 2.0)];
        let [gate, up] = arguments.each_ref().map(Array::of);
        let expected = Array::build(&sizes, |index| {
            let gate = gate.at(index);
            gate / (1.0 + (-gate).exp()) * up.at(index)
        });
        close("swiglu", &run("swiglu", &args(t), &arguments)[0], &expected);
    }
}

/// Random queries and keys, and that a query sees itself and what comes before it.
fn queries_and_keys(t: DType) -> [Literal; 3] {
    let mut random = Random::named("attention");
    let q = random.array(t, &[BATCH, SEQ, KV_HEADS, GROUP, HEAD_DIM], 3.0);
    let k = random.array(t, &[BATCH, SEQ, KV_HEADS, HEAD_DIM], 3.0);
    let seen = Array::build(&[BATCH, SEQ, SEQ], |index| f64::from(u8::from(index[2] <= index[1])));
    [q, k, Literal::from_f64s(ArrayShape::new(DType::Pred, [BATCH, SEQ, SEQ]), seen.values)]
}

#[test]
fn masks() {
    let [query, key] = [7, 9].map(|first| Literal::s32s([], &[first]));
    let mask = run("attention_mask", &args(DType::F32), &[query.clone(), key.clone()]).remove(0);
    let expected =
        Array::build(&[BATCH, SEQ, KEYS], |index| f64::from(u8::from(index[2] + 9 <= index[1] + 7)));
    assert_eq!(mask.to_f64s(), expected.values);

    // As `sliding_window_overlay` of transformers: kv_idx > q_idx - sliding_window.
    let found = run("window_mask", &args(DType::F32), &[mask.clone(), query, key]).remove(0);
    let near = Array::build(&[BATCH, SEQ, KEYS], |index| {
        expected.at(index) * f64::from(u8::from(index[2] + 9 + WINDOW > index[1] + 7))
    });
    assert!(near.values != expected.values);
    assert_eq!(found.to_f64s(), near.values);

    let segments = |length: usize| Random::named("segments").array(DType::S32, &[BATCH, length], 2.0);
    let (queries, keys) = (segments(SEQ), segments(KEYS));
    let found = run("segment_mask", &args(DType::F32), &[mask, queries.clone(), keys.clone()]).remove(0);
    let (queries, keys) = (Array::of(&queries), Array::of(&keys));
    let expected = Array::build(&[BATCH, SEQ, KEYS], |index| {
        expected.at(index) * f64::from(u8::from(queries.at(&index[..2]) == keys.at(&[index[0], index[2]])))
    });
    assert_eq!(found.to_f64s(), expected.values);
}

const WEIGHTS: [usize; 5] = [BATCH, KV_HEADS, SEQ, GROUP, SEQ];

#[test]
fn attention() {
    for t in TYPES {
        let arguments = queries_and_keys(t);
        let [q, k, _] = arguments.each_ref().map(Array::of);
        let expected = Array::build(&WEIGHTS, |index| {
            let &[b, n, s, g, key] = index else { unreachable!() };
            let score =
                |key: usize| scale() * sum(HEAD_DIM, |d| q.at(&[b, s, n, g, d]) * k.at(&[b, key, n, d]));
            if key > s { 0.0 } else { score(key).exp() / sum(s + 1, |key| score(key).exp()) }
        });
        let p = run("attention_weights", &args(t), &arguments).remove(0);
        close("attention_weights", &p, &expected);

        let v = Random::named("values").array(t, &[BATCH, SEQ, KV_HEADS, HEAD_DIM], 2.0);
        let o = &run("attention_mix", &args(t), &[p, v.clone()])[0];
        let v = Array::of(&v);
        let mixed = Array::build(&[BATCH, SEQ, KV_HEADS, GROUP, HEAD_DIM], |index| {
            let &[b, s, n, g, d] = index else { unreachable!() };
            sum(SEQ, |key| expected.at(&[b, n, s, g, key]) * v.at(&[b, key, n, d]))
        });
        close("attention_mix", o, &mixed);
    }
}

#[test]
fn embed() {
    for t in TYPES {
        let table = Random::named("embed").array(t, &[VOCAB, DIM], 1.0);
        let ids = Literal::s32s([BATCH, SEQ], &[0, 10, 3, 3, 7, 1, 0, 5, 10, 2]);
        let found = run("embed", &args(t), &[table.clone(), ids.clone()]);
        let (table, ids) = (Array::of(&table), Array::of(&ids));
        let expected =
            Array::build(&[BATCH, SEQ, DIM], |index| table.at(&[ids.at(&index[..2]) as usize, index[2]]));
        assert_eq!(found[0].to_f64s(), expected.values);
    }
}

#[test]
fn next_token() {
    let labels = [-100, 4, -100, 6, 7, 9, 8, -100, -100, -100];
    let found = run("next_token", &args(DType::F32), &[Literal::s32s([BATCH, SEQ], &labels)]);
    let expected = [4, -100, 6, 7, -100, 8, -100, -100, -100, -100];
    assert_eq!(found, [Literal::s32s([BATCH, SEQ], &expected), Literal::s32s([], &[4])]);
}

#[test]
fn cross_entropy() {
    for t in TYPES {
        // Far from zero, where a sum of exponentials would overflow.
        let logits = Random::named("logits").array(t, &[BATCH, SEQ, VOCAB], 200.0);
        let target = Literal::s32s([BATCH, SEQ], &[3, -100, 0, 10, -100, -100, 7, 7, 2, -100]);
        let log_sum_exp = run("log_sum_exp", &args(t), std::slice::from_ref(&logits)).remove(0);
        let loss = &run("cross_entropy", &args(t), &[logits.clone(), log_sum_exp.clone(), target.clone()])[0];
        let (logits, target) = (Array::of(&logits), Array::of(&target));
        let expected = Array::build(&[BATCH, SEQ], |index| {
            let logit = |token: usize| logits.at(&[index[0], index[1], token]);
            let largest = (0..VOCAB).map(logit).fold(f64::NEG_INFINITY, f64::max);
            largest + sum(VOCAB, |token| (logit(token) - largest).exp()).ln()
        });
        // Everything here is in float32, whatever the logits are in.
        within("log_sum_exp", &log_sum_exp, &expected, 1e-6);
        let one = |b: usize, s: usize| match target.at(&[b, s]) {
            -100.0 => 0.0,
            token => expected.at(&[b, s]) - logits.at(&[b, s, token as usize]),
        };
        let expected = sum(BATCH, |b| sum(SEQ, |s| one(b, s)));
        within("cross_entropy", loss, &Array { dims: vec![], values: vec![expected] }, 1e-6);
    }
}

#[test]
fn adamw() {
    let mut random = Random::named("adamw");
    let mut draw = |scale: f64| random.array(DType::F32, &[RANK, DIM], scale);
    let zeros = Literal::zeros(ArrayShape::new(DType::F32, [RANK, DIM]));
    let mut state = vec![draw(1.0), zeros.clone(), zeros];
    let mut expected: Vec<Vec<f64>> = state.iter().map(Literal::to_f64s).collect();
    for (t, apply) in [(1, 1.0), (2, 1.0), (3, 0.0), (3, 1.0), (4, 1.0)] {
        let gradient = draw(0.3);
        let (lr, clip) = (0.01 * f64::from(t), 1.0 / f64::from(t));
        let corrections = BETAS.map(|beta| 1.0 - beta.powi(t));
        let scalars = [lr, clip, corrections[0], corrections[1]].map(|x| Literal::scalar(DType::F32, x));
        let arguments = [
            &state[..],
            std::slice::from_ref(&gradient),
            &scalars[..],
            &[Literal::scalar(DType::Pred, apply)],
        ]
        .concat();
        let next = run("adamw", &args(DType::F32), &arguments);
        if apply == 0.0 {
            assert_eq!(next, state);
        } else {
            let [p, m, v] = &mut expected[..] else { unreachable!() };
            for (at, gradient) in gradient.to_f64s().into_iter().enumerate() {
                let g = clip * gradient;
                m[at] = BETAS[0] * m[at] + (1.0 - BETAS[0]) * g;
                v[at] = BETAS[1] * v[at] + (1.0 - BETAS[1]) * g * g;
                let (m_hat, v_hat) = (m[at] / corrections[0], v[at] / corrections[1]);
                p[at] -= lr * DECAY * p[at] + lr * m_hat / (v_hat.sqrt() + EPS);
            }
        }
        for (name, (found, expected)) in ["p", "m", "v"].iter().zip(next.iter().zip(&expected)) {
            close(name, found, &Array { dims: vec![RANK, DIM], values: expected.clone() });
        }
        state = next;
    }
}

#[test]
fn bias_correction_keeps_its_digits() {
    for updates in [1, 2, 10, 1000, 100_000] {
        let found = run("bias_correction", &args(DType::F32), &[Literal::s32s([], &[updates])]);
        for (found, beta) in found.iter().zip(BETAS) {
            let expected = Array { dims: vec![], values: vec![1.0 - beta.powi(updates)] };
            within(&format!("1 - {beta}^{updates}"), found, &expected, 3e-7);
        }
    }
}

/// `NAME.grad` against what autodiff makes of `NAME`.
#[track_caller]
fn check_gradient(name: &str, t: DType, arguments: &[Literal]) {
    let (templates, module) = (TemplateLibrary::embedded(), ModuleBuilder::new());
    let vjps = VjpTable::default();
    let templates = Instantiator::new(&templates, &module, &vjps);
    let primal = templates.instantiate(name, &args(t)).unwrap();
    let by_hand = vjps.custom(primal).unwrap();
    let is_float = |&index: &usize| arguments[index].shape().dtype.is_float();
    let wrt: Vec<usize> = (0..arguments.len()).filter(is_float).collect();
    let derived = backward(&module, &vjps, primal, &wrt, SavePolicy::Nothing).unwrap().computation;
    let result = module.get(primal).result().as_array().unwrap().clone();
    let entry = module.define("both", |b| {
        let arguments: Vec<_> = arguments.iter().map(|a| b.parameter("x", a.shape().clone())).collect();
        let cotangent = b.parameter("cotangent", result.clone());
        let derived = b.call(derived, &[&arguments[..], &[cotangent]].concat());
        let y = b.call(primal, &arguments);
        let by_hand = b.call(by_hand, &[&arguments[..], &[y, cotangent]].concat());
        b.tuple(&[by_hand.elements(), derived.elements()].concat())
    });
    let cotangent = Random::named(name).array(DType::F32, &result.dims, 1.0);
    let cpu = Cpu::start(CpuBuild::Pinned);
    let function = cpu.compile(module.finish("both", entry.unwrap(), vec![]));
    let found = function.run(&[arguments, &[cotangent]].concat());
    let (by_hand, derived) = found.split_at(wrt.len());
    for (by_hand, derived) in by_hand.iter().zip(derived) {
        close(name, by_hand, &Array::of(derived));
    }
}

#[test]
fn gradients_are_what_autodiff_would_derive() {
    for t in TYPES {
        check_gradient("attention_weights", t, &queries_and_keys(t));
        let logits = Random::named("logits").array(t, &[BATCH, SEQ, VOCAB], 5.0);
        check_gradient("log_sum_exp", t, &[logits]);
    }
}

#[test]
fn every_file_is_embedded_and_reads_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hlo-templates");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if file == "README.md" {
            continue;
        }
        let name = file.strip_suffix(".hlo").unwrap_or_else(|| panic!("{file} is no template"));
        let (templates, module) = (TemplateLibrary::embedded(), ModuleBuilder::new());
        let vjps = VjpTable::default();
        let entry = Instantiator::new(&templates, &module, &vjps).instantiate(name, &args(DType::BF16));
        let entry = entry.unwrap_or_else(|error| panic!("{error}"));
        let module = verify(module.finish("template", entry, vec![]));
        let module = module.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(text::parse(&text::print(&module), name).as_ref(), Ok(module.module()), "{name}");
        count += 1;
    }
    assert!(count >= 20);
}
