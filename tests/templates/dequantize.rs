//! Dequantization: bit-equal to bitsandbytes, and to decoders of single elements.

use std::path::Path;

use half::{bf16, f16};
use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::{
        ArrayShape, DType, Literal, Partitioner,
        codebook::{NF4, dynamic_map},
    },
    hlo::{Builder, DotDims, ModuleBuilder, Sharding, Value, verify},
    model::nn::{QuantizedValues, block_dims, dequantize},
    pjrt::{CompileOptions, PjrtProgram, ProgramFormat},
    runtime::encode,
    templates::{Instantiator, TemplateLibrary},
    testing::{CpuBuild, cpu_client},
};
use safetensors::SafeTensors;

use crate::support::{Cpu, Random};

/// A way to store weights.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Nf4,
    Nf4Double,
    Int8,
    Hqq4,
    Q4_0,
    Q8_0,
}

const SCHEMES: [Scheme; 6] =
    [Scheme::Nf4, Scheme::Nf4Double, Scheme::Int8, Scheme::Hqq4, Scheme::Q4_0, Scheme::Q8_0];

/// The parts of a weight, in the order of the fields of [`QuantizedValues`].
fn values<'b>(scheme: Scheme, parts: &[Value<'b>]) -> QuantizedValues<'b> {
    match (scheme, parts) {
        (Scheme::Nf4, &[codes, absmax]) => QuantizedValues::Nf4 { codes, absmax },
        (Scheme::Nf4Double, &[codes, absmax, nested_absmax, offset]) => {
            QuantizedValues::Nf4Double { codes, absmax, nested_absmax, offset }
        }
        (Scheme::Int8, &[codes, scale]) => QuantizedValues::Int8 { codes, scale },
        (Scheme::Hqq4, &[codes, scale, zero]) => QuantizedValues::Hqq4 { codes, scale, zero },
        (Scheme::Q4_0, &[codes, scale]) => QuantizedValues::Q4_0 { codes, scale },
        (Scheme::Q8_0, &[codes, scale]) => QuantizedValues::Q8_0 { codes, scale },
        _ => panic!("{scheme:?} has no {} parts", parts.len()),
    }
}

/// Random parts of a weight.
fn random_parts(scheme: Scheme, output: &[usize], input: &[usize]) -> Vec<Literal> {
    let dims = [output, input].concat();
    let (last, outer) = dims.split_last().unwrap();
    let halved = [outer, &[last / 2]].concat();
    let mut random = Random::named(&format!("{scheme:?} {dims:?}"));
    let mut bytes = |dtype, dims: &[usize]| {
        let shape = ArrayShape::new(dtype, dims);
        let bytes = (0..shape.elements()).map(|_| random.below(256) as u8).collect();
        Literal::from_bytes(shape, bytes)
    };
    let nibbles = bytes(DType::U8, &halved);
    let signed = bytes(DType::S8, &dims);
    let absmax_dims = block_dims(&dims, 64);
    let nested_codes = bytes(DType::U8, &absmax_dims);
    let mut floats = |dtype, dims: &[usize]| random.array(dtype, dims, 2.0);
    match scheme {
        Scheme::Nf4 => vec![nibbles, floats(DType::F32, &absmax_dims)],
        Scheme::Nf4Double => {
            let nested = floats(DType::F32, &block_dims(&absmax_dims, 256));
            vec![nibbles, nested_codes, nested, floats(DType::F32, &[])]
        }
        Scheme::Int8 => vec![signed, floats(DType::F32, output)],
        Scheme::Hqq4 => vec![nibbles, floats(DType::F32, &absmax_dims), floats(DType::F32, &absmax_dims)],
        Scheme::Q4_0 => vec![nibbles, floats(DType::F16, &block_dims(&dims, 32))],
        Scheme::Q8_0 => vec![signed, floats(DType::F16, &block_dims(&dims, 32))],
    }
}

