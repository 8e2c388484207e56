//! The mesh configs that are shipped, with the models they are meant for.

use std::{collections::BTreeSet, fs, path::Path};

use hloom::{
    base::{DType, Partitioner, Scheme},
    mesh::{check, load},
    model::{BaseStorage, Config, LoraSpec, builtin_names},
    pjrt::ProgramFormat,
    runtime::Engine,
    step::{StepKind, StepSpec, Workload, build, tensors},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
};

const ALL: &[&str] = &[
    "llama3.1-8b",
    "llama3.1-70b",
    "llama3.1-405b",
    "llama3.2-1b",
    "llama3.2-3b",
    "smollm2-135m",
    "qwen2.5-0.5b",
    "qwen2.5-7b",
    "qwen2.5-72b",
    "mistral-7b",
    "mistral-7b-v0.1",
    "tiny",
];
const LLAMAS: &[&str] = &["llama3.1-8b", "llama3.1-70b", "llama3.1-405b", "llama3.2-1b", "llama3.2-3b"];
const LARGE: &[&str] = &["llama3.1-70b", "llama3.1-405b"];

/// Each config with its devices and models.
const MEANT: &[(&str, usize, &[&str])] = &[
    ("single", 1, ALL),
    ("fsdp2", 2, ALL),
    ("rtx4090-2", 2, LLAMAS),
    ("data8", 8, ALL),
    ("fsdp8", 8, ALL),
    ("tensor8", 8, LLAMAS),
    ("fsdp4-tensor2", 8, ALL),
    ("data2-fsdp2-tensor2", 8, ALL),
    ("mi300x-8-fsdp", 8, LLAMAS),
    ("mi300x-8-tensor", 8, LLAMAS),
    ("v5e-8", 8, &["llama3.1-8b", "llama3.2-1b", "llama3.2-3b", "smollm2-135m", "tiny"]),
    ("v5p-64", 64, LARGE),
    ("mi300x-4x8", 32, LARGE),
];

#[test]
fn every_shipped_config_is_right_for_its_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs");
    for (name, devices, models) in MEANT {
        let loaded = load(&folder.join(format!("{name}.toml"))).unwrap();
        for model in *models {
            let config = Config::builtin(model).unwrap();
            let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
            let (dtype, batch, seq) = (DType::BF16, *devices, 512);
            let workload = Workload::new(&config, &lora, dtype, batch, seq);
            // The cards for which a base is quantized.
            let base =
                if *name == "rtx4090-2" { BaseStorage::Quantized(Scheme::Nf4Double) } else { workload.base };
            let report = check(&loaded, &tensors(Workload { base, ..workload }), Some(*devices));
            let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
            assert!(problems.is_empty(), "{model}:\n{}", problems.join("\n"));
            // A policy is made use of by a model whose heads are odd in number, and where an axis is for two dimensions.
            let odd_heads = *model == "smollm2-135m" && name.contains("tensor");
            let takes_turns = ["mi300x-8-tensor", "v5e-8"].contains(name);
            assert_eq!(report.notes.is_empty(), !odd_heads && !takes_turns, "{name}: {model}");
            let plan = report.plan.unwrap();
            let adapted = (lora.trainable_params(), plan.device_bytes());
            assert!(adapted.1.adapters * *devices as u64 >= adapted.0 * 4, "{name}: {model}");
            assert_eq!(adapted.1.optimizer, 2 * adapted.1.adapters + 4);
        }
    }
}

/// Both partitioners can follow every config step by step: none ever has all of a tensor on every device.
#[test]
fn no_shipped_config_makes_the_partitioner_warn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs");
    let templates = TemplateLibrary::embedded();
    for (name, devices, models) in MEANT {
        let config = Config::builtin(models[0]).unwrap();
        let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
        let workload = Workload::new(&config, &lora, DType::F32, *devices, 32);
        let mut plan =
            load(&folder.join(format!("{name}.toml"))).unwrap().plan(&tensors(workload), *devices).unwrap();
        let target: Target = format!("cpu:{devices}").parse().unwrap();
        let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), &target, ProgramFormat::Hlo).unwrap();
        for partitioner in [Partitioner::Gspmd, Partitioner::Shardy] {
            plan.partitioner = partitioner;
            let spec = StepSpec { mesh: Some(&plan), ..StepSpec::new(workload, &templates) };
            let compiled = engine.compile(build(&spec, StepKind::Train).unwrap(), Some(&plan)).unwrap();
            assert!(compiled.warnings().is_empty(), "{name}: {:#?}", compiled.warnings());
        }
    }
}

#[test]
fn every_config_is_shipped_for_some_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let shipped: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(shipped, MEANT.iter().map(|(name, ..)| (*name).to_owned()).collect());
    assert!(builtin_names().eq(ALL.iter().copied()));
    for name in shipped {
        let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        let comment = text.lines().take_while(|line| line.starts_with("# ")).count();
        assert_eq!(comment, 2, "{name}");
    }
}
