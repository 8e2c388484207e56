//! Sample files.

use crate::support::world::World;

const RUN: &str = "train --model model --data d.jsonl --out out --steps 2 --seq 32";

#[track_caller]
fn check(content: impl AsRef<[u8]>, expect: &str) {
    let world = World::new();
    world.write("d.jsonl", content);
    world.refuses(RUN, expect);
}

/// Checks what a run that succeeds reports about its samples.
#[track_caller]
fn check_accepted(content: impl AsRef<[u8]>, expect: &str) {
    let world = World::new();
    world.write("d.jsonl", content);
    let ran = world.hloom(RUN);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let (found, _) = ran.err.split_once("loading weights\n").unwrap();
    assert_eq!(found, format!("computing in float32 (the default on CPUs)\n{expect}"));
    let files =
        ["adapter_config.json", "adapter_model.safetensors", "checkpoint.safetensors", "metrics.jsonl"];
    assert_eq!(world.names("out"), files);
}

#[test]
fn all_malformed_lines_are_reported() {
    check(
        "{\"text\": \"a\"}\n{\"text\":\n",
        "error: d.jsonl:2: not JSON at column 8: EOF while parsing a value\n",
    );
    let mut several = b"{\"text\": \"a\"}\n{\"text\":\n\n[1]\n{\"txt\": \"a\"}\n{\"prompt\": \"a\"}\n\
                        {\"messages\": [{\"role\": \"robot\", \"content\": \"x\"}]}\n"
        .to_vec();
    several.extend(b"{\"text\": \"\xff\"}\n");
    check(
        several,
        "error: d.jsonl:2: not JSON at column 8: EOF while parsing a value\n\
         error: d.jsonl:4: expected a JSON object, found an array\n\
         error: d.jsonl:5: expected `messages`, `prompt` and `completion`, or `text`, found the keys: `txt`\n  \
         hint: did you mean `text`?\n\
         error: d.jsonl:6: expected `completion`, found `prompt`\n\
         error: d.jsonl:7: message 1: expected the role system, user, assistant or tool, found: robot\n  \
         hint: known roles: system, developer, user, assistant, tool, ipython, observation, function\n\
         error: d.jsonl:8: expected UTF-8, found another encoding at byte 11\n  \
         hint: save the file as UTF-8\n",
    );
}

#[test]
fn files_without_samples_are_refused() {
    let expect = "error: d.jsonl: expected at least one sample, found none\n\n\
                  hint: write one JSON object a line: {\"messages\": [...]}, {\"prompt\": ..., \"completion\": ...} or \
                  {\"text\": ...}\n";
    check("", expect);
    check("\n \r\n\n", expect);
    World::new().refuses(
        "train --model model --data none.jsonl --out out",
        "error: none.jsonl: cannot be read\n  caused by: No such file or directory (os error 2)\n",
    );
}

#[test]
fn holding_out_all_samples_is_refused() {
    World::new().refuses(
        "train --model model --data rows.jsonl --out out --held-out 8",
        "error: rows.jsonl: expected fewer than 8 held-out samples of 8, found: 8\n\n\
         hint: hold out fewer samples, or add samples to the file\n",
    );
}

#[test]
fn byte_order_marks_crlf_and_blank_lines_are_accepted() {
    check_accepted(
        "\u{feff}{\"text\": \"abc\"}\r\n\r\n  {\"text\": \"abcd\"}\r\n\n",
        "2 samples, 5 labelled tokens\n",
    );
}

#[test]
fn samples_longer_than_a_row_are_counted_and_truncated() {
    let long = "x".repeat(100);
    check_accepted(
        format!("{{\"text\": \"abc\"}}\n{{\"text\": \"{long}\"}}\n"),
        "2 samples, 33 labelled tokens\n1 of 2 samples is longer than 32 tokens and was truncated\n",
    );
    check_accepted(
        format!("{{\"text\": \"abc\"}}\n{{\"prompt\": \"{long}\", \"completion\": \"y\"}}\n"),
        "2 samples, 2 labelled tokens\n\
         1 of 2 samples is longer than 32 tokens and was truncated\n\
         1 of 2 samples has no label within 32 tokens and was left out\n",
    );
}

