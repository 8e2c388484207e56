//! The byte-level BPE tokenizer of a GGUF file in the format of Hugging Face's `tokenizers`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{super::WeightsError, metadata::Metadata};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";

/// `enum llama_token_type`.
const UNKNOWN: i128 = 2;
const CONTROL: i128 = 3;
const USER_DEFINED: i128 = 4;

/// A pre-tokenizer, by its name under `tokenizer.ggml.pre`.
struct PreTokenizer {
    names: &'static [&'static str],
    /// Regular expressions that split one after the other, as `llm_tokenizer_bpe` of llama.cpp has them.
    splits: &'static [&'static str],
    /// Whether a word that is a token is not split, whatever the merges.
    ignore_merges: bool,
    /// Whether a text begins with the BOS token by default.
    add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const PRE_TOKENIZERS: &[PreTokenizer] = &[
    PreTokenizer { names: &["smollm"], splits: &[r"\p{N}", GPT2], ignore_merges: false, add_bos: false },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3"],
        splits: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        ignore_merges: true,
        add_bos: true,
    },
    PreTokenizer {
        names: &["qwen2"],
        splits: &[concat!(
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|",
            r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )],
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer { names: &["gpt-2"], splits: &[GPT2], ignore_merges: false, add_bos: false },
    PreTokenizer {
        names: &["default"],
        splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ignore_merges: false,
        add_bos: false,
    },
];

/// The equivalent of tokenizer.json.
pub(super) fn tokenizer_json(metadata: &Metadata) -> Result<Value, WeightsError> {
    let pre = pre_tokenizer(metadata)?;
    let tokens = metadata.required(TOKENS, metadata.texts(TOKENS)?)?;
    let mut vocab = Map::new();
    for (id, token) in tokens.iter().enumerate() {
        if let Some(first) = vocab.insert((*token).to_owned(), json!(id)) {
            return Err(metadata.wrong(TOKENS, format!("duplicate token {token:?}: ids {first} and {id}")));
        }
    }
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let split = |regex: &&str| json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false });
    let pre_tokenizers: Vec<Value> = pre.splits.iter().map(split).chain([byte_level.clone()]).collect();
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(metadata, &tokens)?,
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": pre_tokenizers },
        "post_processor": post_processor(metadata, pre, &tokens)?,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": pre.ignore_merges,
            "merges": merges(metadata, &tokens)?,
            "vocab": vocab,
        },
    }))
}

/// The equivalent of tokenizer_config.json.
pub(super) fn tokenizer_config(metadata: &Metadata) -> Result<Value, WeightsError> {
    let tokens = metadata.texts(TOKENS)?.unwrap_or_default();
    let mut config = Map::new();
    let ids = [
        ("bos_token", BOS),
        ("eos_token", EOS),
        ("unk_token", "tokenizer.ggml.unknown_token_id"),
        ("pad_token", "tokenizer.ggml.padding_token_id"),
    ];
    for (name, key) in ids {
        if let Some((token, _)) = token_of(metadata, key, &tokens)? {
            config.insert(name.to_owned(), json!(token));
        }
    }
    if let Some(template) = metadata.text("tokenizer.chat_template")? {
        config.insert("chat_template".to_owned(), json!(template));
    }
    config.insert("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast"));
    Ok(Value::Object(config))
}

fn pre_tokenizer(metadata: &Metadata) -> Result<&'static PreTokenizer, WeightsError> {
    let use_folder = |key: &str, problem| WeightsError::Setting {
        path: metadata.path.clone(),
        key: key.to_owned(),
        problem,
        hint: Some("use the model's Hugging Face folder, with its tokenizer.json"),
    };
    let model = metadata.required(MODEL, metadata.text(MODEL)?)?;
    if model != "gpt2" {
        return Err(use_folder(MODEL, format!("expected a byte-level BPE tokenizer, gpt2, found {model}")));
    }
    let name = metadata.required(PRE, metadata.text(PRE)?)?;
    PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| {
        let known: Vec<_> = PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied().collect();
        use_folder(PRE, format!("expected one of {}, found {name}", known.join(", ")))
    })
}

