//! Model folders and files.

use hloom::base::Literal;
use serde_json::{Value, json};

use crate::support::world::{TRAIN, World};

const FOLDER_HINT: &str = "\nhint: a Hugging Face folder contains config.json, tokenizer.json, and model.safetensors or \
                           model.safetensors.index.json with its shards\n";

#[track_caller]
fn check(change: impl FnOnce(&World), expect: &str) {
    let world = World::new();
    change(&world);
    world.refuses(TRAIN, expect);
}

#[track_caller]
fn check_config(change: impl FnOnce(&mut Value), expect: &str) {
    check(|world| world.change_json("model/config.json", change), expect);
}

#[test]
fn a_missing_model_is_reported() {
    World::new().refuses(
        "train --model nowhere --data rows.jsonl --out out",
        "error: --model: expected a folder, a GGUF file or `smollm2-135m`, found none: nowhere\n\n\
         hint: a Hugging Face folder contains config.json, tokenizer.json and model.safetensors\n",
    );
    World::new().refuses(
        "train --model meta-llama/Llama-3.2-1B --data rows.jsonl --out out",
        "error: --model: expected a folder, a GGUF file or `smollm2-135m`, found none: meta-llama/Llama-3.2-1B\n\n\
         hint: models are not downloaded from a hub; download it and set its folder\n",
    );
    World::new().refuses(
        "train --model rows.jsonl --data rows.jsonl --out out",
        &format!(
            "error: rows.jsonl: expected a Hugging Face folder or a GGUF file, found JSON\n{FOLDER_HINT}"
        ),
    );
}

#[test]
fn missing_model_files_are_reported() {
    let missing = |file: &str, named: &str| {
        check(
            |world| world.remove(&format!("model/{file}")),
            &format!("error: no {named} in folder: model\n{FOLDER_HINT}"),
        );
    };
    missing("config.json", "config.json");
    missing("model.safetensors", "model.safetensors or model.safetensors.index.json");
    missing("tokenizer.json", "tokenizer.json");
}

#[test]
fn truncated_weights_are_refused() {
    let cut = |bytes, problem: &str| {
        check(
            |world| world.cut("model/model.safetensors", bytes),
            &format!(
                "error: model/model.safetensors is truncated: {problem}\n\n\
                 hint: download or copy the file again\n"
            ),
        );
    };
    cut(300_000, "expected 503136 bytes, found 300000");
    cut(1_000, "expected 2144 bytes, found 1000");
    cut(4, "expected 8 bytes, found 4");
}

#[test]
fn model_files_of_other_formats_are_refused() {
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 503136\n";
    let html = "<!DOCTYPE html>\n<html><body>Log in</body></html>\n";
    let lfs_hint =
        "the repository was cloned without the content of its large files: run `git lfs pull` in it";
    let html_hint = "a server's answer was saved in place of the file: download it again, from the address of the raw file, \
                     and logged in if access to the model is restricted";
    for (file, expected) in [
        ("model.safetensors", "a safetensors file"),
        ("config.json", "JSON"),
        ("tokenizer.json", "JSON"),
        ("tokenizer_config.json", "JSON"),
        ("chat_template.jinja", "a chat template"),
    ] {
        for (content, found, hint) in
            [(lfs, "a Git LFS pointer", lfs_hint), (html, "an HTML page", html_hint)]
        {
            check(
                |world| world.write(&format!("model/{file}"), content),
                &format!("error: model/{file}: expected {expected}, found {found}\n\nhint: {hint}\n"),
            );
        }
    }
}

#[test]
fn folders_of_other_formats_are_refused() {
    let bin = |world: &World| {
        world.remove("model/model.safetensors");
        world.write("model/pytorch_model.bin", "");
    };
    check(
        bin,
        "error: model: no model.safetensors or model.safetensors.index.json, found pytorch_model.bin\n\n\
         hint: convert the weights to safetensors: load the model with transformers and call `save_pretrained` with a new \
         folder\n",
    );
    let adapter = |world: &World| {
        world.remove("model/config.json");
        world.write("model/adapter_config.json", r#"{"base_model_name_or_path": "llama"}"#);
    };
    check(
        adapter,
        "error: model: an adapter without its model: found adapter_config.json and no config.json\n\n\
         hint: give its base model, llama, as the model, and this folder as the adapter\n",
    );
    let cache = |world: &World| {
        std::fs::create_dir_all(world.path("cache/snapshots")).unwrap();
        std::fs::rename(world.path("model"), world.path("cache/snapshots/4d7a")).unwrap();
        std::fs::rename(world.path("cache"), world.path("model")).unwrap();
    };
    check(
        cache,
        "error: model: a hub's cache, expected one of its snapshots\n\nhint: give model/snapshots/4d7a\n",
    );
    let gguf = |world: &World| {
        world.remove("model/config.json");
        world.write("model/q8.gguf", "GGUF");
    };
    check(gguf, "error: model: no config.json, but GGUF files\n\nhint: give model/q8.gguf\n");
    World::new().refuses(
        "train --model model/model.safetensors --data rows.jsonl --out out",
        "error: model/model.safetensors: expected a Hugging Face folder or a GGUF file, found a safetensors file\n\n\
         hint: give the folder that holds it: model\n",
    );
}

#[cfg(unix)]
#[test]
fn dangling_links_are_reported() {
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let link = |world: &World| {
            world.remove(&format!("model/{file}"));
            std::os::unix::fs::symlink("../blobs/4d7a", world.path(&format!("model/{file}"))).unwrap();
        };
        let world = World::new();
        link(&world);
        let ran = world.hloom(TRAIN);
        let expect =
            format!("error: model/{file} is a symbolic link to a file that does not exist: ../blobs/4d7a\n");
        assert!(ran.code == Some(2) && ran.err.starts_with(&expect), "{}", ran.err);
    }
}

