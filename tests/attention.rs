//! Attention, dense and in blocks, and its gradients, against the formula in float64.

use std::ops::Range;

use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::{ArrayShape, DType, Literal},
    hlo::{Module, ModuleBuilder, text, verify},
    model::{
        Config,
        nn::{Attention, ModelScope, RopeTable, attention},
    },
    templates::{Instantiator, TemplateError, TemplateLibrary},
    testing::CpuBuild,
};

use crate::support::{Cpu, Random, relative_error};

const BATCH: usize = 2;
const HEAD_DIM: usize = 8;

struct Case {
    heads: usize,
    kv_heads: usize,
    seq: usize,
    /// Lengths of the sequences that each row holds; the rest is padding. None where rows hold one.
    packed: Option<[&'static [usize]; BATCH]>,
    /// Positions that a query attends to.
    window: Option<usize>,
    t: DType,
}

const GROUPED: Case = Case { heads: 6, kv_heads: 2, seq: 13, packed: None, window: None, t: DType::F32 };

impl Case {
    /// The sizes of queries and of keys.
    fn sizes(&self) -> [[usize; 4]; 2] {
        [self.heads, self.kv_heads].map(|heads| [BATCH, self.seq, heads, HEAD_DIM])
    }

    /// `q`, `k`, `v` and the cotangent of the result.
    fn arguments(&self) -> [Literal; 4] {
        let mut random = Random::named("attention in blocks");
        let [queries, keys] = self.sizes();
        [(queries, 2.0), (keys, 2.0), (keys, 1.0), (queries, 1.0)]
            .map(|(sizes, scale)| random.array(self.t, &sizes, scale))
    }

    /// The segment of every position; zero is padding.
    fn segments(&self) -> Option<Vec<i32>> {
        let row = |lengths: &[usize]| {
            let numbered = lengths.iter().zip(1..).flat_map(|(&length, number)| vec![number; length]);
            numbered.chain(std::iter::repeat(0)).take(self.seq).collect::<Vec<i32>>()
        };
        self.packed.map(|rows| rows.into_iter().flat_map(row).collect())
    }

    /// The result and the cotangents of `q`, `k` and `v`, on the CPU plugin.
    fn run(&self, attention: Attention, templates: &TemplateLibrary) -> Vec<Vec<f64>> {
        let cpu = Cpu::start(CpuBuild::Pinned);
        let found = cpu.compile(self.module(attention, templates)).run(&self.arguments());
        found.iter().map(Literal::to_f64s).collect()
    }

