//! Steps with a quantized base, against the same steps with the weights that it stands for.

use std::{collections::BTreeMap, path::Path};

use hloom::{
    base::{ArrayShape, DType, Literal, MemorySpace, Scheme},
    data::Batch,
    mesh,
    model::{BaseStorage, LoraSpec, Param, PartId, base_params, nn::Attention},
    pjrt::ProgramFormat,
    runtime::{DeviceMesh, Engine},
    step::{Remat, Role, StepOptions, StepSpec, Workload},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
    train::{Model, TrainableValues, Trainer},
    weights::read_safetensors,
};

use crate::{
    support::{Random, logits, relative_error, world::golden},
    templates::decoded,
};

const SEQ: usize = 24;
const RATES: [f64; 3] = [1e-2, 5e-3, 2e-3];

/// What a step computes: losses of updates, gradients before them, trained factors after them.
struct Found {
    losses: Vec<f64>,
    gradients: TrainableValues,
    trained: TrainableValues,
    weights: BTreeMap<Param, Literal>,
}

fn open(case: &str) -> Model {
    Model::open(&golden(case)).unwrap_or_else(|error| panic!("{error}"))
}

fn devices(mesh: Option<&str>) -> DeviceMesh {
    let file = tempfile::NamedTempFile::new().unwrap();
    let loaded = mesh.map(|text| {
        std::fs::write(file.path(), text).unwrap();
        mesh::load(file.path()).unwrap()
    });
    DeviceMesh::new(None, loaded).unwrap()
}

/// A batch with labels everywhere.
fn batch(rows: usize, vocab: usize) -> Batch {
    let mut random = Random::named("quantized");
    let ids: Vec<i32> = (0..rows * SEQ).map(|_| random.below(vocab) as i32).collect();
    let ids = Literal::s32s([rows, SEQ], &ids);
    Batch::new(ids.clone(), ids)
}

/// Trains at these learning rates with the base stored as `base`; `replaced` are weights in place of those of the model.
fn train(
    model: &Model,
    base: BaseStorage,
    mesh: Option<&str>,
    options: StepOptions,
    rates: &[f64],
    replaced: &BTreeMap<Param, Literal>,
) -> Found {
    let devices = devices(mesh);
    let lora = LoraSpec::all_linear(4, 8.0).resolve(&model.config).unwrap();
    let rows = 4;
    let workload = Workload { base, ..Workload::new(&model.config, &lora, DType::F32, rows, SEQ) };
    let plan = devices.plan(workload).unwrap_or_else(|problems| panic!("{problems}"));
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: plan.as_ref(), options, ..StepSpec::new(workload, &templates) };
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), ProgramFormat::Hlo).unwrap();
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap();
    for (&param, value) in replaced {
        trainer.put(Role::Base(PartId::whole(param)), value).unwrap();
    }
    let mut random = Random::named("factors");
    let factors = trainer.trainable().into_iter().map(|spec| {
        let dims: Vec<usize> = spec.dims.iter().map(|&(_, size)| size).collect();
        (spec.id, random.array(DType::F32, &dims, 0.1))
    });
    trainer.start(&factors.collect()).unwrap();
    let batch = batch(rows, model.config.vocab_size);
    let (loss, gradients) = trainer.gradients(std::slice::from_ref(&batch)).unwrap();
    let updates = rates.iter().map(|&rate| trainer.step(&batch, rate).unwrap().loss);
    let losses = [loss].into_iter().chain(updates).map(f64::from).collect();
    let weights = match base {
        BaseStorage::Plain(_) => BTreeMap::new(),
        BaseStorage::Quantized(scheme) => dequantized(&trainer, model, scheme),
    };
    Found { losses, gradients, trained: trainer.trained().unwrap(), weights }
}

/// The weights that the parts on the devices stand for, decoded one element after another.
fn dequantized(trainer: &Trainer<'_>, model: &Model, scheme: Scheme) -> BTreeMap<Param, Literal> {
    let specs = base_params(&model.config);
    let weights = specs.iter().filter(|spec| matches!(spec.param, Param::Weight(_))).map(|spec| {
        let part = |format: &hloom::base::PartFormat| {
            let id = PartId { param: spec.param, part: Some(format.part) };
            trainer.get(Role::Base(id)).unwrap()
        };
        let stacks: Vec<Literal> = scheme.parts().iter().map(part).collect();
        let [rows, columns] = spec.stored_sizes()[..] else { panic!("{} is no matrix", spec.name) };
        let layers = model.config.num_hidden_layers;
        let layer = |layer: usize| {
            let slice = |stack: &Literal| {
                let shape = ArrayShape::new(stack.shape().dtype, &stack.shape().dims[1..]);
                let size = shape.bytes();
                Literal::from_bytes(shape, stack.bytes()[layer * size..][..size].to_vec())
            };
            let parts: Vec<Literal> = stacks.iter().map(slice).collect();
            decoded(scheme, &parts, rows * columns, columns)
        };
        let values: Vec<f32> = (0..layers).flat_map(layer).collect();
        let sizes: Vec<usize> = spec.dims().iter().map(|&(_, size)| size).collect();
        (spec.param, Literal::f32s(sizes, &values))
    });
    weights.collect()
}

