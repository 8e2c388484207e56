//! Device files: TOML, with the line of every entry and all problems of a file at once.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use crate::base::{Diagnostic, Diagnostics, LineIndex, Location, nearest};

/// Why a device file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// It cannot be read.
    #[error("cannot read device file: {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It says what cannot be.
    #[error("{0}")]
    Wrong(Diagnostics),
}

/// The text of a device file.
pub(super) struct Source<'i> {
    /// What diagnostics call it.
    file: &'i str,
    text: &'i str,
    lines: LineIndex,
}

impl<'i> Source<'i> {
    pub fn new(file: &'i str, text: &'i str) -> Self {
        Self { file, text, lines: LineIndex::new(text) }
    }

    /// The table of the file's top.
    pub fn parse(&self, diagnostics: &mut Diagnostics) -> DeTable<'i> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let location = self.location(error.span().unwrap_or_default());
            diagnostics.push(Diagnostic::error(location, error.message().trim_end()));
        }
        table.into_inner()
    }

    /// The line where `span` begins.
    fn location(&self, span: Range<usize>) -> Location {
        Location::line(self.file, self.lines.line(span.start))
    }
}

/// One table of a file, while it is read.
pub(super) struct Section<'a, 'i> {
    source: &'a Source<'i>,
    location: Location,
    table: &'a DeTable<'i>,
    known: Vec<&'static str>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a, 'i> Section<'a, 'i> {
    pub fn top(source: &'a Source<'i>, table: &'a DeTable<'i>, diagnostics: &'a mut Diagnostics) -> Self {
        Self { source, location: Location::file(source.file), table, known: vec![], diagnostics }
    }

    /// Reads the table `name` inside this one, if it is there.
    pub fn section<T>(
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

    /// Reads the table `name`, whose keys are free and whose values are all of one kind.
    pub fn map<T: DeserializeOwned>(&mut self, name: &'static str, expected: &str) -> Vec<(String, T)> {
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

    /// A value that must be there.
    pub fn required<T: DeserializeOwned>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        if self.table.contains_key(key) {
            return self.optional(key, expected);
        }
        self.known.push(key);
        self.report(self.location.clone(), format!("`{key}` is missing: expected {expected}"));
        None
    }

    /// A value that may be left out.
    pub fn optional<T: DeserializeOwned>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        let value = self.find(key)?;
        let read = T::deserialize(ValueDeserializer::from(value.clone())).ok();
        if read.is_none() {
            self.wrong(key, value, expected);
        }
        read
    }

    /// A whole number above zero, which must be there.
    pub fn positive(&mut self, key: &'static str) -> Option<u64> {
        const EXPECTED: &str = "a whole number above zero";
        let number: i64 = self.required(key, EXPECTED)?;
        self.checked(key, u64::try_from(number).ok().filter(|&number| number > 0), EXPECTED)
    }

    /// A number above zero, which must be there.
    pub fn positive_float(&mut self, key: &'static str) -> Option<f64> {
        const EXPECTED: &str = "a number above zero";
        let number: f64 = self.required(key, EXPECTED)?;
        self.checked(key, Some(number).filter(|number| number.is_finite() && *number > 0.0), EXPECTED)
    }

    /// A text that can stand between quotes as it is, and must be there.
    pub fn plain_text(&mut self, key: &'static str) -> Option<String> {
        const EXPECTED: &str = "a text of printable ASCII without quotes and backslashes";
        let text: String = self.required(key, EXPECTED)?;
        let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\');
        let is_plain = !text.trim().is_empty() && text.chars().all(plain);
        self.checked(key, Some(text).filter(|_| is_plain), EXPECTED)
    }

    /// Reports the value of `key` unless there is something.
    pub fn checked<T>(&mut self, key: &str, value: Option<T>, expected: &str) -> Option<T> {
        if value.is_none()
            && let Some(found) = self.table.get(key)
        {
            self.wrong(key, found, expected);
        }
        value
    }

    /// Leaves keys unread of which nothing can be said.
    pub fn leave(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports every key that nothing asked for.
    pub fn finish(&mut self) {
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if self.known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            let diagnostic =
                Diagnostic::error(self.source.location(key.span()), format!("no such table or key: {name}"));
            self.diagnostics.push(diagnostic.with_hint(hint));
        }
    }

    fn report(&mut self, location: Location, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(location, message));
    }

    /// Whether the table `name`, which must be there, is there.
    pub fn has_table(&mut self, name: &'static str) -> bool {
        let has = self.table.contains_key(name);
        if !has {
            self.known.push(name);
            self.report(self.location.clone(), format!("a table is missing: expected [{name}]"));
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
