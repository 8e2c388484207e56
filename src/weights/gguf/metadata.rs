use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::super::WeightsError;

/// A metadata value; integers of every width in one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetadataValue {
    Integer(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<MetadataValue>),
}

impl MetadataValue {
    fn kind(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a boolean",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
        }
    }

    pub(super) fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Key-value pairs of a header, with the file for errors. Getters return `None` for a missing key, and an error for a value
/// of another type.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub path: PathBuf,
    pub values: BTreeMap<String, MetadataValue>,
}

impl Metadata {
    pub(super) fn new(path: &Path, values: BTreeMap<String, MetadataValue>) -> Self {
        Self { path: path.to_owned(), values }
    }

    /// A size, count or id.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, WeightsError> {
        self.get(key, "an integer from 0 on", |entry| entry.integer().and_then(|n| u32::try_from(n).ok()))
            .map(|n| n.map(|n| n as usize))
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, WeightsError> {
        self.get(key, "a finite float", |entry| match entry {
            MetadataValue::Float(value) if value.is_finite() => Some(*value),
            _ => None,
        })
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, WeightsError> {
        self.get(key, "a boolean", |entry| match entry {
            MetadataValue::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, WeightsError> {
        self.get(key, "a text", MetadataValue::text)
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&str>>, WeightsError> {
        self.get(key, "a list of texts", |entry| match entry {
            MetadataValue::List(list) => list.iter().map(MetadataValue::text).collect(),
            _ => None,
        })
    }

    pub(super) fn integers(&self, key: &str) -> Result<Option<Vec<i128>>, WeightsError> {
        self.get(key, "a list of integers", |entry| match entry {
            MetadataValue::List(list) => list.iter().map(MetadataValue::integer).collect(),
            _ => None,
        })
    }

    /// The value of a getter, or an error if the key is missing.
    pub(super) fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, WeightsError> {
        value.ok_or_else(|| self.wrong(key, "missing"))
    }

    /// An error about a key.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) -> WeightsError {
        WeightsError::Setting {
            path: self.path.clone(),
            key: key.to_owned(),
            problem: problem.into(),
            hint: None,
        }
    }

    fn get<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a MetadataValue) -> Option<T>,
    ) -> Result<Option<T>, WeightsError> {
        let Some(entry) = self.values.get(key) else { return Ok(None) };
        match convert(entry) {
            Some(value) => Ok(Some(value)),
            None => {
                let found = match entry {
                    MetadataValue::Integer(n) => n.to_string(),
                    MetadataValue::Float(value) => value.to_string(),
                    other => other.kind().to_owned(),
                };
                Err(self.wrong(key, format!("expected {expected}, found {found}")))
            }
        }
    }
}
