//! The tokens of samples, against those of Hugging Face transformers 5.24 (`tokenizer(prompt + completion)`), and which of
//! them are learned.

use std::time::UNIX_EPOCH;

use hloom::data::{Dataset, SampleFile, SpecialTokens, Tokenizer, TokenizerFiles};
use serde_json::{Value, json};

use crate::support::world::World;

const BOS: u32 = 1;
const EOS: u32 = 2;

/// A tokenizer in the manner of SentencePiece, which writes a blank as `▁` and puts one before a text.
fn tokenizer(blanks: &Value) -> Tokenizer {
    let special = ["<pad>", "<s>", "</s>", "<unk>"];
    let pieces = "▁ h i t e r a Q : ▁h ▁hi ▁t he ▁the re ▁there hi the there";
    let merges = ["▁ h", "▁h i", "h i", "▁ t", "h e", "r e", "▁t he", "▁the re", "t he", "the re"];
    let merges = merges.map(|pair| pair.split(' ').collect::<Vec<_>>());
    let tokens = special.into_iter().chain(pieces.split(' ')).zip(0..);
    let vocab: serde_json::Map<_, _> = tokens.map(|(piece, id)| (piece.to_owned(), json!(id))).collect();
    let added = special.iter().zip(0..).map(|(content, id)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    });
    let mut file = json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>", "fuse_unk": true},
    });
    for (key, value) in blanks.as_object().unwrap() {
        file[key] = value.clone();
    }
    let config = json!({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}).to_string();
    let file = file.to_string();
    let files =
        TokenizerFiles { tokenizer: file.as_bytes(), config: config.as_bytes(), ..TokenizerFiles::default() };
    Tokenizer::new(files, UNIX_EPOCH).unwrap()
}

fn metaspace(scheme: &str) -> Value {
    json!({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}})
}

