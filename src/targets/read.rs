//! Reading device files: TOML with the line of every entry, and all problems of a file reported at once.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use crate::base::{Diagnostic, Diagnostics, LineIndex, Location, did_you_mean};

/// A device file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The file cannot be read.
    #[error("cannot read device file: {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Invalid, missing or unknown keys.
    #[error("{0}")]
    Invalid(Diagnostics),
}

/// Expected value of a count.
const POSITIVE: &str = "an integer above zero";
/// Expected value of a name.
const PLAIN_TEXT: &str = "a string of printable ASCII without quotes or backslashes";

/// Text of a device file.
pub(super) struct DeviceFile<'i> {
    /// Name in diagnostics.
    file: &'i str,
    text: &'i str,
    lines: LineIndex,
}

impl<'i> DeviceFile<'i> {
    pub(super) fn new(file: &'i str, text: &'i str) -> Self {
        Self { file, text, lines: LineIndex::new(text) }
    }

    /// Parses the file into its top-level table.
    pub(super) fn parse(&self, diagnostics: &mut Diagnostics) -> DeTable<'i> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let location = self.location(error.span().unwrap_or_default());
            diagnostics.push(Diagnostic::error(location, error.message().trim_end()));
        }
        table.into_inner()
    }

    /// The line of a span's start.
    fn location(&self, span: Range<usize>) -> Location {
        Location::line(self.file, self.lines.line(span.start))
    }
}

/// A table of a file while it is being read.
pub(super) struct Section<'a, 'i> {
    source: &'a DeviceFile<'i>,
    location: Location,
    table: &'a DeTable<'i>,
    known: Vec<&'static str>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a, 'i> Section<'a, 'i> {
    pub(super) fn top(
        source: &'a DeviceFile<'i>,
        table: &'a DeTable<'i>,
        diagnostics: &'a mut Diagnostics,
    ) -> Self {
        Self { source, location: Location::file(source.file), table, known: vec![], diagnostics }
    }

    /// Reads the table `name` inside this one, if present.
    pub(super) fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_, 'i>) -> Option<T>,
    ) -> Option<T> {
        let value = self.find(name)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(name, value, "a table");
            return None;
        };
        let location = self.source.location(value.span()).at(name);
        let source = self.source;
        let mut section =
            Section { source, location, table, known: vec![], diagnostics: &mut *self.diagnostics };
        let read = read(&mut section);
        section.finish();
        read
    }

    /// Reads the table `name`, which has any keys and values of one type.
    pub(super) fn map<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> Vec<(String, T)> {
        let Some(value) = self.find(name) else { return vec![] };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(name, value, "a table");
            return vec![];
        };
        let mut entries = Vec::new();
        for (key, value) in table {
            match T::deserialize(ValueDeserializer::from(value.clone())) {
                Ok(read) => entries.push((key.get_ref().to_string(), read)),
                Err(_) => self.wrong(key.get_ref(), value, expected),
            }
        }
        entries
    }

    /// Reads a required value.
    pub(super) fn required<T: DeserializeOwned>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        if self.table.contains_key(key) {
            return self.optional(key, expected);
        }
        self.known.push(key);
        self.report(self.location.clone(), format!("missing key `{key}`: expected {expected}"));
        None
    }

    /// Reads an optional value.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        let value = self.find(key)?;
        let read = T::deserialize(ValueDeserializer::from(value.clone())).ok();
        if read.is_none() {
            self.wrong(key, value, expected);
        }
        read
    }

    /// Reads a required integer above zero.
    pub(super) fn positive(&mut self, key: &'static str) -> Option<u64> {
        let number: i64 = self.required(key, POSITIVE)?;
        self.checked_positive(key, number)
    }

    /// Reads an optional integer above zero.
    pub(super) fn optional_positive(&mut self, key: &'static str) -> Option<u64> {
        let number: i64 = self.optional(key, POSITIVE)?;
        self.checked_positive(key, number)
    }

    fn checked_positive(&mut self, key: &'static str, number: i64) -> Option<u64> {
        self.checked(key, u64::try_from(number).ok().filter(|&number| number > 0), POSITIVE)
    }

    /// Reads a required number above zero.
    pub(super) fn positive_float(&mut self, key: &'static str) -> Option<f64> {
        const EXPECTED: &str = "a number above zero";
        let number: f64 = self.required(key, EXPECTED)?;
        self.checked(key, Some(number).filter(|number| number.is_finite() && *number > 0.0), EXPECTED)
    }

    /// Reads a required string that needs no escapes between quotes.
    pub(super) fn plain_text(&mut self, key: &'static str) -> Option<String> {
        let text: String = self.required(key, PLAIN_TEXT)?;
        self.checked_text(key, text)
    }

    /// Reads an optional string that needs no escapes between quotes.
    pub(super) fn optional_plain_text(&mut self, key: &'static str) -> Option<String> {
        let text: String = self.optional(key, PLAIN_TEXT)?;
        self.checked_text(key, text)
    }

    fn checked_text(&mut self, key: &'static str, text: String) -> Option<String> {
        let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\');
        let is_plain = !text.trim().is_empty() && text.chars().all(plain);
        self.checked(key, Some(text).filter(|_| is_plain), PLAIN_TEXT)
    }

    /// Returns `value`; reports the value of `key` as invalid if it is `None`.
    pub(super) fn checked<T>(&mut self, key: &str, value: Option<T>, expected: &str) -> Option<T> {
        if value.is_none()
            && let Some(found) = self.table.get(key)
        {
            self.wrong(key, found, expected);
        }
        value
    }

    /// Accepts keys without reading them, where their meaning is unknown.
    pub(super) fn leave(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports every unknown key.
    pub(super) fn finish(&mut self) {
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if self.known.contains(&name) {
                continue;
            }
            let hint = did_you_mean(name, self.known.iter().copied(), "known keys");
            let diagnostic =
                Diagnostic::error(self.source.location(key.span()), format!("unknown key: {name}"));
            self.diagnostics.push(diagnostic.with_hint(hint));
        }
    }

    fn report(&mut self, location: Location, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(location, message));
    }

    /// Whether the required table `name` is present; reports it if not.
    pub(super) fn has_table(&mut self, name: &'static str) -> bool {
        let has = self.table.contains_key(name);
        if !has {
            self.known.push(name);
            self.report(self.location.clone(), format!("missing table: [{name}]"));
        }
        has
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn wrong(&mut self, key: &str, value: &Spanned<DeValue<'i>>, expected: &str) {
        let found = self.source.text.get(value.span()).unwrap_or_default().lines().next().unwrap_or_default();
        let location = self.source.location(value.span()).at(key);
        self.report(location, format!("expected {expected}, found: {found}"));
    }
}