#[test]
fn samples_without_any_label_are_refused() {
    let long = "x".repeat(100);
    check(
        format!("{{\"prompt\": \"{long}\", \"completion\": \"y\"}}\n"),
        "error: d.jsonl: expected a sample with a label within its first 32 tokens, found none\n\n\
         hint: raise the sequence length, or shorten the prompts\n",
    );
}

#[test]
fn conversations_without_a_chat_template_are_refused() {
    let world = World::new();
    world.remove("model/chat_template.jinja");
    world.write(
        "d.jsonl",
        r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#,
    );
    world.refuses(
        RUN,
        "error: d.jsonl:1: expected a chat template for samples with `messages`, found none\n\n\
         hint: put the model's chat_template.jinja beside its tokenizer.json, or use samples with `prompt` and \
         `completion`\n",
    );
}

#[test]
fn files_of_other_formats_are_reported_once() {
    let to_json = "hint: convert it to JSONL, for example with `to_json` of Hugging Face datasets\n";
    let csv = "prompt,completion\na,b\n".to_owned() + &"a,b\n".repeat(100);
    check(
        csv,
        &format!(
            "error: d.jsonl: expected samples in JSON, found what looks like CSV that begins with: prompt,completion\n\n{to_json}"
        ),
    );
    check(
        "PAR1....PAR1",
        &format!("error: d.jsonl: expected samples in JSON, found a Parquet file\n\n{to_json}"),
    );
    check(
        b"\xff\xfe{\0}\0",
        "error: d.jsonl: expected samples in JSON, found text in UTF-16\n\nhint: save it as UTF-8\n",
    );
}

#[test]
fn an_array_of_samples_is_read() {
    check_accepted(
        "[\n  {\n    \"text\": \"abc\"\n  },\n  {\n    \"text\": \"abcd\",\n    \"id\": 7\n  }\n]\n",
        "2 samples, 5 labelled tokens\nwarning: d.jsonl: ignored keys: `id` in 1 sample\n",
    );
}

#[test]
fn held_out_samples_without_labels_do_not_stop_a_run() {
    let world = World::new();
    let row = |prompt: &str| format!("{{\"prompt\": \"{prompt}\", \"completion\": \"y\"}}\n");
    world.write("d.jsonl", row(&"x".repeat(100)) + &row("a"));
    // Seeds hold out one sample or the other.
    let both: Vec<String> = (0..8)
        .map(|seed| {
            world.hloom(&format!(
                "{} --held-out 1 --seed {seed}",
                RUN.replace("--out out", &format!("--out out-{seed}"))
            ))
        })
        .map(|ran| format!("{:?} {}", ran.code, ran.err.split("loading weights\n").next().unwrap()))
        .collect();
    let left_out = "Some(0) computing in float32 (the default on CPUs)\n1 sample, 2 labelled tokens\n\
                    warning: d.jsonl: no held-out sample has a label within its first 32 tokens (lines 1): nothing is held out\n  \
                    hint: raise the sequence length, or shorten the prompts\n";
    assert!(both.iter().any(|text| text == left_out), "{both:#?}");
}

#[test]
fn a_question_without_a_chat_template_is_refused() {
    let world = World::new();
    world.remove("model/chat_template.jinja");
    world.refuses(
        "train --model model --data rows.jsonl --out out --steps 2 --seq 32 --question why?",
        "computing in float32 (the default on CPUs)\n8 samples, 32 labelled tokens\nerror: --question: expected a chat template, found none\n\n\
         hint: put the model's chat_template.jinja beside its tokenizer.json, or ask no question\n",
    );
}