/// The form of older conversions of Llama 2.
fn prepend_and_replace() -> Value {
    json!({"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]}})
}

/// Checks the tokens of a prompt and its completion, how many of them are not learned, and the warnings.
#[track_caller]
fn check(blanks: &Value, [prompt, completion]: [&str; 2], ids: &[u32], given: usize, warnings: &[&str]) {
    let sample = json!({"prompt": prompt, "completion": completion}).to_string();
    let file = SampleFile::parse("d.jsonl", sample.as_bytes()).unwrap();
    let dataset = Dataset::new(&file, &tokenizer(blanks), 32).unwrap();
    let sample = &dataset.samples()[0];
    assert_eq!(sample.ids, ids, "{prompt:?} {completion:?}");
    assert_eq!(sample.label_mask, (0..ids.len()).map(|i| i >= given).collect::<Vec<_>>());
    let found: Vec<String> = dataset.report().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(found, warnings);
}

const CROSSES: &str = "d.jsonl:1: a token spans the end of the prompt and the start of the completion; it is a label \
                       (1 sample)\n  hint: move the space from the end of the prompt to the start of the completion";
const BEGINS: &str = "d.jsonl:1: begins with `<s>`, which is not added a second time (1 sample)";
const ENDS: &str = "d.jsonl:1: ends with `</s>`, which is not added a second time (1 sample)";

#[test]
fn no_space_is_added_before_a_completion() {
    for blanks in [metaspace("first"), metaspace("always"), prepend_and_replace()] {
        check(&blanks, ["hi", " there"], &[BOS, 14, 19, EOS], 2, &[]);
        check(&blanks, ["hi ", "there"], &[BOS, 14, 19, EOS], 2, &[CROSSES]);
        check(&blanks, ["hi: ", "the"], &[BOS, 14, 12, 17, EOS], 3, &[CROSSES]);
        check(&blanks, ["", "there"], &[BOS, 19, EOS], 1, &[]);
    }
    check(&metaspace("never"), ["hi ", "there"], &[BOS, 20, 19, EOS], 2, &[CROSSES]);
}

#[test]
fn begin_and_end_tokens_are_not_doubled() {
    check(&metaspace("first"), ["<s>hi", " there"], &[BOS, 20, 19, EOS], 2, &[BEGINS]);
    check(&metaspace("always"), ["<s>hi", " there"], &[BOS, 14, 19, EOS], 2, &[BEGINS]);
    check(&metaspace("first"), ["hi", " there</s>"], &[BOS, 14, 19, EOS], 2, &[ENDS]);
}

/// Writes every input that a sample may have.
const EVERYTHING: &str = "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}\
    {% for d in documents or [] %}<doc>{{ d.title }}: {{ d.text }}</doc>{% endfor %}\
    {% if mood is defined %}<mood>{{ mood }}</mood>{% endif %}\
    {% for m in messages %}{{ m.role + ': ' }}\
    {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}\
    {% if m.content is string %}{{ m.content }}{% elif m.content %}{% for part in m.content %}{{ part.text }}\
    {% endfor %}{% endif %}{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>{% endfor %}\
    {% if m.tool_call_id %}<id>{{ m.tool_call_id }}{{ m.name }}</id>{% endif %}{{ eos_token }}{% endfor %}\
    {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

/// A template after a thinking model, whose prompt ends with the opening of a thought.
const THINKS: &str = "{% for m in messages %}{{ '<' + m.role + '>' + m.content.split('</think>')[-1] + eos_token }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<assistant><think>\n' }}{% endif %}";

/// Checks the text of a conversation, of which what is learned is in brackets, and the warnings.
#[track_caller]
fn check_conversation(template: &str, json: &Value, expect: &str, warnings: &[&str]) {
    let world = World::new();
    let (file, config) = (world.read("model/tokenizer.json"), world.read("model/tokenizer_config.json"));
    let files = TokenizerFiles {
        tokenizer: &file,
        config: &config,
        chat_template: Some(template),
        ..TokenizerFiles::default()
    };
    let tokenizer = Tokenizer::new(files, UNIX_EPOCH).unwrap();
    let file = SampleFile::parse("d.jsonl", json.to_string().as_bytes()).unwrap();
    let dataset = Dataset::new(&file, &tokenizer, 512).unwrap();
    let sample = &dataset.samples()[0];
    let tokens: Vec<_> = sample.ids.iter().zip(&sample.label_mask).collect();
    let mut text = String::new();
    for run in tokens.chunk_by(|a, b| a.1 == b.1) {
        let ids: Vec<u32> = run.iter().map(|&(&id, _)| id).collect();
        let part = tokenizer.decode(&ids, SpecialTokens::Keep).unwrap();
        text += &if *run[0].1 { format!("[{part}]") } else { part };
    }
    assert_eq!(text, expect);
    let found: Vec<String> = dataset.report().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(found, warnings);
}

/// The texts are those of `apply_chat_template`.
#[test]
fn tools_calls_documents_and_variables_reach_the_template() {
    let tools = json!([{"type": "function", "function": {"name": "weather", "description": "Tells the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]);
    let messages = json!([
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "weather", "arguments": {"city": "Ulm"}}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "wet"},
        {"role": "assistant", "reasoning_content": "so", "content": "Yes."},
    ]);
    let turns = "user: Rain?</s>assistant: [<call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}</call></s>]\
                 tool: wet<id>c1weather</id></s>assistant: [<think>so</think>Yes.</s>]";
    let schema = "<tools>{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"Tells the weather\", \
                  \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \
                  \"required\": [\"city\"]}}}</tools>";
    let with_tools = format!("{schema}{turns}");
    check_conversation(EVERYTHING, &json!({"messages": messages, "tools": tools}), &with_tools, &[]);
    check_conversation(
        EVERYTHING,
        &json!({"messages": messages, "tools": tools.to_string()}),
        &with_tools,
        &[],
    );
    check_conversation(EVERYTHING, &json!({"messages": messages}), turns, &[]);
    let sample = json!({
        "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}, {"role": "assistant", "content": "a"}],
        "documents": [{"title": "T", "text": "x"}],
        "chat_template_kwargs": {"mood": "glad", "eos_token": "!"},
    });
    check_conversation(EVERYTHING, &sample, "<doc>T: x</doc><mood>glad</mood>user: q!assistant: [a!]", &[]);
}

#[test]
fn a_prompt_that_opens_a_thought_is_learned_from_where_the_answer_departs() {
    let sample = |answer: &str| json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}], "tools": [{}]});
    let unused = "d.jsonl:1: the chat template does not use `tools` (1 sample)";
    check_conversation(THINKS, &sample("<th"), "<user>q</s><assistant>[<th</s>]", &[unused]);
    let left_out = "d.jsonl:1: message 2: the chat template leaves out `content` or a part of it, which is not learned (1 sample)";
    check_conversation(
        THINKS,
        &sample("<think>so</think>a"),
        "<user>q</s><assistant>[a</s>]",
        &[left_out, unused],
    );
}
