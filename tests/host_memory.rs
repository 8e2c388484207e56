//! Weights and saved layer inputs in the host's memory: the same numbers, and the room that it leaves on devices.

use std::{collections::BTreeSet, env, ffi::OsString};

use hloom::{
    base::{ArrayShape, DType, Literal, MemorySpace, Partitioner, Shape},
    hlo::{
        ComparisonDirection, CustomCall, DotDims, Module, ModuleBuilder, Sharding, SideEffect, Value, proto,
        verify,
    },
    mesh::Dim,
    model::{Param, PartId},
    pjrt::{CompileOptions, MemoryStats, PjrtProgram, ProgramFormat},
    runtime::compile_worker::{CompileJob, WorkerProgram, compile_in_worker},
    runtime::{DeviceState, Engine, encode},
    step::{Role, Slot, StepProgram},
    targets::Target,
    testing::{CpuBuild, cpu_client, cpu_plugin, installed_package},
};

use crate::support::Random;

/// Layers that multiply with a matrix, and back: the forward loop saves what goes into each, the backward loop reads it.
#[derive(Clone, Copy)]
struct Layers {
    layers: usize,
    batch: usize,
    embed: usize,
    dtype: DType,
    devices: usize,
}

const SMALL: Layers = Layers { layers: 3, batch: 4, embed: 8, dtype: DType::F32, devices: 1 };
const LARGE: Layers = Layers { layers: 16, batch: 1024, embed: 1024, dtype: DType::BF16, devices: 1 };

const WEIGHTS: Role = Role::Base(PartId::whole(Param::Head));
const INPUT: Role = Role::Logits;
const GRADIENT: Role = Role::NextLogits;

impl Layers {
    fn weights(self) -> ArrayShape {
        ArrayShape::new(self.dtype, [self.layers, self.embed, self.embed])
    }

    fn input(self) -> ArrayShape {
        ArrayShape::new(self.dtype, [self.batch, self.embed])
    }

    fn saved(self) -> ArrayShape {
        ArrayShape::new(self.dtype, [self.layers, self.batch, self.embed])
    }

    /// Splits one dimension over all devices.
    fn split(self, rank: usize, dim: usize) -> Sharding {
        let mut dims = vec![vec![]; rank];
        dims[dim] = vec![0];
        if self.devices == 1 { Sharding::Replicated } else { Sharding::on_mesh(&[self.devices], &dims) }
    }