/// What the parts store, one element after another.
fn decoded(scheme: Scheme, parts: &[Literal], numel: usize, inputs: usize) -> Vec<f32> {
    let codes = parts[0].bytes();
    let nibble = |at: usize| usize::from(codes[at / 2] >> (4 * (1 - at % 2)) & 15);
    let signed = |at: usize| f32::from(codes[at].cast_signed());
    let float = |part: usize, at: usize| -> f32 {
        let bytes = parts[part].bytes();
        match parts[part].shape().dtype {
            DType::F16 => f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            _ => f32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap()),
        }
    };
    let table = dynamic_map();
    let element = |at: usize| match scheme {
        Scheme::Nf4 => NF4[nibble(at)] * float(1, at / 64),
        Scheme::Nf4Double => {
            let scaled = table[usize::from(parts[1].bytes()[at / 64])] * float(2, at / 64 / 256);
            NF4[nibble(at)] * (scaled + float(3, 0))
        }
        Scheme::Int8 => signed(at) * float(1, at / inputs),
        Scheme::Hqq4 => (nibble(at) as f32 - float(2, at / 64)) * float(1, at / 64),
        Scheme::Q4_0 => (nibble(at) as f32 - 8.0) * float(1, at / 32),
        Scheme::Q8_0 => signed(at) * float(1, at / 32),
    };
    (0..numel).map(element).collect()
}

/// The weight that hloom makes of the parts.
fn dequantized(scheme: Scheme, t: DType, parts: &[Literal], output: &[usize], input: &[usize]) -> Literal {
    let (library, module, vjps) = (TemplateLibrary::embedded(), ModuleBuilder::new(), VjpTable::default());
    let templates = Instantiator::new(&library, &module, &vjps);
    let entry = module.define("main", |b| {
        let parts: Vec<_> = parts.iter().map(|part| b.parameter("part", part.shape().clone())).collect();
        b.tuple(&[dequantize(&templates, t, values(scheme, &parts), output, input).unwrap()])
    });
    let cpu = Cpu::start(CpuBuild::Pinned);
    cpu.compile(module.finish("dequantize", entry.unwrap(), vec![])).run(parts).remove(0)
}

fn golden() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/nf4/expected.safetensors"))
        .unwrap()
}

const GOLDEN: [(&str, usize, usize); 3] = [("square", 64, 64), ("wide", 48, 320), ("tall", 512, 64)];

#[test]
fn weights_have_the_bits_of_bitsandbytes() {
    let file = golden();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    for (name, out, inputs) in GOLDEN {
        let read = |part: &str, dtype, dims: &[usize]| {
            let bytes = tensors.tensor(&format!("{name}.{part}")).unwrap().data().to_vec();
            Literal::from_bytes(ArrayShape::new(dtype, dims), bytes)
        };
        let blocks = block_dims(&[out, inputs], 64);
        let codes = read("packed", DType::U8, &[out, inputs / 2]);
        let parts = [codes.clone(), read("absmax", DType::F32, &blocks)];
        let found = dequantized(Scheme::Nf4, DType::F32, &parts, &[out], &[inputs]);
        assert_eq!(found, read("dequant", DType::F32, &[out, inputs]), "{name}");

        assert_eq!(Literal::f32s([256], &dynamic_map()), read("dq.code", DType::F32, &[256]));
        let parts = [
            codes,
            read("dq.absmax", DType::U8, &blocks),
            read("dq.scale", DType::F32, &block_dims(&blocks, 256)),
            read("dq.offset", DType::F32, &[]),
        ];
        let found = dequantized(Scheme::Nf4Double, DType::F32, &parts, &[out], &[inputs]);
        assert_eq!(found, read("dq.dequant", DType::F32, &[out, inputs]), "{name}");
    }
}

#[test]
fn weights_are_what_their_elements_decode_to() {
    // Several dims on each side, blocks across dims, blocks that fit no dim, and a last block that is not full.
    let shapes: [(&[usize], &[usize]); 5] =
        [(&[8], &[128]), (&[2, 32], &[128]), (&[64], &[4, 16]), (&[8], &[176]), (&[3], &[34])];
    for scheme in SCHEMES {
        for (output, input) in shapes {
            let parts = random_parts(scheme, output, input);
            let (outputs, inputs): (usize, usize) = (output.iter().product(), input.iter().product());
            let expected = decoded(scheme, &parts, outputs * inputs, inputs);
            let found = dequantized(scheme, DType::F32, &parts, output, input);
            assert_eq!(found.shape().dims, [output, input].concat());
            assert_eq!(found.to_f32s(), expected, "{scheme:?} {output:?} {input:?}");
            let found = dequantized(scheme, DType::BF16, &parts, output, input);
            let rounded: Vec<f32> = expected.iter().map(|&value| bf16::from_f32(value).to_f32()).collect();
            assert_eq!(found.to_f32s(), rounded, "{scheme:?} {output:?} {input:?}");
        }
    }
}

fn times_weight<'b>(x: Value<'b>, weight: Value<'b>) -> Value<'b> {
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDims::default() };
    x.dot(weight, dims)
}

