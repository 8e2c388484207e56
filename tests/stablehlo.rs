//! Programs as StableHLO: every plugin takes them, and they compute what the HLO protos compute.

use std::{env, ffi::OsString, path::Path};

use hloom::{
    base::{DType, Literal, Partitioner, Shape},
    data::Batch,
    hlo::{Attrs, Module, Opcode, Verified, proto::computed_values, text, verify},
    mesh,
    model::{Config, LoraSpec},
    pjrt::{CompileOptions, MemoryStats, PjrtProgram, ProgramFormat},
    runtime::{
        DeviceMesh, Engine,
        compile_worker::{CompileJob, CompiledProgram, WorkerProgram, compile_in_worker},
        encode,
    },
    step::{self, StepKind, StepSpec, Workload},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_client, cpu_plugin, installed_package},
    train::{Model, Trainer, initial_factors},
};

use crate::support::{Cpu, Random};

/// The module with every opcode, without what no plugin runs: calls of unknown targets, a loop without an end, shardings for
/// eight devices, and a tuple as a result.
fn every_opcode() -> Module {
    let text = include_str!("every_opcode.hlo").replace("multiply(a, a)", "subtract(seven, a)");
    let text = text.replace("double {", "double {\n  seven = s32[] constant(7)");
    // The CPU plugin does not compile a clamp of an array between scalars.
    let text = text.replace("clamp(one, x, one)", "clamp(x, abs.1, x)");
    let mut module = text::parse(&text, "every_opcode.hlo").unwrap();
    module.frontend_attributes.clear();
    let main = module.computations.last_mut().unwrap();
    for instr in &mut main.instrs {
        instr.sharding = None;
        instr.frontend_attributes.clear();
        if instr.opcode == Opcode::CustomCall {
            (instr.opcode, instr.attrs) = match instr.shape {
                Shape::Tuple(_) => (Opcode::Tuple, Attrs::Plain),
                Shape::Array(_) => (Opcode::Constant, Attrs::Constant(Literal::scalar(DType::F32, 3.0))),
            };
        }
    }
    let shapes: Vec<Shape> = main.instrs.iter().map(|instr| instr.shape.clone()).collect();
    let root = &mut main.instrs[main.root.index()];
    root.operands.retain(|operand| matches!(shapes[operand.index()], Shape::Array(_)));
    root.shape = Shape::Tuple(root.operands.iter().map(|operand| shapes[operand.index()].clone()).collect());
    module
}

fn arguments(module: &Verified) -> Vec<Literal> {
    let mut random = Random::named("every opcode");
    let shapes = module.entry().parameter_shapes().into_iter().map(|shape| shape.as_array().unwrap());
    let argument = |shape: &hloom::base::ArrayShape| match shape.dtype {
        DType::Pred => {
            let halves: Vec<f64> = (0..shape.elements()).map(|_| random.below(2) as f64).collect();
            Literal::from_f64s(shape.clone(), halves)
        }
        dtype => random.array(dtype, &shape.dims, 3.0),
    };
    shapes.map(argument).collect()
}

#[test]
fn every_opcode_has_the_results_of_its_proto() {
    let module = verify(every_opcode()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    for &opcode in Opcode::ALL.iter().filter(|&&opcode| opcode != Opcode::CustomCall) {
        let mut instrs = module.computations().flat_map(|(_, computation)| &computation.instrs);
        assert!(instrs.any(|instr| instr.opcode == opcode), "{opcode}");
    }
    let arguments = arguments(&module);
    for &build in CpuBuild::ALL {
        let cpu = Cpu::start(build);
        let [proto, stablehlo] =
            ProgramFormat::ALL.map(|format| cpu.compile_as(format, module.module().clone()).run(&arguments));
        assert_eq!(proto.len(), stablehlo.len(), "{build:?}");
        for (number, (expected, found)) in proto.iter().zip(&stablehlo).enumerate() {
            assert_eq!(found, expected, "{build:?}: result {number}");
        }
    }
}

/// What JAX writes for each of the partitioners, with the calls of results that Shardy has.
#[test]
fn annotations_of_jax_compile_as_their_protos() {
    let sources = [
        (Partitioner::Gspmd, include_str!("annotated_gspmd.hlo")),
        (Partitioner::Shardy, include_str!("annotated_shardy.hlo")),
    ];
    for &build in CpuBuild::ALL {
        let client = cpu_client(build, 4);
        for (partitioner, source) in sources {
            let module = text::parse(source, "annotated.hlo").and_then(verify).unwrap();
            let options = CompileOptions { partitioner, ..CompileOptions::for_devices(4) };
            let [proto, stablehlo] = ProgramFormat::ALL.map(|format| {
                let bytes = encode(&module, format, partitioner).unwrap();
                let compiled = client.compile(PjrtProgram { format, bytes: &bytes }, &options).unwrap();
                compiled.executable().memory().unwrap()
            });
            assert_eq!(stablehlo, proto, "{build:?}, {partitioner:?}");
        }
    }
}

/// The mesh of a shipped config, for one of the partitioners.
fn devices(name: &str, partitioner: Partitioner) -> DeviceMesh {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("mesh-configs/{name}.toml"));
    let mut loaded = mesh::load(&file).unwrap();
    loaded.config.partitioner = partitioner;
    DeviceMesh::new(None, Some(loaded)).unwrap()
}

