//! Golden values from transformers and PEFT, on the CPU plugins, on one device and on meshes of several.

use std::{num::NonZeroUsize, path::Path};

use hloom::{
    base::DType,
    mesh,
    model::{BaseStorage, nn::Attention},
    pjrt::ProgramFormat,
    runtime::{DeviceMesh, Engine},
    step::{Remat, StepOptions},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
    train::{
        Model, TrainError,
        parity::{CaseFiles, ParityCase, ParityReport, ParitySetup},
    },
};

/// Blocks and chunks that do not divide the 96 positions of a case.
fn lean(remat: Remat) -> StepOptions {
    StepOptions {
        attention: Attention::Blocks(20),
        loss_chunk: NonZeroUsize::new(13),
        remat: Some(remat),
        ..StepOptions::for_length(96)
    }
}

/// With the input of every so many layers.
fn grouped(remat: Remat, layers: usize) -> StepOptions {
    StepOptions { remat_every: NonZeroUsize::new(layers), ..lean(remat) }
}

fn usual() -> StepOptions {
    StepOptions::for_length(96)
}

/// The golden case on the devices of a mesh config, a file of `mesh-configs/` or the text of one. `full/CASE` trains every
/// weight of the model of `CASE`.
#[track_caller]
fn check_on(case: &str, build: CpuBuild, mesh: Option<&str>, options: StepOptions) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let base = golden.join(case.strip_prefix("full/").unwrap_or(case));
    let model = Model::open(&base).unwrap();
    let expected = golden.join(case).join("expected.safetensors");
    let adapter = (!case.starts_with("full/")).then_some(base.as_path());
    let case = ParityCase::open(&model, CaseFiles { adapter, expected: &expected });
    let case = case.unwrap_or_else(|error| panic!("{error}"));
    let written = tempfile::NamedTempFile::new().unwrap();
    let loaded = mesh.map(|text| {
        std::fs::write(written.path(), text).unwrap();
        mesh::load(written.path()).unwrap()
    });
    let devices = DeviceMesh::new(None, loaded).unwrap();
    let engine =
        || Ok::<_, TrainError>(Engine::start(cpu_plugin(build), devices.target(), ProgramFormat::Hlo)?);
    let templates = TemplateLibrary::embedded();
    let setup = ParitySetup {
        devices: &devices,
        dtype: DType::F32,
        base: BaseStorage::Plain(DType::F32),
        options,
        templates: &templates,
    };
    let found = case.compare(setup, engine);
    let ParityReport { rows, warnings } = found.unwrap_or_else(|error| panic!("{error}"));
    let failed: Vec<_> = rows.iter().filter(|row| !row.passed()).collect();
    assert!(rows.len() > 20 && failed.is_empty(), "{failed:#?}");
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[track_caller]
fn check(case: &str, build: CpuBuild, options: StepOptions) {
    check_on(case, build, None, options);
}

/// The golden case on eight devices, under one of the partitioners.
#[track_caller]
fn check_sharded(case: &str, mesh: &str, partitioner: &str, options: StepOptions) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs").join(mesh);
    let text = format!("extends = \"{}\"\n[partitioner]\nkind = \"{partitioner}\"\n", file.display());
    check_on(case, CpuBuild::Pinned, Some(&text), options);
}

/// A vocabulary of 259 over as many devices, which it does not divide into.
#[track_caller]
fn check_padded(devices: usize, partitioner: &str) {
    let text = format!(
        "[mesh]\ntensor = {devices}\n[store]\nvocab = \"tensor\"\n[compute]\nvocab = \"tensor\"\n\
         [policy]\nindivisible = \"pad\"\n[partitioner]\nkind = \"{partitioner}\"\n"
    );
    check_on("llama32-tied", CpuBuild::Pinned, Some(&text), lean(Remat::Full));
}

#[test]
fn llama31() {
    check("llama31", CpuBuild::Pinned, StepOptions { remat: Some(Remat::Full), ..usual() });
}

#[test]
fn llama31_in_blocks() {
    check("llama31", CpuBuild::Pinned, lean(Remat::Full));
}

#[test]
fn llama32_tied_keeping_products() {
    check("llama32-tied", CpuBuild::Pinned, StepOptions { remat: Some(Remat::Dots), ..usual() });
}

