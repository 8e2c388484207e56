//! Golden values from transformers and PEFT, on the CPU plugins.

use std::path::Path;

use hloom::{
    base::DType,
    pjrt::testing::{CpuBuild, cpu_plugin},
    runtime::{Devices, Engine},
    templates::Templates,
    train::{
        Model, TrainError,
        parity::{Case, compare},
    },
};

#[track_caller]
fn check(case: &str, build: CpuBuild) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(case);
    let model = Model::open(&folder).unwrap();
    let expected = folder.join("expected.safetensors");
    let case = Case { adapter: &folder, expected: &expected };
    let devices = Devices::new(None, None).unwrap();
    let engine = || Ok::<_, TrainError>(Engine::start(cpu_plugin(build), devices.target())?);
    let rows = compare(&model, case, engine, &devices, DType::F32, &Templates::embedded()).unwrap();
    let failed: Vec<_> = rows.iter().filter(|row| !row.passed()).collect();
    assert!(rows.len() > 20 && failed.is_empty(), "{failed:#?}");
}

#[test]
fn llama31() {
    check("llama31", CpuBuild::Pinned);
}

#[test]
fn llama32_tied() {
    check("llama32-tied", CpuBuild::Pinned);
}

#[test]
fn plain_rslora() {
    check("plain-rslora", CpuBuild::Pinned);
}

#[test]
fn llama31_on_the_oldest_plugin() {
    check("llama31", CpuBuild::Api081);
}
