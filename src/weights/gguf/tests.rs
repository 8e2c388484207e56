use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::fixture::Fixture;
use crate::{
    base::{DType, Diagnostic},
    model::{Config, Linear, Rope},
    weights::{Checkpoint, ModelFiles, WeightsError},
};

/// Two query heads and one key head of size four over two features.
fn llama() -> Fixture {
    let rows: Vec<f32> = (0..16).map(|i| i as f32).collect();
    Fixture::new()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 128)
        .u32("llama.embedding_length", 8)
        .u32("llama.feed_forward_length", 16)
        .u32("llama.attention.head_count", 2)
        .u32("llama.attention.head_count_kv", 1)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32s("blk.0.attn_q.weight", &[8, 2], &rows)
        .f32s("blk.0.attn_k.weight", &[4, 2], &rows[..8])
        .f32s("blk.0.attn_v.weight", &[4, 2], &rows[..8])
}

fn tokenizer(fixture: Fixture, pre: &str) -> Fixture {
    fixture
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", &["<s>", "</s>", "a", "b", "1", "ab", "Ġ", "<tool>"])
        .i32s("tokenizer.ggml.token_type", &[3, 3, 1, 1, 1, 1, 1, 4])
        .texts("tokenizer.ggml.merges", &["a b"])
        .u32("tokenizer.ggml.bos_token_id", 0)
        .u32("tokenizer.ggml.eos_token_id", 1)
        .text("tokenizer.chat_template", "{{ messages }}")
}

fn with_file<T>(fixture: &Fixture, test: impl FnOnce(&std::path::Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, fixture.bytes()).unwrap();
    test(&path)
}

/// The error is without the folder's name.
fn open<T>(
    fixture: &Fixture,
    get: impl FnOnce(&ModelFiles) -> Result<T, WeightsError>,
) -> Result<T, Diagnostic> {
    with_file(fixture, |path| {
        let folder = format!("{}/", path.parent().unwrap().display());
        let opened = ModelFiles::open(path).and_then(|files| get(&files));
        opened.map_err(|error| error.to_string().replace(&folder, "").into())
    })
}

#[test]
fn query_and_key_rows_come_back_in_hugging_face_order() {
    with_file(&llama(), |path| {
        let checkpoint = Checkpoint::open(path).unwrap();
        let check = |part: &str, expect: &[f64]| {
            let name = format!("model.layers.0.self_attn.{part}_proj.weight");
            assert_eq!(checkpoint.literal(&name, DType::BF16).unwrap().to_f64s(), expect, "{part}");
        };
        check("q", &[0., 1., 4., 5., 2., 3., 6., 7., 8., 9., 12., 13., 10., 11., 14., 15.]);
        check("k", &[0., 1., 4., 5., 2., 3., 6., 7.]);
        check("v", &[0., 1., 2., 3., 4., 5., 6., 7.]);
        let mut out = [0; 8];
        checkpoint
            .read("model.layers.0.self_attn.q_proj.weight", &[5..7, 1..2], DType::F32, &mut out)
            .unwrap();
        assert_eq!(out, [13f32.to_le_bytes(), 11f32.to_le_bytes()].concat()[..]);
    });
}

/// As the converter writes Qwen 2: no permutation, and biases of the query, key and value projections.
#[test]
fn qwen2_keeps_the_order_of_its_rows() {
    let rows: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let fixture = Fixture::new()
        .text("general.architecture", "qwen2")
        .u32("qwen2.block_count", 1)
        .u32("qwen2.context_length", 128)
        .u32("qwen2.embedding_length", 8)
        .u32("qwen2.feed_forward_length", 16)
        .u32("qwen2.attention.head_count", 2)
        .u32("qwen2.attention.head_count_kv", 1)
        .f32("qwen2.rope.freq_base", 1e6)
        .f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6)
        .f32s("blk.0.attn_q.weight", &[8, 2], &rows)
        .f32s("blk.0.attn_q.bias", &[8], &rows[8..]);
    with_file(&fixture, |path| {
        let checkpoint = Checkpoint::open(path).unwrap();
        let read = |name: &str| {
            let name = format!("model.layers.0.self_attn.q_proj.{name}");
            checkpoint.literal(&name, DType::F32).unwrap().to_f64s()
        };
        assert_eq!(read("weight"), (0..16).map(f64::from).collect::<Vec<_>>());
        assert_eq!(read("bias"), (8..16).map(f64::from).collect::<Vec<_>>());
    });
    let fields = open(&tokenizer(fixture, "qwen2"), ModelFiles::config).unwrap();
    let config = Config::from_hf(&fields, "m.gguf").unwrap();
    assert_eq!(config.biases, [Linear::Query, Linear::Key, Linear::Value].into());
    assert_eq!((config.rope, config.rms_norm_eps), (Rope::Default { theta: 1e6 }, 1e-6));
}

