//! Access to the keys of a JSON object, with errors that say what was found.

use serde_json::{Map, Value};

use crate::base::Diagnostic;

pub(super) type JsonObject = Map<String, Value>;

/// The error for a key that an object lacks.
pub(super) fn missing(key: &str, object: &JsonObject) -> Diagnostic {
    format!("expected `{key}`, found {}", list(object.keys().map(String::as_str))).into()
}

/// The string under a key.
pub(super) fn string(value: Value, key: &str) -> Result<String, Diagnostic> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!("expected `{key}` to be a string, found {}", kind_of(&other)).into()),
    }
}

/// The JSON type of a value, with its article.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Lists the first keys; an object may have any number of them.
pub(super) fn list<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = keys.take(SHOWN + 1).map(|key| format!("`{key}`")).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "...".to_owned();
    }
    names.join(", ")
}