#[track_caller]
fn same(what: &str, found: &Found, expected: &Found) {
    let error = relative_error(&found.losses, &expected.losses);
    assert!(error < 1e-5, "{what}: losses {:?}, expected {:?}", found.losses, expected.losses);
    let pairs =
        [("gradient", &found.gradients, &expected.gradients), ("value", &found.trained, &expected.trained)];
    for (kind, found, expected) in pairs {
        for (id, expected) in expected {
            let error = relative_error(&found[id].to_f64s(), &expected.to_f64s());
            assert!(error < 1e-5, "{what}: {kind} of {id}: {error:e}");
        }
    }
}

fn usual() -> StepOptions {
    StepOptions::for_length(SEQ)
}

/// Pairs of devices that split every layer, and two pairs that share the weights at rest.
const MESH: &str = r#"
[mesh]
fsdp = 2
tensor = 2
[store]
embed = "fsdp"
heads = "tensor"
kv_heads = "tensor"
mlp = "tensor"
vocab = "tensor"
[compute]
batch = "fsdp"
heads = "tensor"
kv_heads = "tensor"
mlp = "tensor"
vocab = "tensor"
[policy]
indivisible = "replicate"
axis_conflict = "replicate"
"#;

#[test]
fn a_step_is_that_of_the_dequantized_weights() {
    let model = open("llama31");
    let plain = BaseStorage::Plain(DType::F32);
    let original = train(&model, plain, None, usual(), &[], &BTreeMap::new());
    for &scheme in Scheme::ALL {
        let base = BaseStorage::Quantized(scheme);
        let found = train(&model, base, None, usual(), &[], &BTreeMap::new());
        same(scheme.name(), &found, &train(&model, plain, None, usual(), &[], &found.weights));
        let error = relative_error(&found.losses, &original.losses);
        assert!(
            error > 1e-6 && error < 0.05,
            "{scheme:?}: {error:e} from the losses of the original weights"
        );
    }
}

#[test]
fn memory_options_and_meshes_change_nothing() {
    let model = open("llama31");
    let whole = BTreeMap::new();
    for (scheme, rates) in [(Scheme::Nf4Double, &RATES[..]), (Scheme::Int8, &[])] {
        let base = BaseStorage::Quantized(scheme);
        let expected = train(&model, base, None, usual(), rates, &whole);
        let lean = StepOptions {
            attention: Attention::Blocks(7),
            remat: Some(Remat::Full),
            remat_every: std::num::NonZeroUsize::new(2),
            micro_batches: std::num::NonZeroUsize::new(2).unwrap(),
            weights: MemorySpace::Host,
            ..usual()
        };
        same("lean", &train(&model, base, None, lean, rates, &whole), &expected);
        for partitioner in ["gspmd", "shardy"] {
            let mesh = format!("{MESH}[partitioner]\nkind = \"{partitioner}\"\n");
            let options = StepOptions { remat: Some(Remat::Dots), ..usual() };
            same(partitioner, &train(&model, base, Some(&mesh), options, rates, &whole), &expected);
        }
    }
}

#[test]
fn weights_that_bitsandbytes_quantized_give_the_logits_of_transformers() {
    for (case, scheme) in [("nf4", Scheme::Nf4), ("nf4-double", Scheme::Nf4Double), ("int8", Scheme::Int8)] {
        let model = open(&format!("bitsandbytes/{case}"));
        assert_eq!(model.config.quantized, Some(scheme));
        let folder = golden(&format!("bitsandbytes/{case}"));
        let expected = read_safetensors(&Path::new(&folder).join("expected.safetensors")).unwrap();
        for base in [BaseStorage::Quantized(scheme), BaseStorage::Plain(DType::F32)] {
            let ids: Vec<i32> = expected["input_ids"].to_f64s().into_iter().map(|id| id as i32).collect();
            let logits = logits(&model, base, &Literal::s32s([2, 12], &ids));
            let error = relative_error(&logits.to_f64s(), &expected["logits"].to_f64s());
            assert!(error < 1e-5, "{case} as {base}: {error:e}");
        }
    }
}
