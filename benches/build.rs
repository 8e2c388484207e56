//! How long it takes to build programs, to their bytes: the largest model should take no more than 20 ms, 30 ms with the
//! shardings of a mesh, and its module no more than a megabyte. `cargo bench --bench build`.

use std::{fs, hint::black_box, path::Path};

use criterion::{Criterion, criterion_group, criterion_main};
use hloom::{
    base::DType,
    hlo::{proto, text},
    mesh,
    model::{Config, LoraPlan, LoraSpec},
    step::{StepKind, StepSpec, Workload, build, tensors},
    templates::TemplateLibrary,
};

/// A model with all its linears adapted.
fn adapted(name: &str) -> (Config, LoraPlan) {
    let config = Config::builtin(name).unwrap();
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
    (config, lora)
}

fn train_step<'a>(config: &'a Config, lora: &'a LoraPlan, templates: &'a TemplateLibrary) -> StepSpec<'a> {
    StepSpec::new(Workload::new(config, lora, DType::BF16, 8, 2048), templates)
}

/// Graph, backward pass, optimizer, verification, encoding.
fn builds(c: &mut Criterion) {
    let templates = TemplateLibrary::embedded();
    for name in ["tiny", "llama3.1-405b"] {
        let (config, lora) = adapted(name);
        let spec = train_step(&config, &lora, &templates);
        let bytes = || proto::encode(&build(black_box(&spec), StepKind::Train).unwrap().module);
        let size = bytes().len();
        assert!(size < 1_000_000, "the module of {name} has {size} bytes");
        c.bench_function(&format!("build {name} to {size} bytes"), |b| b.iter(bytes));
    }
}

/// The same with the shardings of a mesh, the mesh config checked for the model first.
fn shards(c: &mut Criterion) {
    let templates = TemplateLibrary::embedded();
    let (config, lora) = adapted("llama3.1-405b");
    let plain = train_step(&config, &lora, &templates);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/mi300x-8-fsdp.toml");
    let loaded = mesh::load(&file).unwrap();
    let bytes = || {
        let plan = loaded.plan(&tensors(black_box(plain.workload)), 8).unwrap();
        proto::encode(&build(&StepSpec { mesh: Some(&plan), ..plain }, StepKind::Train).unwrap().module)
    };
    let size = bytes().len();
    c.bench_function(&format!("build llama3.1-405b on a mesh to {size} bytes"), |b| b.iter(bytes));
}

fn texts(c: &mut Criterion) {
    let templates = TemplateLibrary::embedded();
    let (config, lora) = adapted("llama3.1-405b");
    let built = build(&train_step(&config, &lora, &templates), StepKind::Train).unwrap();
    let printed = text::print(&built.module);
    c.bench_function("print llama3.1-405b", |b| b.iter(|| text::print(black_box(&built.module))));
    c.bench_function("parse llama3.1-405b", |b| b.iter(|| text::parse(black_box(&printed), "step").unwrap()));
}

/// Every template, with arguments for whatever gives a module.
fn templates(c: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hlo-templates");
    let mut filled = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "hlo") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let mut parts = text.split('$');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let name = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
            whole.push_str(match &part[..name] {
                "t" => "f32",
                "half" | "weight_in" | "a_in" | "nibble_dim" | "index_dim" => "1",
                // Four values in two bytes and in two blocks.
                "codes_dims" | "kept_dims" | "out_dims" => "0",
                "dims" => "4",
                "split" => "2,2",
                _ => "2",
            });
            whole.push_str(&part[name..]);
        }
        filled.push(whole);
    }
    let parse =
        || filled.iter().map(|text| text::parse(black_box(text), "template").unwrap()).collect::<Vec<_>>();
    c.bench_function("parse all templates", |b| b.iter(parse));
}

criterion_group!(benches, builds, shards, texts, templates);
criterion_main!(benches);
