//! Converts JSON variables to values of a template.

use serde_json::{Map, Value as Json};

use super::{error::Result, meter, value::PyValue};

/// Converts a JSON value.
pub(super) fn from_json(json: &Json) -> Result<PyValue> {
    meter::deeper(|| match json {
        Json::Null => Ok(PyValue::None),
        Json::Bool(value) => Ok(PyValue::Bool(*value)),
        Json::Number(number) => {
            let int = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            Ok(int.map_or_else(|| PyValue::Float(number.as_f64().unwrap_or(f64::NAN)), PyValue::Int))
        }
        Json::String(text) => PyValue::text(text.as_str()),
        Json::Array(items) => PyValue::list(items.iter().map(from_json).collect::<Result<_>>()?),
        Json::Object(members) => {
            let pairs =
                members.iter().map(|(key, value)| Ok((PyValue::text(key.as_str())?, from_json(value)?)));
            PyValue::dict(pairs.collect::<Result<Vec<_>>>()?)
        }
    })
}

/// Upper bound of the length of these members as JSON text, in bytes.
pub(super) fn json_bytes(members: &Map<String, Json>) -> usize {
    members.iter().map(|(key, value)| 4 + key.len() + value_bytes(value)).sum()
}

fn value_bytes(json: &Json) -> usize {
    match json {
        Json::String(text) => 2 + text.len(),
        Json::Array(items) => 2 + items.iter().map(|item| 1 + value_bytes(item)).sum::<usize>(),
        Json::Object(members) => 2 + json_bytes(members),
        Json::Null | Json::Bool(_) | Json::Number(_) => 2,
    }
}
