//! The names in the metadata of a step's instructions, before and after a compiler.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path};

use hloom::{
    base::{DType, MemorySpace, Partitioner},
    hlo::{Opcode, Verified, proto},
    mesh,
    model::{Config, LoraSpec, nn::Attention},
    pjrt::{CompileOptions, PjrtProgram, ProgramFormat},
    step::{Packing, Remat, StepKind, StepOptions, StepSpec, Workload, build, scopes, tensors},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_client},
};

const PROGRAMS: [StepKind; 6] = [
    StepKind::Train,
    StepKind::Accumulate,
    StepKind::Apply,
    StepKind::Evaluate,
    StepKind::Logits,
    StepKind::NextLogits,
];

/// Builds a program of the small model, on a mesh if a config is named.
fn program(kind: StepKind, options: StepOptions, packing: Packing, config: Option<&str>) -> Verified {
    let model = Config::builtin("tiny").unwrap();
    let lora = LoraSpec::all_linear(4, 8.0).resolve(&model).unwrap();
    let workload = Workload { packing, ..Workload::new(&model, &lora, DType::F32, 16, 8) };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs");
    let plan = config.map(|name| {
        mesh::load(&folder.join(format!("{name}.toml"))).unwrap().plan(&tensors(workload), 8).unwrap()
    });
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { options, mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
    build(&spec, kind).unwrap_or_else(|error| panic!("{error}")).module
}

/// Options that differ in what they build.
fn variants() -> Vec<StepOptions> {
    let plain = StepOptions::for_length(8);
    let size = NonZeroUsize::new;
    let remat = |remat: Remat| StepOptions { remat: Some(remat), remat_every: size(1), ..plain };
    let mut variants: Vec<StepOptions> = Remat::ALL.into_iter().map(remat).collect();
    variants.push(StepOptions { micro_batches: size(2).unwrap(), loss_chunk: size(3), ..plain });
    variants.push(StepOptions { attention: Attention::Blocks(4), weights: MemorySpace::Host, ..plain });
    variants
}

/// Every instruction has a path that starts as `scopes` says, except for arguments and constraints on them, parameters of
/// calls and loops, and the instructions of reducers.
#[test]
fn every_instruction_of_every_program_is_named() {
    let plain = StepOptions::for_length(8);
    let trained = variants().into_iter().map(|options| (StepKind::Train, options));
    for (kind, options) in PROGRAMS.into_iter().map(|kind| (kind, plain)).chain(trained) {
        for (packing, config) in [(Packing::Off, None), (Packing::On, Some("fsdp8"))] {
            let module = program(kind, options, packing, config);
            let module = module.module();
            let arguments: BTreeSet<&str> = module
                .entry()
                .parameters()
                .iter()
                .map(|&id| &*module.metadata.get(module.entry, id).unwrap().op_name)
                .collect();
            for found in module.inlined_op_names() {
                let instr = module.computation(found.computation).instr(found.instr);
                let own = module.metadata.get(found.computation, found.instr);
                if instr.opcode == Opcode::Parameter && found.computation != module.entry {
                    assert_eq!(own, None, "{kind:?} {options:?}: {}", instr.name);
                    continue;
                }
                let first = found.path.split('/').next().unwrap();
                assert!(
                    own.is_some() && (scopes::FIRST.contains(&first) || arguments.contains(first)),
                    "{kind:?} {options:?}: {}: {:?}",
                    instr.name,
                    found.path
                );
            }
        }
    }
}

/// The paths of a train step, once each.
fn paths(options: StepOptions) -> BTreeSet<String> {
    let module = program(StepKind::Train, options, Packing::Off, None);
    module.module().inlined_op_names().into_iter().map(|found| found.path.to_string()).collect()
}

#[test]
fn paths_are_as_the_documentation_has_them() {
    let has = |paths: &BTreeSet<String>, path: &str| assert!(paths.contains(path), "{path}: {paths:#?}");
    let full = paths(StepOptions { remat: Some(Remat::Full), ..StepOptions::for_length(8) });
    for path in [
        "q_proj.lora_A",
        "forward/embed_tokens/embed",
        "forward/layers/while",
        "forward/layers/q_proj.lora_A/dynamic-slice",
        "forward/layers/input_layernorm/rms_norm/inverse",
        "forward/layers/self_attn/q_proj/lora_dense/down",
        "forward/layers/residuals/dynamic-update-slice",
        "forward/head/loss/cross_entropy",
        "backward/head/lm_head/logits/dot",
        "backward/head/rematted_computation/lm_head/logits",
        "backward/layers/mlp/down_proj/lora_dense/up/dot",
        "backward/layers/mlp/down_proj/lora_dense/rematted_computation/down",
        "backward/layers/rematted_computation/mlp/up_proj/lora_dense/frozen",
        "backward/layers/grad.q_proj.lora_A/dynamic-update-slice",
        "optimizer/adamw/m_next",
        "results/tuple",
    ] {
        has(&full, path);
    }
    let is_product =
        |path: &&String| path.contains("/rematted_computation/") && path.contains("_proj/lora_dense/frozen");
    let none = paths(StepOptions { remat: Some(Remat::None), ..StepOptions::for_length(8) });
    assert_eq!(none.iter().filter(is_product).count(), 0, "{none:#?}");
    let micro = StepOptions { micro_batches: NonZeroUsize::new(2).unwrap(), ..StepOptions::for_length(8) };
    let micro = paths(micro);
    has(&micro, "micro_batches/while");
    has(&micro, "forward/layers/self_attn/q_proj/lora_dense/down");
}

#[test]
fn templates_have_their_file_and_line() {
    let module = program(StepKind::Train, StepOptions::for_length(8), Packing::Off, None);
    let module = module.module();
    let found = module
        .inlined_op_names()
        .into_iter()
        .find(|found| found.path.ends_with("input_layernorm/rms_norm/inverse"));
    let found = found.unwrap();
    let metadata = module.metadata.get(found.computation, found.instr).unwrap();
    let line =
        include_str!("../hlo-templates/rms_norm.hlo").lines().position(|line| line.contains(" inverse = "));
    assert_eq!(&*metadata.source_file, "hlo-templates/rms_norm.hlo");
    assert_eq!(metadata.source_line as usize, line.unwrap() + 1);
}

/// Both partitioners and the passes of the CPU compiler keep the names.
#[test]
fn every_collective_of_a_compiled_step_is_named() {
    let client = cpu_client(CpuBuild::Pinned, 8);
    for partitioner in [Partitioner::Gspmd, Partitioner::Shardy] {
        let module =
            program(StepKind::Train, StepOptions::for_length(8), Packing::Off, Some("data2-fsdp2-tensor2"));
        let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: &proto::encode(&module) };
        let options = CompileOptions { partitioner, ..CompileOptions::for_devices(8) };
        let (_, optimized) =
            client.compile(program, &options).unwrap().executable().optimized_program().unwrap();
        let values = proto::computed_values(&optimized).unwrap();
        let is_collective = |opcode: &str| {
            ["all-", "reduce-scatter", "collective-"].iter().any(|start| opcode.starts_with(start))
        };
        let collectives: Vec<_> = values.iter().filter(|value| is_collective(&value.opcode)).collect();
        let unnamed: Vec<_> = collectives.iter().filter(|value| value.op_name.is_empty()).collect();
        assert!(collectives.len() > 10 && unnamed.is_empty(), "{partitioner:?}: {unnamed:#?}");
        let gathers = |phase: &str| {
            let path = format!("{phase}/layers/q_proj/reshape/sharding_constraint");
            collectives.iter().any(|value| value.opcode == "all-gather" && value.op_name == path)
        };
        assert!(gathers("forward") && gathers("backward"), "{partitioner:?}: {collectives:#?}");
    }
}