/// The losses and gradient norms of three steps, as bits, and the bytes of the adapters after them.
fn train(devices: &DeviceMesh, format: ProgramFormat) -> (Vec<[u32; 2]>, Vec<Literal>) {
    let model = Model::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama31")).unwrap();
    let lora = LoraSpec::all_linear(4, 8.0).resolve(&model.config).unwrap();
    let (batch, seq) = (2 * devices.batch_shards(), 16);
    let workload = Workload::new(&model.config, &lora, DType::F32, batch, seq);
    let plan = devices.plan(workload).unwrap_or_else(|problems| panic!("{problems}"));
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), format).unwrap();
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap();
    trainer.start(&initial_factors(&model.config, &lora, 0)).unwrap();
    let mut random = Random::named("ids");
    let ids: Vec<i32> = (0..batch * seq).map(|_| random.below(model.config.vocab_size) as i32).collect();
    let ids = Literal::s32s([batch, seq], &ids);
    let rows = Batch::new(ids.clone(), ids);
    let steps = (0..3).map(|_| {
        let metrics = trainer.step(&rows, 0.01).unwrap();
        [metrics.loss.to_bits(), metrics.grad_norm.to_bits()]
    });
    let steps = steps.collect();
    (steps, trainer.trained().unwrap().into_values().collect())
}

#[test]
fn losses_are_those_of_the_proto() {
    let one = DeviceMesh::new(None, None).unwrap();
    let [proto, stablehlo] = ProgramFormat::ALL.map(|format| train(&one, format));
    assert_eq!(stablehlo, proto);
    assert!(proto.0[2][0] < proto.0[0][0], "the loss does not fall: {:?}", proto.0);
}

#[test]
fn sharded_losses_are_those_of_the_proto() {
    for partitioner in [Partitioner::Gspmd, Partitioner::Shardy] {
        let devices = devices("data2-fsdp2-tensor2", partitioner);
        let [proto, stablehlo] = ProgramFormat::ALL.map(|format| train(&devices, format));
        assert_eq!(stablehlo, proto, "{partitioner:?}");
    }
}

/// Compiles a training step for devices that need not be present.
fn compile(
    plugin: &Path,
    target: &Target,
    mesh: Option<(&str, Partitioner)>,
    format: ProgramFormat,
) -> CompiledProgram {
    let config = Config::builtin("tiny").unwrap();
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
    let workload = Workload::new(&config, &lora, DType::BF16, 8, 32);
    let plan = mesh.map(|(name, partitioner)| devices(name, partitioner).plan(workload).unwrap().unwrap());
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
    let module = step::build(&spec, StepKind::Train).unwrap().module;
    let partitioner = mesh.map_or(Partitioner::default(), |(_, partitioner)| partitioner);
    let bytes = encode(&module, format, partitioner).unwrap();
    let options = CompileOptions { partitioner, ..target.compile_options() };
    let program = PjrtProgram { format, bytes: &bytes };
    let job = CompileJob { plugin, target, program, options: &options };
    let worker = WorkerProgram {
        program: env!("CARGO_BIN_EXE_hloom").into(),
        args: vec![OsString::from("compile-worker")],
        environment: vec![],
        timeout: None,
        scratch: env::temp_dir(),
    };
    compile_in_worker(&job, &worker).unwrap_or_else(|error| panic!("{target}, {mesh:?}, {format:?}: {error}"))
}

/// The pinned CPU build runs what it compiles, in the tests above.
#[test]
fn every_platform_compiles_stablehlo_to_the_memory_of_the_proto() {
    let gspmd = Some(("fsdp8", Partitioner::Gspmd));
    let shardy = Some(("fsdp8", Partitioner::Shardy));
    for (package, cases) in [
        ("cpu-0.81", vec![("cpu:1", None), ("cpu:8", gspmd)]),
        ("cuda", vec![("h100:8", shardy)]),
        ("rocm", vec![("mi300x:8", gspmd)]),
        ("tpu", vec![("v5e:2x4", shardy)]),
    ] {
        let Some(plugin) = installed_package(package) else { continue };
        for (target, mesh) in cases {
            let target: Target = target.parse().unwrap();
            let [proto, stablehlo] = ProgramFormat::ALL.map(|format| compile(&plugin, &target, mesh, format));
            let number = |compiled: &CompiledProgram| computed_values(&compiled.optimized).unwrap().len();
            let (expected, found) = (number(&proto), number(&stablehlo));
            assert!(found.abs_diff(expected) <= expected / 50, "{target}, {mesh:?}: {expected}, {found}");
            let (proto, stablehlo) = (proto.memory, stablehlo.memory);
            let temporaries = stablehlo.temporaries.abs_diff(proto.temporaries);
            // The order of instructions can differ, and with it what shares a buffer.
            assert!(
                temporaries <= proto.temporaries.unsigned_abs() / 100,
                "{target}, {mesh:?}: {temporaries}"
            );
            let arguments = |memory: &MemoryStats| (memory.arguments, memory.outputs, memory.aliased);
            assert_eq!(arguments(&stablehlo), arguments(&proto), "{target}, {mesh:?}");
        }
    }
}
