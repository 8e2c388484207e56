//! The error of parsing and rendering.

/// Error of parsing or rendering a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// Line of the template, counted from one, where that is known.
    pub line: Option<usize>,
    /// Text of the exception as Python prints it, or the limit that was exceeded.
    pub message: String,
}

impl Error {
    /// An error whose line the caller knows.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }

    /// An error at a line, counted from one.
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), message: message.into() }
    }

    /// A feature of Jinja2 or Python that this interpreter lacks.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(format!("unsupported: {what}"))
    }

    /// The same error at `line`, unless it has a line already.
    pub(crate) fn or_at(self, line: usize) -> Self {
        Self { line: self.line.or(Some(line)), ..self }
    }
}

/// Result of parsing or rendering.
pub(super) type Result<T, E = Error> = std::result::Result<T, E>;