#[test]
fn the_gradient_goes_past_a_quantized_weight() {
    for scheme in SCHEMES {
        let parts = random_parts(scheme, &[8], &[64]);
        let (library, module, vjps) =
            (TemplateLibrary::embedded(), ModuleBuilder::new(), VjpTable::default());
        let templates = Instantiator::new(&library, &module, &vjps);
        let primal = module.define("primal", |b| {
            let x = b.parameter("x", ArrayShape::new(DType::F32, [3, 64]));
            let parts: Vec<_> = parts.iter().map(|part| b.parameter("part", part.shape().clone())).collect();
            let weight = dequantize(&templates, DType::F32, values(scheme, &parts), &[8], &[64]).unwrap();
            times_weight(x, weight)
        });
        let backward = backward(&module, &vjps, primal.unwrap(), &[0], SavePolicy::Nothing);
        let backward = backward.unwrap_or_else(|error| panic!("{scheme:?}: {error}")).computation;
        let cpu = Cpu::start(CpuBuild::Pinned);
        let dx = cpu.compile(module.finish("backward", backward, vec![]));
        let mut random = Random::named("gradient");
        let x = random.array(DType::F32, &[3, 64], 1.0);
        let dy = random.array(DType::F32, &[3, 8], 1.0);
        let found = dx.run(&[&[x], &parts[..], std::slice::from_ref(&dy)].concat()).remove(0);
        let (weight, dy) = (decoded(scheme, &parts, 8 * 64, 64), dy.to_f64s());
        let expected: Vec<f64> = (0..3 * 64)
            .map(|at| (0..8).map(|o| dy[at / 64 * 8 + o] * f64::from(weight[o * 64 + at % 64])).sum())
            .collect();
        let error = crate::support::relative_error(&found.to_f64s(), &expected);
        assert!(error < 1e-6, "{scheme:?}: {error:e}");
    }
}

/// The optimized module of `define` on four devices, as bytes in which the opcodes are text.
fn partitioned(define: impl for<'b> FnOnce(&'b Builder<'b>) -> Value<'b>) -> String {
    let module = ModuleBuilder::new();
    let entry = module.define("main", define).unwrap();
    let module = verify(module.finish("sharded", entry, vec![])).unwrap();
    let bytes = encode(&module, ProgramFormat::Hlo, Partitioner::default()).unwrap();
    let client = cpu_client(CpuBuild::Pinned, 4);
    let options = CompileOptions::for_devices(4);
    let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: &bytes };
    let compiled = client.compile(program, &options).unwrap();
    String::from_utf8_lossy(&compiled.executable().optimized_program().unwrap().1).into_owned()
}

const COLLECTIVES: [&str; 5] =
    ["all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"];

#[test]
fn shards_of_a_weight_are_dequantized_where_they_are() {
    let dims = [64, 4, 64];
    for scheme in SCHEMES {
        // On an output dim and on the outermost input dim.
        for dim in [0, 1] {
            let parts = random_parts(scheme, &dims[..1], &dims[1..]);
            let axes = |sizes: &[usize]| {
                let axes: Vec<Vec<usize>> = (0..sizes.len())
                    .map(|at| if at == dim && sizes[at].is_multiple_of(4) { vec![0] } else { vec![] })
                    .collect();
                if axes.concat().is_empty() { Sharding::Replicated } else { Sharding::on_mesh(&[4], &axes) }
            };
            let text = partitioned(|b| {
                let (library, vjps) = (TemplateLibrary::embedded(), VjpTable::default());
                let templates = Instantiator::new(&library, b.module(), &vjps);
                let parameter = |part: &Literal| {
                    let sharding = axes(&part.shape().dims);
                    b.parameter("part", part.shape().clone()).with_sharding(sharding)
                };
                let parts: Vec<Value<'_>> = parts.iter().map(parameter).collect();
                let weight = values(scheme, &parts);
                let weight = dequantize(&templates, DType::F32, weight, &dims[..1], &dims[1..]).unwrap();
                weight.with_sharding(axes(&dims))
            });
            for collective in COLLECTIVES {
                assert!(!text.contains(collective), "{scheme:?}, dim {dim}: {collective}");
            }
        }
    }
    let summed = partitioned(|b| {
        let x = b.parameter("x", ArrayShape::new(DType::F32, [8]));
        x.with_sharding(Sharding::on_mesh(&[4], &[vec![0]])).sum(&[0])
    });
    assert!(summed.contains("all-reduce"));
}