#[test]
fn missing_shards_are_reported() {
    let split = |world: &World| {
        world.remove("model/model.safetensors");
        let index = json!({"weight_map": {
            "lm_head.weight": "model-00002-of-00002.safetensors",
            "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        }});
        world.write("model/model.safetensors.index.json", index.to_string());
    };
    check(
        split,
        "error: model/model.safetensors.index.json: missing shard: model-00001-of-00002.safetensors\n  \
         hint: download the shard, or remove what the index names beyond the model\n\
         error: model/model.safetensors.index.json: missing shard: model-00002-of-00002.safetensors\n  \
         hint: download the shard, or remove what the index names beyond the model\n",
    );
}

#[test]
fn tensors_that_contradict_the_config_are_reported() {
    let change = |world: &World| {
        world.change_tensors("model/model.safetensors", |tensors| {
            tensors.insert("model.norm.weight".into(), Literal::f32s([32], &[1.0; 32]));
            tensors.insert("model.layers.2.mlp.up_proj.weight".into(), Literal::f32s([1], &[1.0]));
            tensors.remove("lm_head.weight");
        });
    };
    check(
        change,
        "error: model/model.safetensors: `model.norm.weight`: expected shape [64], found [32]\n\
         error: model: `lm_head.weight`: missing\n\
         error: model/model.safetensors: `model.layers.2.mlp.up_proj.weight`: no parameter of the model has this name\n",
    );
}

#[test]
fn an_unknown_element_type_is_refused() {
    let change = |world: &World| {
        let bytes = world.read("model/model.safetensors");
        let at = bytes.windows(5).position(|window| window == b"\"F32\"").unwrap();
        world.write("model/model.safetensors", [&bytes[..at], b"\"F99\"", &bytes[at + 5..]].concat());
    };
    check(
        change,
        "error: model/model.safetensors: `lm_head.weight`: expected element type f32, f16, bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q8_K, \
         found F99\n",
    );
}

#[test]
fn missing_and_invalid_config_fields_are_reported() {
    check_config(
        |config| {
            config.as_object_mut().unwrap().remove("hidden_size");
            config.as_object_mut().unwrap().remove("num_hidden_layers");
        },
        "error: model/config.json: `hidden_size`: missing, expected a whole number from 1 to 2147483647\n\
         error: model/config.json: `num_hidden_layers`: missing, expected a whole number from 1 to 10000\n",
    );
    check_config(
        |config| config["vocab_size"] = json!("256"),
        "error: model/config.json: `vocab_size`: expected a whole number from 1 to 2147483647, found \"256\"\n",
    );
    check_config(
        |config| config["model_type"] = json!("gemma"),
        "error: model/config.json: `model_type`: expected one of llama, qwen2, mistral, found gemma\n  \
         hint: supported: Llama 2, 3, 3.1, 3.2 and models of their architecture, such as SmolLM2; Qwen 2 and 2.5; \
         Mistral\n",
    );
    check(
        |world| world.write("model/config.json", "{\n\"a\":"),
        "error: malformed JSON in model/config.json\n  caused by: EOF while parsing a value at line 2 column 4\n",
    );
}

#[test]
fn unknown_and_contradictory_rotary_embeddings_are_refused() {
    check_config(
        |config| config["rope_parameters"]["rope_type"] = json!("yarn"),
        "error: model/config.json: `rope_parameters.rope_type`: unknown kind of rotary embedding: yarn\n  \
         hint: the known kinds are default, linear, llama3\n",
    );
    check_config(
        |config| config["rope_scaling"] = json!({"type": "linear", "factor": 2.0}),
        "error: model/config.json: `rope_parameters`: disagrees with `rope_scaling`: llama3 with theta 500000, factor 8, \
         frequency factors 1 and 4, 64 original positions is not linear with theta 500000, factor 2\n  \
         hint: keep the one that the model was trained with\n",
    );
    check_config(
        |config| config["rope_theta"] = json!(10000.0),
        "error: model/config.json: `rope_parameters.rope_theta`: disagrees with `rope_theta`: 500000 is not 10000\n",
    );
}

#[test]
fn a_malformed_tokenizer_is_refused() {
    check(
        |world| world.write("model/tokenizer.json", "{}"),
        "error: no usable tokenizer in model\n  \
         caused by: tokenizer.json: expected a Hugging Face tokenizer, found: Model missing. at line 1 column 2\n",
    );
}
