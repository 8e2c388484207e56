//! A model's tokenizer files, from its folder to what is trained and generated.

use serde_json::{Value, json};

use crate::support::world::{TRAIN, World};

const GENERATE: &str =
    "generate --model model --prompt ab --raw --max-new-tokens 8 --seq 32 --dtype f32 --quiet --json";

fn generated(world: &World) -> (Vec<u64>, String) {
    let answer: Value = serde_json::from_str(&world.succeeds(GENERATE)).unwrap();
    let ids = answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    (ids, answer["text"].as_str().unwrap().to_owned())
}

#[test]
fn a_generation_stops_at_every_end_token_of_the_generation_config() {
    let world = World::new();
    let (ids, _) = generated(&world);
    assert_eq!(ids.len(), 8, "nothing ends it");
    let expect: Vec<u64> = ids.iter().copied().take_while(|id| *id != ids[3]).chain([ids[3]]).collect();
    for eos in [json!(ids[3]), json!([250, ids[3]])] {
        world.write("model/generation_config.json", json!({ "eos_token_id": eos }).to_string());
        assert_eq!(generated(&world).0, expect);
    }
    world.write("model/generation_config.json", json!({ "eos_token_id": "</s>" }).to_string());
    world.refuses(
        GENERATE,
        "error: model/generation_config.json: `eos_token_id`: expected a token id or a list of them, found \"</s>\"\n",
    );
}

#[test]
fn ids_without_a_token_are_never_generated() {
    let world = World::new();
    let (ids, _) = generated(&world);
    // Holes at every id that was generated, and an end of the vocabulary before that of the model.
    world.change_json("model/tokenizer.json", |tokenizer| {
        let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        vocab.retain(|token, id| {
            let id = id.as_u64().unwrap();
            token == "a" || token == "b" || !(ids.contains(&id) || id >= 200)
        });
    });
    let (masked, text) = generated(&world);
    assert_eq!(masked.len(), 8);
    assert!(masked.iter().all(|id| !ids.contains(id) && *id < 200), "{masked:?}");
    assert!(!text.is_empty());
}

#[test]
fn only_completions_need_an_end_of_sequence() {
    let world = World::new();
    world.remove("model/tokenizer_config.json");
    world.change_json("model/config.json", |config| {
        config.as_object_mut().unwrap().remove("eos_token_id");
    });
    world.refuses(
        TRAIN,
        "error: expected `eos_token` in tokenizer_config.json or special_tokens_map.json, or `eos_token_id` in \
         generation_config.json or config.json, found none\n\n\
         hint: add the token that ends a turn, such as \"eos_token\": \"</s>\"\n",
    );
    world.write("rows.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"three\"}\n");
    world.succeeds(TRAIN);
}

#[test]
fn the_end_of_sequence_may_come_from_any_file() {
    for (file, content) in [
        ("model/special_tokens_map.json", json!({ "eos_token": "</s>" })),
        ("model/generation_config.json", json!({ "eos_token_id": [2] })),
    ] {
        let world = World::new();
        world.remove("model/tokenizer_config.json");
        world.change_json("model/config.json", |config| {
            config.as_object_mut().unwrap().remove("eos_token_id");
        });
        world.write(file, content.to_string());
        world.succeeds(TRAIN);
    }
}

#[test]
fn added_tokens_of_the_config_are_trained_as_one_token() {
    let world = World::new();
    world.write("rows.jsonl", "{\"text\": \"<tool>a<tool>\"}\n");
    world.change_json("model/tokenizer_config.json", |config| {
        config["added_tokens_decoder"] = json!({ "255": { "content": "<tool>", "special": false } });
    });
    world.change_json("model/tokenizer.json", |tokenizer| {
        let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        vocab.retain(|_, id| id.as_u64().unwrap() < 255);
    });
    let run = world.hloom("train --model model --data rows.jsonl --out out --steps 1 --seq 32");
    assert_eq!(run.code, Some(0), "{}", run.err);
    // Three tokens, the first of which is no label.
    assert!(run.err.contains("1 sample, 2 labelled tokens"), "{}", run.err);
}

#[test]
fn a_tokenizer_that_panics_the_library_is_an_input_error() {
    let world = World::new();
    world.change_json("model/tokenizer.json", |tokenizer| {
        tokenizer["model"]["merges"] = json!([["a", "b"]]);
        tokenizer["model"]["continuing_subword_prefix"] = json!("####");
    });
    let run = world.hloom(TRAIN);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let expect = "error: no usable tokenizer in model\n  caused by: tokenizer.json: expected a Hugging Face tokenizer, \
                  found: the tokenizers library fails with: ";
    assert!(run.err.starts_with(expect), "{}", run.err);
    assert!(!run.err.contains("panicked"), "{}", run.err);
}
