//! The time of one update of SmolLM2-135M on the CPU plugin: LoRA rank 8 on all linears, batch 4 x 256, float32.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use hloom::{
    base::{DType, Literal},
    data::Batch,
    model::LoraSpec,
    pjrt::ProgramFormat,
    runtime::Engine,
    step::{StepKind, StepSpec, Workload},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin, package_file},
    train::{Model, Trainer, initial_factors},
};

fn train_step(criterion: &mut Criterion) {
    let (batch, seq) = (4, 256);
    let model = Model::open(&package_file("smollm2")).expect("the model opens");
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&model.config).expect("all linears are there");
    let templates = TemplateLibrary::embedded();
    let workload = Workload::new(&model.config, &lora, DType::F32, batch, seq);
    let spec = StepSpec::new(workload, &templates);
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), &Target::default(), ProgramFormat::Hlo)
        .expect("the CPU is there");
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).expect("the weights load");
    trainer.start(&initial_factors(&model.config, &lora, 0)).expect("the adapters load");
    trainer.prepare(StepKind::Train).expect("the step compiles");

    let vocab = model.config.vocab_size;
    let ids: Vec<i32> = (0..batch * seq).map(|i| (i * 7919 % vocab) as i32).collect();
    let ids = Literal::s32s([batch, seq], &ids);
    let batch = Batch::new(ids.clone(), ids);
    let mut group = criterion.benchmark_group("smollm2-135m");
    group.sample_size(10).measurement_time(Duration::from_secs(30)).warm_up_time(Duration::from_secs(4));
    group.bench_function("train_step 4x256 f32", |b| {
        b.iter(|| trainer.step(black_box(&batch), 1e-4).expect("the step runs"));
    });
    group.finish();
}

criterion_group!(benches, train_step);
criterion_main!(benches);
