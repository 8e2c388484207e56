//! Adapters merged into their base models.

use hloom::{
    app::merge::{Merged, merge, write_gguf},
    base::{DType, Literal},
    model::BaseStorage,
    store::Silent,
    train::{Model, open_adapter},
    weights::{read_adapter, read_safetensors},
};

use crate::support::{logits, relative_error, world::golden};

#[track_caller]
fn check(case: &str, dtype: DType, limit: f64) {
    let folder = golden(case);
    let model = Model::open(&folder).unwrap();
    let adapter = open_adapter(read_adapter(&folder).unwrap(), &model.config, case).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("merged");
    let Merged { merged, .. } = merge(&model, &adapter, dtype, &out, &mut Silent).unwrap();
    assert_eq!(merged, adapter.plan.iter().count());
    let expected = read_safetensors(&folder.join("expected.safetensors")).unwrap();
    let ids: Vec<i32> = expected["input_ids"].to_f64s().into_iter().map(|id| id as i32).collect();
    let ids = Literal::s32s(expected["input_ids"].shape().dims.clone(), &ids);
    let merged_model = Model::open(&out).unwrap_or_else(|error| panic!("{error}"));
    let error = relative_error(
        &logits(&merged_model, BaseStorage::Plain(DType::F32), &ids).to_f64s(),
        &expected["logits"].to_f64s(),
    );
    assert!(error < limit, "{case}: {error:e}");
    let again = merge(&model, &adapter, dtype, &out, &mut Silent).unwrap_err().to_string();
    assert!(again.starts_with("cannot create "), "{again}");
}

#[test]
fn a_merged_model_has_the_logits_of_peft() {
    // Adapters of several ranks, on some layers, with tied weights, with rank-stabilized scales.
    for case in ["llama31", "llama32-tied", "plain-rslora", "qwen2"] {
        check(case, DType::F32, 1e-5);
    }
    check("llama31", DType::BF16, 2e-2);
}

#[test]
fn an_adapter_is_written_for_llama_cpp() {
    let folder = golden("llama31");
    let model = Model::open(&folder).unwrap();
    let adapter = open_adapter(read_adapter(&folder).unwrap(), &model.config, "llama31").unwrap();
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("adapter.gguf");
    let tensors = write_gguf(&model, &adapter, &path).unwrap();
    assert_eq!(tensors, 2 * adapter.plan.iter().count());
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(&bytes[..8], b"GGUF\x03\0\0\0");
    assert_eq!(u64::from_le_bytes(bytes[8..16].try_into().unwrap()), tensors as u64);
}
