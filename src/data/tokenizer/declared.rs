//! Added and special tokens that files besides `tokenizer.json` declare, read as `PreTrainedTokenizerFast` of
//! transformers does.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::{
    base::{Diagnostic, Location},
    data::{DataError, TokenizerFiles},
};

/// Name of the config file.
pub(super) const CONFIG: &str = "tokenizer_config.json";
const MAP: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";

/// A token with a key such as `eos_token`.
#[derive(Clone, Debug)]
pub(super) struct NamedToken {
    pub file: &'static str,
    pub content: String,
}

/// Added and special tokens that the files declare.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// Tokens by key, such as `bos_token`.
    pub named: BTreeMap<String, NamedToken>,
    /// Special tokens without a key of their own.
    pub extra: Vec<AddedToken>,
    /// Tokens by the ids that the file states.
    pub added: BTreeMap<u32, AddedToken>,
    /// The file that `added` was read from.
    pub added_file: &'static str,
}

impl Declared {
    /// Reads the tokens of `tokenizer_config.json` and the files beside it.
    ///
    /// # Errors
    /// [`DataError::TokenizerFile`] if a file is malformed, or gives two tokens one id.
    pub(super) fn read(config: &Map<String, Value>, files: &TokenizerFiles<'_>) -> Result<Self, DataError> {
        let map =
            files.special_tokens_map.map(|bytes| read_object(MAP, bytes)).transpose()?.unwrap_or_default();
        let decoder = match config.get("added_tokens_decoder") {
            None | Some(Value::Null) => None,
            Some(Value::Object(decoder)) => Some(decoder),
            Some(_) => return Err(invalid(CONFIG, "`added_tokens_decoder`: expected a JSON object")),
        };
        let mut named = named_tokens(CONFIG, config);
        for (key, token) in named_tokens(MAP, &map) {
            // A config that lists its added tokens takes precedence over the map.
            match decoder {
                Some(_) => drop(named.entry(key).or_insert(token)),
                None => drop(named.insert(key, token)),
            }
        }
        let extra = extra_tokens(CONFIG, config)?.into_iter().chain(extra_tokens(MAP, &map)?).collect();
        let mut declared = Self { named, extra, added: BTreeMap::new(), added_file: CONFIG };
        match (decoder, files.added_tokens) {
            (Some(decoder), _) => declared.read_decoder(decoder)?,
            (None, Some(bytes)) => declared.read_added_tokens(&read_object(ADDED, bytes)?)?,
            (None, None) => {}
        }
        Ok(declared)
    }

    fn read_decoder(&mut self, decoder: &Map<String, Value>) -> Result<(), DataError> {
        for (key, value) in decoder {
            let wrong =
                |problem: &str| invalid(CONFIG, format!("`added_tokens_decoder`: `{key}`: {problem}"));
            let id = key.parse().map_err(|_| wrong("expected a token id as key"))?;
            let mut token = added_token(value).map_err(|problem| wrong(&problem.message))?;
            token.special |= self.named.values().any(|named| named.content == token.content);
            if self.added.insert(id, token).is_some() {
                return Err(wrong("duplicate id; another key is the same number"));
            }
        }
        Ok(())
    }

    fn read_added_tokens(&mut self, added: &Map<String, Value>) -> Result<(), DataError> {
        self.added_file = ADDED;
        for (content, value) in added {
            let wrong = |problem: String| invalid(ADDED, format!("`{content}`: {problem}"));
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| wrong(format!("expected a token id, found {value}")))?;
            let is_named = self.named.values().any(|named| named.content == *content);
            let special = is_named || self.extra.iter().any(|token| token.content == *content);
            if let Some(other) = self.added.insert(id, AddedToken::from(content.clone(), special)) {
                return Err(wrong(format!("duplicate id {id}, which `{}` has as well", other.content)));
            }
        }
        Ok(())
    }
}

/// Reads keys such as `bos_token`, whose values are strings or objects with `content`.
fn named_tokens(file: &'static str, object: &Map<String, Value>) -> BTreeMap<String, NamedToken> {
    let named = object.iter().filter(|(key, _)| key.ends_with("_token"));
    named
        .filter_map(|(key, value)| {
            let content = value.as_str().or_else(|| value.get("content")?.as_str())?.to_owned();
            Some((key.clone(), NamedToken { file, content }))
        })
        .collect()
}

/// Reads further special tokens, in a list or under names that the model chooses.
fn extra_tokens(file: &'static str, object: &Map<String, Value>) -> Result<Vec<AddedToken>, DataError> {
    let mut tokens = Vec::new();
    for key in ["extra_special_tokens", "additional_special_tokens"] {
        let values: Vec<&Value> = match object.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => values.iter().collect(),
            Some(Value::Object(named)) => named.values().collect(),
            Some(_) => return Err(invalid(file, format!("`{key}`: expected a list of tokens"))),
        };
        for value in values {
            let token = match value {
                Value::String(content) => AddedToken::from(content.clone(), true),
                other => added_token(other)
                    .map_err(|problem| invalid(file, format!("`{key}`: {problem}")))?
                    .special(true),
            };
            tokens.push(token);
        }
    }
    Ok(tokens)
}

/// Reads a token with its flags. Missing flags are false, except `normalized` of a token that is not special.
fn added_token(value: &Value) -> Result<AddedToken, Diagnostic> {
    let object = value.as_object().ok_or_else(|| format!("expected a JSON object, found {value}"))?;
    let content = object.get("content").and_then(Value::as_str).filter(|content| !content.is_empty());
    let content = content.ok_or("`content`: expected a string that is not empty")?;
    let flag = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(Diagnostic::from(format!("`{key}`: expected true or false, found {other}"))),
    };
    let token = AddedToken::from(content, flag("special")?.unwrap_or(false));
    let normalized = flag("normalized")?.unwrap_or(token.normalized);
    Ok(token
        .normalized(normalized)
        .lstrip(flag("lstrip")?.unwrap_or(false))
        .rstrip(flag("rstrip")?.unwrap_or(false))
        .single_word(flag("single_word")?.unwrap_or(false)))
}

/// Parses a file as a JSON object.
///
/// # Errors
/// [`DataError::TokenizerFile`] if it is not one.
pub(super) fn read_object(file: &'static str, bytes: &[u8]) -> Result<Map<String, Value>, DataError> {
    serde_json::from_slice(bytes)
        .map_err(|error| invalid(file, format!("expected a JSON object, found: {error}")))
}

/// The error for a file with a problem.
pub(super) fn invalid(file: &'static str, problem: impl Into<String>) -> DataError {
    DataError::TokenizerFile(Diagnostic::error(Location::file(file), problem))
}