#[test]
fn the_config_is_hugging_faces() {
    let fixture = tokenizer(llama(), "smollm").f32("llama.rope.freq_base", 100_000.0).f32s(
        "blk.0.ffn_gate.bias",
        &[1],
        &[0.],
    );
    let config = open(&fixture, ModelFiles::config).unwrap();
    let expect = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100_000.0,
        "rope_scaling": null,
        "max_position_embeddings": 128,
        "vocab_size": 8,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "mlp_bias": true,
        "bos_token_id": 0,
        "eos_token_id": [1],
        "pad_token_id": null,
    });
    assert_eq!(config, expect);
}

#[test]
fn a_generation_ends_where_llama_cpp_ends_it() {
    let check = |fixture: Fixture, expect: &[usize]| {
        let tokens = ["<s>", "</s>", "a", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|end", "b"];
        let fixture = fixture.texts("tokenizer.ggml.tokens", &tokens);
        assert_eq!(open(&fixture, ModelFiles::config).unwrap()["eos_token_id"], json!(expect));
    };
    check(llama(), &[1, 3, 4, 5]);
    check(llama().u32("tokenizer.ggml.eos_token_id", 3), &[3, 1, 4, 5]);
    let named = llama().u32("tokenizer.ggml.eos_token_id", 3).u32("tokenizer.ggml.eot_token_id", 7);
    check(named, &[3, 7, 1, 4, 5]);
}

#[test]
fn a_split_model_is_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, fixture: Fixture| fs::write(folder.path().join(name), fixture.bytes()).unwrap();
    let part = |fixture: Fixture, number: u32, of: u32| {
        fixture.u32("split.no", number).u32("split.count", of).u32("split.tensors.count", 4)
    };
    let open = |name: &str| {
        let opened = Checkpoint::open(&folder.path().join(name));
        let prefix = format!("{}/", folder.path().display());
        opened.map_err(|error| error.to_string().replace(&prefix, ""))
    };
    write("m-00001-of-00002.gguf", part(llama(), 0, 2));
    let missing = "m-00001-of-00002.gguf: `split.count`: expected 2 parts, found none under the name m-00002-of-00002.gguf";
    assert_eq!(open("m-00001-of-00002.gguf").unwrap_err(), missing);
    let second = || part(Fixture::new(), 1, 2).f32s("output_norm.weight", &[2], &[5.0, 6.0]);
    write("m-00002-of-00002.gguf", second());
    for name in ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"] {
        let checkpoint = open(name).unwrap();
        assert_eq!(checkpoint.literal("model.norm.weight", DType::F32).unwrap().to_f64s(), [5.0, 6.0]);
        assert_eq!(checkpoint.names().count(), 4);
    }
    write("renamed.gguf", second());
    let renamed = "renamed.gguf: `split.count`: expected a file name that ends in -00001-of-00002.gguf, found renamed.gguf";
    assert_eq!(open("renamed.gguf").unwrap_err(), renamed);
    write("m-00002-of-00002.gguf", part(Fixture::new(), 0, 2));
    let wrong = "m-00002-of-00002.gguf: `split.no`: expected 1, as the file name says, found 0";
    assert_eq!(open("m-00001-of-00002.gguf").unwrap_err(), wrong);
    write("m-00002-of-00002.gguf", part(Fixture::new(), 1, 2));
    let few = "m-00001-of-00002.gguf: `split.tensors.count`: expected 4 tensors in all parts, found 3";
    assert_eq!(open("m-00001-of-00002.gguf").unwrap_err(), few);
    let rows: Vec<f32> = (0..8).map(|i| i as f32).collect();
    write("m-00002-of-00002.gguf", part(Fixture::new(), 1, 2).f32s("blk.0.attn_v.weight", &[4, 2], &rows));
    let twice =
        "m-00002-of-00002.gguf: tensor `blk.0.attn_v.weight`: duplicate; also in m-00001-of-00002.gguf";
    assert_eq!(open("m-00001-of-00002.gguf").unwrap_err(), twice);
}

