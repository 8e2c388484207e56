//! Dropout: the generator against JAX, the statistics of the mask, and that it depends on nothing but key and element.

use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::{ArrayShape, DType, Literal, MemorySpace, Partitioner},
    hlo::{CompId, ModuleBuilder, Sharding, verify},
    model::{
        Linear,
        nn::{DropoutRate, dropout, dropout_key},
    },
    pjrt::{Arg, CompileOptions, HostArray, PjrtProgram, ProgramFormat},
    runtime::encode,
    templates::{Instantiator, TemplateArg, TemplateLibrary},
    testing::{CpuBuild, cpu_client},
};

use crate::support::{Cpu, Random};

fn u32s(dims: &[usize], values: &[u32]) -> Literal {
    Literal::from_f64s(ArrayShape::new(DType::U32, dims), values.iter().map(|&value| f64::from(value)))
}

#[test]
fn random_words_are_those_of_jax() {
    // From jax.extend.random.threefry_2x32, JAX 0.10.2: key, counter, words. The first three are in the paper's test vectors.
    let cases = [
        ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
        ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
        ([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3], [0xc492_3a9c, 0x483d_f7a0]),
        ([7, 11], [3, 5], [0x5208_cf5a, 0x739f_35b0]),
    ];
    let args = [("dims", TemplateArg::Sizes(vec![1]))];
    for (key, counter, words) in cases {
        let arguments = [
            u32s(&[], &key[..1]),
            u32s(&[], &key[1..]),
            u32s(&[1], &counter[..1]),
            u32s(&[1], &counter[1..]),
        ];
        let expected = [u32s(&[1], &words[..1]), u32s(&[1], &words[1..])];
        assert_eq!(super::run("threefry2x32", &args, &arguments), expected);
    }
}

const RATE: f64 = 0.2;

/// What follows from `[seed, step, layer, first_row]` and `x` of these dims.
fn define(
    module: &ModuleBuilder,
    vjps: &VjpTable,
    linear: Linear,
    dims: &[usize],
    sharding: &Sharding,
) -> CompId {
    let library = TemplateLibrary::embedded();
    let templates = Instantiator::new(&library, module, vjps);
    let entry = module.define("dropped", |b| {
        let [seed, step, layer, first_row] = ["seed", "step", "layer", "first_row"]
            .map(|name| b.parameter(name, ArrayShape::new(DType::U32, [])));
        let x = b.parameter("x", ArrayShape::new(DType::F32, dims)).with_sharding(sharding.clone());
        let key = dropout_key(&templates, seed, step, layer, linear).unwrap();
        let y = dropout(&templates, DropoutRate::new(RATE).unwrap(), key, first_row, x).unwrap();
        y.with_sharding(sharding.clone())
    });
    entry.unwrap()
}

fn scalars(numbers: [u32; 4]) -> Vec<Literal> {
    numbers.iter().map(|&number| u32s(&[], &[number])).collect()
}

fn dropped(numbers: [u32; 4], linear: Linear, x: &Literal) -> Vec<f32> {
    let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
    let entry = define(&module, &vjps, linear, &x.shape().dims, &Sharding::Replicated);
    let function = Cpu::start(CpuBuild::Pinned);
    let function = function.compile(module.finish("dropout", entry, vec![]));
    function.run(&[&scalars(numbers)[..], std::slice::from_ref(x)].concat())[0].to_f32s()
}

fn ones(dims: &[usize]) -> Literal {
    Literal::from_f64s(ArrayShape::new(DType::F32, dims), vec![1.0; dims.iter().product()])
}

const DIMS: [usize; 4] = [8, 16, 4, 32];

#[test]
fn elements_are_kept_at_the_rate_and_independently_between_keys() {
    let masks = [
        dropped([1, 2, 3, 0], Linear::Query, &ones(&DIMS)),
        dropped([2, 2, 3, 0], Linear::Query, &ones(&DIMS)),
        dropped([1, 3, 3, 0], Linear::Query, &ones(&DIMS)),
        dropped([1, 2, 4, 0], Linear::Query, &ones(&DIMS)),
        dropped([1, 2, 3, 0], Linear::Key, &ones(&DIMS)),
    ];
    let count = DIMS.iter().product::<usize>() as f64;
    for (at, mask) in masks.iter().enumerate() {
        assert!(mask.iter().all(|&value| value == 0.0 || value == 1.25));
        for other in &masks[..at] {
            // Chi-square of the four pairs of outcomes, with three degrees of freedom: 16.3 is exceeded once in a thousand.
            let mut found = [0.0; 4];
            for (&one, &two) in mask.iter().zip(other) {
                found[usize::from(one == 0.0) * 2 + usize::from(two == 0.0)] += 1.0;
            }
            let (keep, drop) = (1.0 - RATE, RATE);
            let expected = [keep * keep, keep * drop, drop * keep, drop * drop].map(|share| share * count);
            let chi_square: f64 = found
                .iter()
                .zip(expected)
                .map(|(found, expected)| (found - expected).powi(2) / expected)
                .sum();
            assert!(chi_square < 16.3, "{chi_square}");
        }
    }
}

