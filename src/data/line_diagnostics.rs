use crate::base::{Diagnostic, Diagnostics, Location};

/// Collects the errors in the lines of a file: equal ones are reported once, and only the first twenty in full.
pub(super) struct LineDiagnostics<'a> {
    file: &'a str,
    shown: Vec<Repeated>,
    hidden: usize,
}

struct Repeated {
    diagnostic: Diagnostic,
    further: usize,
}

impl<'a> LineDiagnostics<'a> {
    const SHOWN: usize = 20;

    /// An empty collection for `file`.
    pub(super) fn of(file: &'a str) -> Self {
        Self { file, shown: Vec::new(), hidden: 0 }
    }

    /// Adds an error of a line, counted from one.
    pub(super) fn push(&mut self, line: usize, diagnostic: Diagnostic) {
        let same = self.shown.iter_mut().find(|shown| shown.diagnostic.message == diagnostic.message);
        if let Some(same) = same {
            same.further += 1;
        } else if self.shown.len() < Self::SHOWN {
            let diagnostic = diagnostic.located(Location::line(self.file, line));
            self.shown.push(Repeated { diagnostic, further: 0 });
        } else {
            self.hidden += 1;
        }
    }

    /// Returns `value` if no error was added.
    ///
    /// # Errors
    /// The errors, in the order of their first lines.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        let lines = |n: usize| if n == 1 { "line" } else { "lines" };
        let mut diagnostics = Diagnostics::default();
        for Repeated { mut diagnostic, further } in self.shown {
            if further > 0 {
                diagnostic.message += &format!(" (and the same in {further} more {})", lines(further));
            }
            diagnostics.push(diagnostic);
        }
        if self.hidden > 0 {
            let are = if self.hidden == 1 { "is" } else { "are" };
            let message = format!("{} more {} {are} invalid", self.hidden, lines(self.hidden));
            diagnostics.push(Diagnostic::error(Location::file(self.file), message));
        }
        diagnostics.into_result(value)
    }
}
