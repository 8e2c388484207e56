//! Every program of every built-in model builds and verifies.

use hloom::{
    base::DType,
    hlo::proto,
    model::{Config, LoraSpec, builtin_names},
    step::{StepKind, StepSpec, Workload, build},
    templates::TemplateLibrary,
};

const PROGRAMS: [StepKind; 6] = [
    StepKind::Train,
    StepKind::Accumulate,
    StepKind::Apply,
    StepKind::Evaluate,
    StepKind::Logits,
    StepKind::NextLogits,
];

#[test]
fn every_program_of_every_model_verifies() {
    let templates = TemplateLibrary::embedded();
    for name in builtin_names() {
        let config = Config::builtin(name).unwrap();
        let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
        for (program, dtype) in PROGRAMS.into_iter().zip([DType::F32, DType::BF16].into_iter().cycle()) {
            let workload = Workload::new(&config, &lora, dtype, 2, 16);
            let spec = StepSpec::new(workload, &templates);
            let built = build(&spec, program).unwrap_or_else(|error| panic!("{name} {program:?}: {error}"));
            let bytes = proto::encode(&built.module);
            assert!(bytes.len() < 1_000_000, "{name} {program:?}: {} bytes", bytes.len());
        }
    }
}