#[test]
fn rope_scaling_is_recovered_or_refused() {
    let check = |fixture: Fixture, expect: Value| {
        let config =
            open(&tokenizer(fixture, "smollm").f32("llama.rope.freq_base", 500_000.0), ModelFiles::config);
        let found =
            config.map_or_else(|error| Value::String(error.message), |config| config["rope_scaling"].clone());
        assert_eq!(found, expect);
    };
    let linear = llama().text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0);
    check(linear, json!({ "rope_type": "linear", "factor": 4.0 }));
    let yarn = llama().text("llama.rope.scaling.type", "yarn");
    check(yarn, json!("m.gguf: `llama.rope.scaling.type`: expected none or linear, found yarn"));
    check(llama().f32s("rope_freqs.weight", &[2], &[1.0, 1.0]), Value::Null);
    check(
        llama().f32s("rope_freqs.weight", &[2], &[1.0, 7.0]),
        json!(
            "m.gguf: tensor `rope_freqs.weight`: expected the llama3 rule with factor 7, 1, 4 and 8192 positions, \
             found others"
        ),
    );
    let long = llama().f32("llama.rope.freq_base", 1e9).f32s("rope_freqs.weight", &[2], &[1.0, 8.0]);
    let config = open(&tokenizer(long, "smollm"), ModelFiles::config).unwrap();
    let expect = json!({
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    assert_eq!(config["rope_scaling"], expect);
}

#[test]
fn tokenizers_encode() {
    let check = |pre: &str, text: &str, expect: &[u32]| {
        let json = open(&tokenizer(llama(), pre), ModelFiles::tokenizer_json).unwrap();
        let encoding = Tokenizer::from_bytes(json).unwrap().encode(text, true).unwrap();
        assert_eq!(encoding.get_ids(), expect, "{pre}: {text}");
    };
    check("smollm", "ab 11<s>", &[5, 6, 4, 4, 0]);
    check("smollm", "a<tool>b", &[2, 7, 3]);
    check("gpt-2", "ab", &[5]);
    check("qwen2", "ab 11<s>", &[5, 6, 4, 4, 0]);
    check("default", "ab1", &[5, 4]);
    check("llama-bpe", "ab", &[0, 5]);
    let asked = tokenizer(llama(), "gpt-2").flag("tokenizer.ggml.add_eos_token", true);
    let json = open(&asked, ModelFiles::tokenizer_json).unwrap();
    assert_eq!(Tokenizer::from_bytes(json).unwrap().encode("ab", true).unwrap().get_ids(), [5, 1]);
}

#[test]
fn the_tokenizer_config_names_its_tokens() {
    let config = open(&tokenizer(llama(), "smollm"), ModelFiles::tokenizer_config).unwrap();
    let expect = json!({
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{{ messages }}",
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    assert_eq!(config, expect);
}

#[test]
fn what_is_no_plain_llama_is_refused() {
    let check = |fixture: Fixture, expect: &str| {
        assert_eq!(open(&fixture, ModelFiles::tokenizer_json).unwrap_err().message, expect);
    };
    let named = |name| Fixture::new().text("general.architecture", name);
    check(Fixture::new(), "m.gguf: `general.architecture`: missing");
    check(named("gemma"), "m.gguf: `general.architecture`: expected one of llama, qwen2, found gemma");
    check(
        named("qwen2").u32("qwen2.attention.sliding_window", 8),
        "m.gguf: `qwen2.attention.sliding_window`: not a plain Llama: this setting is not supported",
    );
    check(
        named("llama").u32("llama.expert_count", 8),
        "m.gguf: `llama.expert_count`: not a plain Llama: this setting is not supported",
    );
    check(
        named("llama").text("tokenizer.ggml.model", "llama"),
        "m.gguf: `tokenizer.ggml.model`: expected a byte-level BPE tokenizer, gpt2, found llama",
    );
    check(
        tokenizer(llama(), "tekken"),
        "m.gguf: `tokenizer.ggml.pre`: expected one of smollm, llama-bpe, llama3, llama-v3, qwen2, gpt-2, default, found tekken",
    );
}

#[test]
fn settings_out_of_range_are_refused() {
    let check = |fixture: Fixture, expect: &str| {
        let opened = open(&fixture, |files| files.config().map(drop).and(files.checkpoint().map(drop)));
        assert_eq!(opened.unwrap_err().message, expect);
    };
    let bare = || Fixture::new().text("general.architecture", "llama");
    check(bare(), "m.gguf: `llama.attention.head_count`: missing");
    check(
        bare().u32("llama.attention.head_count", 0),
        "m.gguf: `llama.attention.head_count`: expected at least one head, found 0",
    );
    check(
        tokenizer(llama(), "smollm").u32("llama.rope.dimension_count", 2),
        "m.gguf: `llama.rope.dimension_count`: expected the head size 4, found 2",
    );
    check(
        tokenizer(llama(), "smollm").f32s("blk.1.attn_q.weight", &[6, 1], &[0.; 6]),
        "m.gguf: tensor `model.layers.1.self_attn.q_proj.weight`: expected 2 heads of an even size, found shape [6, 1]",
    );
}

proptest! {
    #[test]
    fn a_mutated_file_never_panics(at in 0usize..2000, bytes: [u8; 2]) {
        let fixture = tokenizer(llama(), "smollm").f32s("rope_freqs.weight", &[2], &[1.0, 8.0]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let mut mutated = fixture.bytes();
        let at = at % (mutated.len() - 2);
        mutated[at..at + 2].copy_from_slice(&bytes);
        fs::write(&path, mutated).unwrap();
        if let Ok(files) = ModelFiles::open(&path) {
            let _ = (files.config(), files.tokenizer_json(), files.tokenizer_config(), files.chat_template());
            if let Ok(checkpoint) = files.checkpoint() {
                checkpoint.names().for_each(|name| drop(checkpoint.literal(name, DType::BF16)));
            }
        }
    }
}
