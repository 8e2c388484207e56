use serde_json::{Map, Value};

use crate::base::{Diagnostic, Diagnostics, Location};

/// A type of field: its description and its conversion.
pub(super) struct Kind<T> {
    pub expected: &'static str,
    pub read: fn(&Value) -> Option<T>,
}

/// Sizes stay below 2^31, so that products of three of them fit 128 bits and token ids fit 32.
pub(super) const SIZE: Kind<usize> = Kind {
    expected: "a whole number from 1 to 2147483647",
    read: |value| value.as_u64().filter(|n| (1..=0x7fff_ffff).contains(n)).and_then(|n| n.try_into().ok()),
};

pub(super) const LAYERS: Kind<usize> = Kind {
    expected: "a whole number from 1 to 10000",
    read: |value| (SIZE.read)(value).filter(|&n| n <= 10_000),
};

pub(super) const HEAD_DIM: Kind<usize> = Kind {
    expected: "a whole number from 1 to 65536",
    read: |value| (SIZE.read)(value).filter(|&n| n <= 65_536),
};

pub(super) const FLAG: Kind<bool> = Kind { expected: "true or false", read: Value::as_bool };

/// Numbers stay in the range of float32, in which the model computes with them.
pub(super) const POSITIVE: Kind<f64> = Kind {
    expected: "a number from 1e-30 to 1e30",
    read: |value| value.as_f64().filter(|number| (1e-30..=1e30).contains(number)),
};

pub(super) const AT_LEAST_ONE: Kind<f64> = Kind {
    expected: "a number from 1 to 1e30",
    read: |value| value.as_f64().filter(|number| (1.0..=1e30).contains(number)),
};

pub(super) const TEXT: Kind<String> =
    Kind { expected: "a string", read: |value| value.as_str().map(str::to_owned) };

pub(super) const TOKENS: Kind<Vec<u32>> = Kind {
    expected: "a token id or a list of them",
    read: |value| match value {
        Value::Array(ids) => ids.iter().map(token).collect(),
        id => token(id).map(|id| vec![id]),
    },
};

fn token(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| id.try_into().ok())
}

/// The fields of one JSON object; every problem is reported at the field's full name.
pub(super) struct Fields<'a> {
    file: &'a str,
    prefix: &'static str,
    object: &'a Map<String, Value>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Fields<'a> {
    /// The fields of the outermost object.
    pub(super) fn new(
        file: &'a str,
        object: &'a Map<String, Value>,
        diagnostics: &'a mut Diagnostics,
    ) -> Self {
        Self { file, prefix: "", object, diagnostics }
    }

    /// The value of a field; null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field is there, even if it is null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// The names of all fields that are not null.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.object.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str())
    }

    /// The field's value; `None` if it is absent, `None` and a diagnostic if it has another type.
    pub(super) fn optional<T>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        let value = self.get(key)?;
        let read = (kind.read)(value);
        if read.is_none() {
            self.find(key, format!("expected {}, found {}", kind.expected, excerpt(value)));
        }
        read
    }

    /// The field's value; `None` and a diagnostic if it is absent or has another type.
    pub(super) fn required<T>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        if self.get(key).is_none() {
            self.find(key, format!("missing, expected {}", kind.expected));
        }
        self.optional(key, kind)
    }

    /// The fields of a nested object; `None` if it is absent or empty, `None` and a diagnostic if it is not an object.
    pub(super) fn inside(&mut self, key: &'static str) -> Option<Fields<'_>> {
        match self.get(key)? {
            Value::Object(object) if object.is_empty() => None,
            Value::Object(object) => {
                Some(Fields { file: self.file, prefix: key, object, diagnostics: &mut *self.diagnostics })
            }
            other => {
                self.find(key, format!("expected an object, found {}", excerpt(other)));
                None
            }
        }
    }

    /// Reports a problem of a field.
    pub(super) fn find(&mut self, key: &str, message: impl Into<String>) {
        let diagnostic = Diagnostic::error(self.location(key), message);
        self.diagnostics.push(diagnostic);
    }

    /// Reports a problem of a field, with a hint.
    pub(super) fn find_with_hint(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        let diagnostic = Diagnostic::error(self.location(key), message).with_hint(hint);
        self.diagnostics.push(diagnostic);
    }

    /// The field's name with those of the objects around it.
    pub(super) fn full_name(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_owned() } else { format!("{}.{key}", self.prefix) }
    }

    fn location(&self, key: &str) -> Location {
        Location::file(self.file).at(self.full_name(key))
    }
}

/// A value as JSON, truncated to 60 characters.
pub(super) fn excerpt(value: &Value) -> String {
    const LIMIT: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