/// Control tokens as special ones, user-defined tokens as plain ones; neither is ever cut.
fn added_tokens(metadata: &Metadata, tokens: &[&str]) -> Result<Vec<Value>, WeightsError> {
    let kinds = metadata.integers(TYPES)?.unwrap_or_default();
    if !kinds.is_empty() && kinds.len() != tokens.len() {
        let problem = format!("expected a type for each of {} tokens, found {}", tokens.len(), kinds.len());
        return Err(metadata.wrong(TYPES, problem));
    }
    let added = |(id, (token, kind)): (usize, (&&str, i128))| {
        let special = match kind {
            UNKNOWN | CONTROL => true,
            USER_DEFINED => false,
            _ => return None,
        };
        Some(json!({
            "id": id,
            "content": token,
            "single_word": false,
            "lstrip": false,
            "rstrip": false,
            "normalized": false,
            "special": special,
        }))
    };
    Ok(tokens.iter().zip(kinds).enumerate().filter_map(added).collect())
}

/// Pairs in order of rank; both parts and what they make must be tokens.
fn merges(metadata: &Metadata, tokens: &[&str]) -> Result<Vec<Value>, WeightsError> {
    let known: HashSet<&str> = tokens.iter().copied().collect();
    let merges = metadata.required(MERGES, metadata.texts(MERGES)?)?;
    let pair = |merge: &&str| match merge.split_once(' ') {
        Some((a, b)) if [a, b, &format!("{a}{b}")].iter().all(|part| known.contains(part)) => {
            Ok(json!([a, b]))
        }
        _ => Err(metadata.wrong(MERGES, format!("expected two tokens that make a third, found {merge:?}"))),
    };
    merges.iter().map(pair).collect()
}

/// Adds the first and the last token of a text, where the file or the kind of tokenizer asks for them.
fn post_processor(metadata: &Metadata, pre: &PreTokenizer, tokens: &[&str]) -> Result<Value, WeightsError> {
    let token = |key| metadata.required(key, token_of(metadata, key, tokens)?);
    let add_bos = metadata.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(pre.add_bos);
    let add_eos = metadata.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
    let bos = add_bos.then(|| token(BOS)).transpose()?;
    let eos = add_eos.then(|| token(EOS)).transpose()?;
    if bos.is_none() && eos.is_none() {
        return Ok(Value::Null);
    }
    let special = |&(token, id): &(&str, usize)| {
        (token.to_owned(), json!({ "id": token, "ids": [id], "tokens": [token] }))
    };
    let piece = |(token, _): &(&str, usize)| json!({ "SpecialToken": { "id": token, "type_id": 0 } });
    let sequence = |id, type_id| json!({ "Sequence": { "id": id, "type_id": type_id } });
    let around = |inner: &[Value]| -> Vec<Value> {
        bos.iter().map(piece).chain(inner.iter().cloned()).chain(eos.iter().map(piece)).collect()
    };
    Ok(json!({
        "type": "TemplateProcessing",
        "single": around(&[sequence("A", 0)]),
        "pair": around(&[sequence("A", 0), sequence("B", 1)]),
        "special_tokens": bos.iter().chain(&eos).map(special).collect::<Map<_, _>>(),
    }))
}

/// The token with the id under `key`, and the id.
fn token_of<'a>(
    metadata: &Metadata,
    key: &str,
    tokens: &[&'a str],
) -> Result<Option<(&'a str, usize)>, WeightsError> {
    let Some(id) = metadata.size(key)? else { return Ok(None) };
    let outside = || metadata.wrong(key, format!("expected an id below {}, found {id}", tokens.len()));
    tokens.get(id).map(|token| Some((*token, id))).ok_or_else(outside)
}