#[test]
fn a_mask_does_not_depend_on_micro_batches() {
    let whole = dropped([5, 6, 7, 0], Linear::Up, &ones(&DIMS));
    let half = [4, DIMS[1], DIMS[2], DIMS[3]];
    let halves = [0, 4].map(|first_row| dropped([5, 6, 7, first_row], Linear::Up, &ones(&half)));
    assert_eq!(halves.concat(), whole);
}

#[test]
fn a_mask_does_not_depend_on_the_mesh() {
    let whole = dropped([5, 6, 7, 0], Linear::Up, &ones(&DIMS));
    for dims in [
        [vec![0], vec![], vec![], vec![]],
        [vec![], vec![], vec![], vec![0]],
        [vec![], vec![0], vec![], vec![]],
    ] {
        let sharding = Sharding::on_mesh(&[8], &dims);
        let shard = sharding.shard_shape(&ArrayShape::new(DType::F32, DIMS)).unwrap();
        let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
        let entry = define(&module, &vjps, Linear::Up, &DIMS, &sharding);
        let module = verify(module.finish("dropout", entry, vec![])).unwrap();
        let bytes = encode(&module, ProgramFormat::Hlo, Partitioner::default()).unwrap();
        let client = cpu_client(CpuBuild::Pinned, 8);
        let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: &bytes };
        let compiled = client.compile(program, &CompileOptions::for_devices(8)).unwrap();
        let upload = |literal: &Literal, device| {
            let (bytes, shape, memory) = (literal.bytes(), literal.shape(), MemorySpace::Device);
            Arg::Donate(client.upload(HostArray { bytes, shape, device, memory }).unwrap())
        };
        let arguments = [scalars([5, 6, 7, 0]), vec![ones(&shard.dims)]].concat();
        let ids = client.devices().iter().map(|device| device.id);
        let arguments =
            ids.map(|id| arguments.iter().map(|argument| upload(argument, id)).collect()).collect();
        let results = compiled.execute(arguments).unwrap();
        for (device, result) in results.iter().enumerate() {
            let found = result[0].to_literal().unwrap().to_f32s();
            let expected: Vec<f32> = (0..whole.len())
                .filter(|&at| {
                    let dim = dims.iter().position(|axes| !axes.is_empty()).unwrap();
                    let inner: usize = DIMS[dim + 1..].iter().product();
                    at / inner % DIMS[dim] / shard.dims[dim] == device
                })
                .map(|at| whole[at])
                .collect();
            assert_eq!(found, expected, "{sharding}, device {device}");
        }
    }
}

#[test]
fn the_gradient_has_the_mask() {
    let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
    let primal = define(&module, &vjps, Linear::Down, &DIMS, &Sharding::Replicated);
    let backward = backward(&module, &vjps, primal, &[4], SavePolicy::Dots).unwrap();
    let parameters = module.get(backward.computation).parameter_shapes().len();
    assert_eq!(parameters, 6, "the arguments and the cotangent, but no mask");
    let cpu = Cpu::start(CpuBuild::Pinned);
    let function = cpu.compile(module.finish("backward", backward.computation, vec![]));
    let mut random = Random::named("dropout");
    let [x, dy] = [(); 2].map(|()| random.array(DType::F32, &DIMS, 1.0));
    let dx = function.run(&[&scalars([5, 6, 7, 0])[..], &[x, dy.clone()]].concat()).remove(0);
    let mask = dropped([5, 6, 7, 0], Linear::Down, &ones(&DIMS));
    let expected: Vec<f32> = mask.iter().zip(dy.to_f32s()).map(|(mask, dy)| mask * dy).collect();
    assert_eq!(dx.to_f32s(), expected);
}

#[test]
fn a_rate_is_a_probability() {
    for rate in [0.0, 1.0, -0.1, 1.5, f64::NAN] {
        assert_eq!(DropoutRate::new(rate), None, "{rate}");
    }
}