#[test]
fn plain_rslora_keeping_all() {
    check("plain-rslora", CpuBuild::Pinned, lean(Remat::None));
}

#[test]
fn plain_rslora_in_groups_of_layers() {
    check("plain-rslora", CpuBuild::Pinned, grouped(Remat::Dots, 2));
}

#[test]
fn llama31_in_micro_batches() {
    let micro_batches = NonZeroUsize::new(2).unwrap();
    check("llama31", CpuBuild::Pinned, StepOptions { micro_batches, ..grouped(Remat::Full, 1) });
}

#[test]
fn every_weight_of_llama32_tied_in_micro_batches() {
    let micro_batches = NonZeroUsize::new(2).unwrap();
    check("full/llama32-tied", CpuBuild::Pinned, StepOptions { micro_batches, ..grouped(Remat::Full, 1) });
}

#[test]
fn every_weight_of_llama31_on_fsdp8() {
    check_sharded("full/llama31", "fsdp8.toml", "gspmd", lean(Remat::Full));
}

#[test]
fn every_weight_of_llama31_on_fsdp4_tensor2_with_shardy() {
    check_sharded("full/llama31", "fsdp4-tensor2.toml", "shardy", grouped(Remat::None, 1));
}

#[test]
fn llama31_on_the_oldest_plugin() {
    check("llama31", CpuBuild::Api081, lean(Remat::None));
}

#[test]
fn llama31_on_fsdp8() {
    check_sharded("llama31", "fsdp8.toml", "gspmd", lean(Remat::Full));
}

#[test]
fn llama32_tied_on_fsdp8_with_shardy() {
    check_sharded("llama32-tied", "fsdp8.toml", "shardy", grouped(Remat::None, 1));
}

#[test]
fn plain_rslora_on_fsdp4_tensor2() {
    check_sharded("plain-rslora", "fsdp4-tensor2.toml", "gspmd", grouped(Remat::Dots, 2));
}

#[test]
fn llama31_on_fsdp4_tensor2_with_shardy() {
    check_sharded("llama31", "fsdp4-tensor2.toml", "shardy", lean(Remat::Dots));
}

#[test]
fn llama32_tied_on_data2_fsdp2_tensor2() {
    check_sharded("llama32-tied", "data2-fsdp2-tensor2.toml", "gspmd", lean(Remat::None));
}

#[test]
fn plain_rslora_on_data2_fsdp2_tensor2_with_shardy() {
    check_sharded("plain-rslora", "data2-fsdp2-tensor2.toml", "shardy", usual());
}

#[test]
fn qwen2() {
    check("qwen2", CpuBuild::Pinned, StepOptions { remat: Some(Remat::Full), ..usual() });
}

#[test]
fn qwen2_in_blocks() {
    check("qwen2", CpuBuild::Pinned, grouped(Remat::Dots, 2));
}

#[test]
fn qwen2_on_fsdp8() {
    check_sharded("qwen2", "fsdp8.toml", "gspmd", lean(Remat::Full));
}

#[test]
fn qwen2_on_fsdp4_tensor2_with_shardy() {
    check_sharded("qwen2", "fsdp4-tensor2.toml", "shardy", lean(Remat::Dots));
}

#[test]
fn mistral() {
    check("mistral", CpuBuild::Pinned, StepOptions { remat: Some(Remat::Full), ..usual() });
}

#[test]
fn mistral_in_blocks() {
    check("mistral", CpuBuild::Pinned, lean(Remat::None));
}

#[test]
fn mistral_on_fsdp8_with_shardy() {
    check_sharded("mistral", "fsdp8.toml", "shardy", lean(Remat::Full));
}

#[test]
fn mistral_on_data2_fsdp2_tensor2() {
    check_sharded("mistral", "data2-fsdp2-tensor2.toml", "gspmd", usual());
}

#[test]
fn an_odd_vocabulary_over_two() {
    check_padded(2, "gspmd");
}

#[test]
fn an_odd_vocabulary_over_four_with_shardy() {
    check_padded(4, "shardy");
}

#[test]
fn llama31_on_fsdp8_on_the_oldest_plugin() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/fsdp8.toml");
    let text = std::fs::read_to_string(file).unwrap();
    check_on("llama31", CpuBuild::Api081, Some(&text), lean(Remat::Full));
}