    /// Says how a value is to lie, in the way of a mesh config.
    fn constrained<'b>(self, value: Value<'b>, sharding: Sharding) -> Value<'b> {
        if self.devices == 1 {
            return value;
        }
        let (target, side_effect, backend_config) = ("Sharding".into(), SideEffect::Absent, String::new());
        let call = CustomCall { target, side_effect, backend_config };
        value.builder().custom_call(call, &[value], value.shape()).with_sharding(sharding)
    }

    /// One layer of a stack, from where it lies.
    fn layer<'b>(self, stack: Value<'b>, index: Value<'b>, memory: MemorySpace) -> Value<'b> {
        let [_, rows, columns] = stack.dims()[..] else { panic!("a stack has three dimensions") };
        let zero = stack.builder().scalar(DType::S32, 0.0);
        let layer = stack.dynamic_slice(&[index, zero, zero], &[1, rows, columns]);
        let layer = self.constrained(layer, self.split(3, 1));
        let layer =
            if memory == MemorySpace::Host { layer.to_memory_space(MemorySpace::Device) } else { layer };
        layer.reshape(&[rows, columns])
    }

    fn loops(self, memory: MemorySpace) -> Module {
        let module = ModuleBuilder::new();
        let carried = Shape::Tuple(vec![
            Shape::scalar(DType::S32),
            self.input().into(),
            self.weights().into(),
            self.saved().into(),
        ]);
        let condition = |comparison, bound: f64| {
            module
                .define("condition", |b| {
                    let index = b.parameter("carried", carried.clone()).get(0);
                    index.compare(comparison, b.scalar(DType::S32, bound))
                })
                .unwrap()
        };
        let (forwards, backwards) =
            (condition(ComparisonDirection::Lt, self.layers as f64), condition(ComparisonDirection::Ge, 0.0));
        let product = |x: Value<'_>, contracted: usize| DotDims {
            lhs_contracting: vec![x.dims().len() - 1],
            rhs_contracting: vec![contracted],
            ..DotDims::default()
        };
        let forward = module.define("forward", |b| {
            let [index, x, weights, saved] = b.parameter("carried", carried.clone()).elements()[..] else {
                panic!("four values are carried")
            };
            let row = x.reshape(&[1, self.batch, self.embed]);
            let row = if memory == MemorySpace::Host { row.to_memory_space(MemorySpace::Host) } else { row };
            let zero = b.scalar(DType::S32, 0.0);
            let saved = saved.dynamic_update_slice(row, &[index, zero, zero]);
            let y = x.dot(self.layer(weights, index, memory), product(x, 0)).tanh();
            b.tuple(&[index + 1.0, self.constrained(y, self.split(2, 0)), weights, saved])
        });
        let backward = module.define("backward", |b| {
            let [index, dy, weights, saved] = b.parameter("carried", carried.clone()).elements()[..] else {
                panic!("four values are carried")
            };
            let (x, weight) = (self.layer(saved, index, memory), self.layer(weights, index, memory));
            let y = x.dot(weight, product(x, 0)).tanh();
            let dx = (dy * y).dot(weight, product(x, 1));
            b.tuple(&[index - 1.0, self.constrained(dx, self.split(2, 0)), weights, saved])
        });
        let entry = module.define("main", |b| {
            let weights = b.parameter("weights", self.weights()).with_sharding(self.split(3, 1));
            let x = b.parameter("x", self.input()).with_sharding(self.split(2, 0));
            let saved = self.constrained(b.full(self.saved(), 0.0), self.split(3, 1));
            let start = b.tuple(&[b.scalar(DType::S32, 0.0), x, weights, saved]);
            let done = b.while_loop(forwards, *forward.as_ref().unwrap(), start);
            let last = b.scalar(DType::S32, self.layers as f64 - 1.0);
            let start = b.tuple(&[last, done.get(1), weights, done.get(3)]);
            let gradient = b.while_loop(backwards, *backward.as_ref().unwrap(), start).get(1);
            let gradient = self.constrained(gradient, self.split(2, 0));
            b.tuple(&[gradient]).with_sharding(Sharding::Tuple(vec![self.split(2, 0)]))
        });
        let module = module.finish("layers", entry.unwrap(), vec![]);
        let host_parameters = if memory == MemorySpace::Host { [0].into() } else { BTreeSet::new() };
        Module { host_parameters, ..module }
    }

    fn slot(self, role: Role, shape: &ArrayShape, split: usize, memory: MemorySpace) -> Slot {
        let dims = shape.dims.iter().map(|&size| (Dim::Embed, size)).collect();
        Slot { role, dims, dtype: self.dtype, sharding: self.split(shape.rank(), split), memory }
    }

    /// The gradient, computed on the CPU.
    fn run(self, memory: MemorySpace) -> Literal {
        let target: Target = format!("cpu:{}", self.devices).parse().unwrap();
        let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), &target, ProgramFormat::Hlo).unwrap();
        let weights = self.slot(WEIGHTS, &self.weights(), 1, memory);
        let program = StepProgram {
            module: verify(self.loops(memory)).unwrap_or_else(|diagnostics| panic!("{diagnostics}")),
            inputs: vec![weights.clone(), self.slot(INPUT, &self.input(), 0, MemorySpace::Device)],
            outputs: vec![self.slot(GRADIENT, &self.input(), 0, MemorySpace::Device)],
        };
        let compiled = engine.compile(program, None).unwrap();
        let mut random = Random::named("layers");
        let mut state = DeviceState::default();
        let values = random.array(self.dtype, &self.weights().dims, 1.0);
        state.insert(WEIGHTS, engine.upload(&weights, &values).unwrap());
        let input = random.array(self.dtype, &self.input().dims, 1.0);
        let inputs = [(INPUT, &input)];
        // Twice, as a loop of steps would.
        let first = engine.run(&compiled, &mut state, &inputs).unwrap().remove(&GRADIENT).unwrap();
        let second = engine.run(&compiled, &mut state, &inputs).unwrap().remove(&GRADIENT).unwrap();
        assert_eq!(first, second);
        assert_eq!(state.get(WEIGHTS).unwrap().to_literal().unwrap(), values);
        first
    }
}