    fn module(&self, attention: Attention, templates: &TemplateLibrary) -> Module {
        self.try_module(attention, templates).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_module(
        &self,
        attention_kind: Attention,
        templates: &TemplateLibrary,
    ) -> Result<Module, TemplateError> {
        let &Self { heads, kv_heads, seq, t, .. } = self;
        let config = Config {
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: HEAD_DIM,
            sliding_window: self.window,
            ..Config::builtin("tiny").unwrap()
        };
        let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
        let templates = Instantiator::new(templates, &module, &vjps);
        let scope = ModelScope {
            templates: &templates,
            config: &config,
            t,
            batch: BATCH,
            seq,
            attention: attention_kind,
        };
        let [queries, keys] = self.sizes();
        let segments = self.segments();
        let primal: Result<_, TemplateError> = module.try_define("primal", |b| {
            let parameter = |name: &str, sizes| b.parameter(name, ArrayShape::new(t, sizes));
            let (q, k, v) = (parameter("q", queries), parameter("k", keys), parameter("v", keys));
            // Nothing is turned.
            let phases = |value| b.full(ArrayShape::new(DType::F32, [seq, 2, HEAD_DIM / 2]), value);
            let table = RopeTable { cos: phases(1.0), sin: phases(0.0) };
            let segments = segments.as_ref().map(|ids| b.constant(Literal::s32s([BATCH, seq], ids)));
            attention(&scope, q, k, v, table, segments)
        });
        let primal = primal?;
        let gradient = backward(&module, &vjps, primal, &[0, 1, 2], SavePolicy::Nothing).unwrap().computation;
        let entry = module.define("entry", |b| {
            let sizes = [queries, keys, keys, queries];
            let all = sizes.map(|sizes| b.parameter("x", ArrayShape::new(t, sizes)));
            let result = b.call(primal, &all[..3]);
            b.tuple(&[vec![result], b.call(gradient, &all).elements()].concat())
        });
        Ok(module.finish("attention", entry.unwrap(), vec![]))
    }

    /// The same in float64.
    fn expected(&self) -> Vec<Vec<f64>> {
        let [q, k, v, d_o] = self.arguments().map(|literal| literal.to_f64s());
        let [queries, keys] = self.sizes();
        let at = |sizes: [usize; 4], row: usize, position: usize, head: usize| -> Range<usize> {
            let first = ((row * sizes[1] + position) * sizes[2] + head) * HEAD_DIM;
            first..first + HEAD_DIM
        };
        let scale = (HEAD_DIM as f64).sqrt().recip();
        let segments = self.segments().unwrap_or_else(|| vec![1; BATCH * self.seq]);
        let mut found = [&q, &q, &k, &v].map(|like| vec![0.0; like.len()]);
        let [o, dq, dk, dv] = &mut found;
        for (row, head, query) in (0..BATCH)
            .flat_map(|row| (0..self.heads).map(move |head| (row, head)))
            .flat_map(|(row, head)| (0..self.seq).map(move |query| (row, head, query)))
        {
            let kv_head = head / (self.heads / self.kv_heads);
            let here = at(queries, row, query, head);
            let there = |key: usize| at(keys, row, key, kv_head);
            let segment = |position: usize| segments[row * self.seq + position];
            let is_near = |key: usize| self.window.is_none_or(|window| key + window > query);
            let is_seen = |&key: &usize| segment(key) == segment(query) && is_near(key);
            let seen: Vec<usize> = (0..=query).filter(is_seen).collect();
            let weight = |&key: &usize| (scale * dot(&q[here.clone()], &k[there(key)])).exp();
            let total: f64 = seen.iter().map(weight).sum();
            let p: Vec<f64> = seen.iter().map(|key| weight(key) / total).collect();
            let dp: Vec<f64> = seen.iter().map(|&key| dot(&d_o[here.clone()], &v[there(key)])).collect();
            let mean = dot(&p, &dp);
            for ((&key, p), dp) in seen.iter().zip(&p).zip(&dp) {
                let ds = p * (dp - mean) * scale;
                add(&mut o[here.clone()], *p, &v[there(key)]);
                add(&mut dq[here.clone()], ds, &k[there(key)]);
                add(&mut dk[there(key)], ds, &q[here.clone()]);
                add(&mut dv[there(key)], *p, &d_o[here.clone()]);
            }
        }
        found.to_vec()
    }

    #[track_caller]
    fn check(&self, attention: Attention, limit: f64) {
        let found = self.run(attention, &TemplateLibrary::embedded());
        for ((name, found), expected) in ["o", "dq", "dk", "dv"].iter().zip(found).zip(self.expected()) {
            let error = relative_error(&found, &expected);
            assert!(error <= limit, "{name} of {attention:?}: {error:.1e} is beyond {limit:.0e}");
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(sum: &mut [f64], factor: f64, part: &[f64]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += factor * part);
}

#[test]
fn every_way_agrees_with_the_formula() {
    for block in [1, 4, 5, 13, 512] {
        GROUPED.check(Attention::Blocks(block), 1e-6);
    }
    GROUPED.check(Attention::Dense, 1e-6);
    let as_many_keys = Case { heads: 3, kv_heads: 3, ..GROUPED };
    as_many_keys.check(Attention::Blocks(6), 1e-6);
    let one_key = Case { heads: 3, kv_heads: 1, seq: 8, ..GROUPED };
    one_key.check(Attention::Blocks(4), 1e-6);
    Case { t: DType::BF16, ..GROUPED }.check(Attention::Blocks(5), 1e-2);
}

#[test]
fn a_sequence_does_not_see_its_neighbours_in_a_row() {
    // One begins and ends inside of a block, one fills several, and the second row ends with padding.
    let packed = Case { packed: Some([&[3, 2, 8], &[7, 4]]), ..GROUPED };
    packed.check(Attention::Dense, 1e-6);
    for block in [1, 4, 5, 13] {
        packed.check(Attention::Blocks(block), 1e-6);
    }
}

#[test]
fn a_query_sees_no_further_than_the_window() {
    for window in [2, 5, 12] {
        let case = Case { window: Some(window), ..GROUPED };
        case.check(Attention::Dense, 1e-6);
        for block in [1, 4, 5, 13] {
            case.check(Attention::Blocks(block), 1e-6);
        }
    }
    // A query that sees only itself takes its own value, and no gradient reaches queries and keys.
    let alone = Case { window: Some(1), ..GROUPED };
    for attention in [Attention::Dense, Attention::Blocks(4)] {
        let [found, expected] = [alone.run(attention, &TemplateLibrary::embedded()), alone.expected()];
        for index in [0, 3] {
            assert!(relative_error(&found[index], &expected[index]) <= 1e-6, "{attention:?}");
        }
        assert!(found[1].iter().chain(&found[2]).all(|gradient| gradient.abs() < 1e-5), "{attention:?}");
    }
    let packed = Case { window: Some(3), packed: Some([&[3, 2, 8], &[7, 4]]), ..GROUPED };
    packed.check(Attention::Dense, 1e-6);
    packed.check(Attention::Blocks(4), 1e-6);
}

#[test]
fn a_window_as_long_as_the_row_changes_nothing() {
    for attention in [Attention::Dense, Attention::Blocks(4)] {
        let printed = |window| {
            let module = Case { window, ..GROUPED }.module(attention, &TemplateLibrary::embedded());
            text::print(&verify(module).unwrap())
        };
        assert_eq!(printed(Some(13)), printed(None));
        assert_ne!(printed(Some(12)), printed(None));
    }
}

/// A file for each platform, and the one of this platform is taken.
#[test]
fn a_template_for_the_platform_replaces_attention() {
    let case = GROUPED;
    let folder = tempfile::tempdir().unwrap();
    let [queries, keys] = case.sizes().map(|sizes| sizes.map(|size| size.to_string()).join(","));
    // It gives each query its own value, as if it saw nothing else.
    let kernel = format!(
        "HloModule kernel\n\nENTRY kernel {{\n  q = f32[{queries}] parameter(0)\n  k = f32[{keys}] parameter(1)\n  \
         v = f32[{keys}] parameter(2)\n  zero = f32[] constant(0)\n  sums = f32[2,13,$heads] broadcast(zero), dimensions={{}}\n  \
         wide = f32[2,13,2,3,8] broadcast(v), dimensions={{0,1,2,4}}\n  o = f32[{queries}] reshape(wide)\n  \
         ROOT both = (f32[{queries}], f32[2,13,$heads]) tuple(o, sums)\n}}\n"
    );
    std::fs::write(folder.path().join("attention@cpu.hlo"), kernel).unwrap();
    let templates =
        |platform| TemplateLibrary::replaced_from(folder.path(), Some(platform), &["cpu", "cuda"]).unwrap();
    let usual = case.run(Attention::Dense, &TemplateLibrary::embedded());
    assert_eq!(case.run(Attention::Dense, &templates("cuda")), usual);
    let problem =
        Case { window: Some(4), ..GROUPED }.try_module(Attention::Dense, &templates("cpu")).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the template `attention` cannot replace attention with a sliding window of 4 positions"
    );
    assert_eq!(problem.hint().as_deref(), Some("leave the template out, or use rows of at most 4 positions"));
    let found = case.run(Attention::Blocks(4), &templates("cpu"));
    let [_, _, v, d_o] = case.arguments().map(|literal| literal.to_f64s());
    let own = |index: usize| {
        v[(index / (6 * HEAD_DIM) * 2 + index / HEAD_DIM % 6 / 3) * HEAD_DIM + index % HEAD_DIM]
    };
    assert_eq!(found[0], (0..d_o.len()).map(own).collect::<Vec<f64>>());
    assert!(found[1].iter().all(|dq| *dq == 0.0), "nothing flows back to the queries");
}
