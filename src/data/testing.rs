//! A small byte-level tokenizer and chat templates for the tests of this module.

use std::{sync::LazyLock, time::UNIX_EPOCH};

use serde_json::json;

use super::{Tokenizer, TokenizerFiles};

pub const CHATML: &str = "{% for message in messages %}\
    {{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}\
    {% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// SmolLM2-135M-Instruct's own template.
pub const SMOLLM2: &str = "{% for message in messages %}\
    {% if loop.first and messages[0]['role'] != 'system' %}\
    {{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}\
    {% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}\
    {% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// A template built as Llama 3.1's is: default variables, a date, a leading system turn, trimmed contents.
pub const LLAMA31: &str = r#"{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message leads, whether it is there or not. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- tools | tojson(indent=4) }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool call at a time") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"#;

const SPECIAL: [&str; 6] =
    ["<|im_start|>", "<|im_end|>", "<|pad|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"];

/// `tokenizer.json` of a byte-level BPE with three merges, whose post-processor puts `<|im_start|>` in front.
pub fn tokenizer_json() -> String {
    let merges = [["t", "h"], ["th", "e"], ["a", "t"]];
    let mut tokens: Vec<String> = byte_alphabet().map(String::from).collect();
    tokens.extend(merges.iter().map(|pair| pair.concat()));
    let vocab: serde_json::Map<_, _> = tokens.into_iter().zip(0..).map(|(t, id)| (t, json!(id))).collect();
    let added: Vec<_> = (vocab.len()..)
        .zip(SPECIAL)
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "post_processor": {"type": "Sequence", "processors": [byte_level, {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0], "ids": [vocab.len()], "tokens": [SPECIAL[0]]}},
        }]},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    })
    .to_string()
}

/// The tokenizer of [`tokenizer_json`] with the template [`CHATML`].
pub fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer_with(CHATML));
    &TOKENIZER
}

pub fn tokenizer_with(chat_template: &str) -> Tokenizer {
    let config = json!({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"});
    let (tokenizer, config) = (tokenizer_json(), config.to_string());
    let files = TokenizerFiles {
        tokenizer: tokenizer.as_bytes(),
        config: config.as_bytes(),
        chat_template: Some(chat_template),
        ..TokenizerFiles::default()
    };
    Tokenizer::new(files, UNIX_EPOCH).unwrap()
}

/// The printable characters for all bytes, as in GPT-2's `bytes_to_unicode`.
fn byte_alphabet() -> impl Iterator<Item = char> {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let moved = (0..=255).filter(move |byte| !printable(byte)).zip(0x100..).map(|(_, code)| code);
    (0..=255).filter(printable).chain(moved).filter_map(char::from_u32)
}