#[test]
fn where_values_lie_changes_none_of_them() {
    for devices in [1, 2] {
        let layers = Layers { devices, ..SMALL };
        assert_eq!(layers.run(MemorySpace::Host), layers.run(MemorySpace::Device));
    }
}

#[test]
fn a_plugin_that_moves_nothing_says_so() {
    let module = verify(SMALL.loops(MemorySpace::Host)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let bytes = proto::encode(&module);
    let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: &bytes };
    let client = cpu_client(CpuBuild::Api081, 1);
    let error = client.compile(program, &CompileOptions::default()).unwrap_err();
    let hint = "this plugin does not support transfers between memories: use a newer one, or keep all tensors in device memory";
    assert_eq!(error.hint().as_deref(), Some(hint), "{error}");
}

/// What the compiler of a platform counts, if its plugin is installed.
fn count(
    package: &str,
    target: &str,
    layers: Layers,
    memory: MemorySpace,
    format: ProgramFormat,
) -> Option<MemoryStats> {
    let plugin = installed_package(package)?;
    let target: Target = target.parse().unwrap();
    let module = verify(layers.loops(memory)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let bytes = encode(&module, format, Partitioner::Gspmd).unwrap();
    let program = PjrtProgram { format, bytes: &bytes };
    let options = target.compile_options();
    let job = CompileJob { plugin: &plugin, target: &target, program, options: &options };
    let child = WorkerProgram {
        program: env!("CARGO_BIN_EXE_hloom").into(),
        args: vec![OsString::from("compile-worker")],
        environment: vec![],
        timeout: None,
        scratch: env::temp_dir(),
    };
    let compiled = compile_in_worker(&job, &child).unwrap_or_else(|error| panic!("{target}: {error}"));
    Some(compiled.memory)
}

/// Compiles with weights and saved inputs on the host, and without, for devices that are not there.
#[track_caller]
fn check_room(package: &str, target: &str, devices: usize, format: ProgramFormat) {
    let layers = Layers { devices, ..LARGE };
    let Some(host) = count(package, target, layers, MemorySpace::Host, format) else { return };
    let device = count(package, target, layers, MemorySpace::Device, format).unwrap();
    let (weights, saved) =
        ((layers.weights().bytes() / devices) as i64, (layers.saved().bytes() / devices) as i64);
    assert_eq!((host.host_arguments, host.host_temporaries), (weights, saved), "{target}");
    assert_eq!((device.host_arguments, device.host_temporaries), (0, 0), "{target}");
    // A TPU keeps a part of what is small in its vector memory, which is not counted.
    let room = device.total_allocation.unwrap() - host.total_allocation.unwrap();
    assert!(room > (weights + saved) / 4, "{target}: {room} of {weights} and {saved}");
}

#[test]
fn offloading_reduces_gpu_memory() {
    for (package, name) in [("cuda", "h100"), ("rocm", "mi300x")] {
        for format in ProgramFormat::ALL {
            check_room(package, &format!("{name}:1"), 1, format);
            check_room(package, &format!("{name}:8"), 8, format);
        }
    }
}

#[test]
fn offloading_reduces_tpu_memory() {
    for format in ProgramFormat::ALL {
        check_room("tpu", "v5e:1x1", 1, format);
        check_room("tpu", "v5e:2x4", 8, format);
    }
}
