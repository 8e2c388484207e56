use std::fmt;

use super::Location;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The input is used, but probably not as meant.
    Warning,
    /// The input cannot be used.
    Error,
}

/// A problem in the input: its location, what was found, and what was expected.
///
/// ```
/// use hloom::base::{Diagnostic, Location, did_you_mean};
///
/// let known = ["fsdp", "tensor"];
/// let diagnostic = Diagnostic::error(Location::line("mesh.toml", 3).at("heads"), "unknown axis: tensr")
///     .with_hint(did_you_mean("tensr", known, "the axes are"));
/// assert_eq!(
///     diagnostic.to_string(),
///     "mesh.toml:3: `heads`: unknown axis: tensr\n  hint: did you mean `tensor`?",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the input can be used.
    pub severity: Severity,
    /// Stable identifier of the problem, for scripts.
    pub code: Option<&'static str>,
    /// Location of the problem.
    pub location: Location,
    /// The value found and the value expected, in lower case and without a full stop.
    pub message: String,
    /// An action that fixes the problem.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(location: Location, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code: None, location, message: message.into(), hint: None }
    }

    /// A warning.
    pub fn warning(location: Location, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(location, message) }
    }

    /// The same diagnostic with a code.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same diagnostic with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same diagnostic at a named item of its location.
    pub fn on(self, item: impl Into<String>) -> Self {
        Self { location: self.location.at(item), ..self }
    }

    /// The same diagnostic at a location.
    pub fn located(self, location: Location) -> Self {
        Self { location, ..self }
    }
}

/// An error without a location, which the caller adds with [`Diagnostic::located`].
impl From<String> for Diagnostic {
    fn from(message: String) -> Self {
        Self::error(Location::default(), message)
    }
}

/// An error without a location, which the caller adds with [`Diagnostic::located`].
impl From<&str> for Diagnostic {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// `error[code]: ` if there is a code, the location, the message, and the hint on its own line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, code, location, message, hint } = self;
        if let Some(code) = code {
            let severity = match severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            write!(f, "{severity}[{code}]: ")?;
        }
        if *location != Location::default() {
            write!(f, "{location}: ")?;
        }
        f.write_str(message)?;
        match hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// All problems found by one check. Never empty as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of diagnostics.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The diagnostics, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// `Ok(value)` if there are none.
    ///
    /// # Errors
    /// The diagnostics, if there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_names_file_line_item_and_hint() {
        let check = |diagnostic: Diagnostic, expect: &str| assert_eq!(diagnostic.to_string(), expect);
        let location = Location::line("m.toml", 3).at("heads");
        let error =
            Diagnostic::error(location.clone(), "unknown axis: tensr").with_hint("did you mean `tensor`?");
        check(error.clone(), "m.toml:3: `heads`: unknown axis: tensr\n  hint: did you mean `tensor`?");
        check(
            error.with_code("unknown-axis"),
            "error[unknown-axis]: m.toml:3: `heads`: unknown axis: tensr\n  hint: did you mean `tensor`?",
        );
        let column = Location { column: Some(7), ..Location::line("m.hlo", 3) };
        check(Diagnostic::error(column, "unknown opcode: ad"), "m.hlo:3:7: unknown opcode: ad");
        check("a message".into(), "a message");
    }
}
