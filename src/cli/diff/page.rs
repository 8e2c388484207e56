//! Lines of at most 80 columns, and tables.

use std::fmt::Write;

use super::format::signed;
use crate::cli::{
    Style,
    figures::{WIDTH, cut, grouped},
};

/// The text so far.
pub(super) struct Page {
    pub lines: String,
    pub style: Style,
    /// Number of rows of a list to show.
    pub top: usize,
}

impl Page {
    /// Adds a line, cut where it is too long.
    pub(super) fn line(&mut self, line: &str) {
        self.lines.push_str(&cut(line, WIDTH));
        self.lines.push('\n');
    }

    /// Adds a line about what was removed.
    pub(super) fn removed(&mut self, line: &str) {
        self.colored(line, "\u{1b}[31m");
    }

    /// Adds a line about what was added.
    pub(super) fn added(&mut self, line: &str) {
        self.colored(line, "\u{1b}[32m");
    }

    pub(super) fn colored(&mut self, line: &str, color: &str) {
        match self.style {
            Style::Plain => self.line(line),
            Style::Ansi => _ = writeln!(self.lines, "{color}{}\u{1b}[0m", cut(line, WIDTH)),
        }
    }

    pub(super) fn blank(&mut self) {
        self.lines.push('\n');
    }

    pub(super) fn title(&mut self, title: &str, rows: usize) {
        if rows > 0 {
            self.line(title);
        }
    }

    pub(super) fn more(&mut self, rows: usize, what: &str) {
        if rows > self.top {
            self.line(&format!("  {} more {what}", grouped(rows - self.top)));
        }
    }

    pub(super) fn counted(&mut self, name: &str, before: usize, after: usize) {
        self.row(name, [grouped(before), grouped(after), signed(after as f64 - before as f64)]);
    }

    /// A row of the table. A name that is too long has a line of its own.
    pub(super) fn row(&mut self, name: &str, [before, after, difference]: [String; 3]) {
        const NAME: usize = 41;
        let mut name = name;
        if name.chars().count() > NAME {
            self.line(name);
            name = "";
        }
        self.line(&format!("{name:<NAME$}{before:>13}{after:>13}{difference:>13}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_at_most_80_columns_and_colors_where_wanted() {
        let text = |style| {
            let mut page = Page { lines: String::new(), style, top: 1 };
            page.removed(&"é".repeat(81));
            page.added("+ a");
            page.more(3, "rows");
            page.lines
        };
        let cut = "é".repeat(79) + "…";
        assert_eq!(text(Style::Plain), format!("{cut}\n+ a\n  2 more rows\n"));
        let colored = format!("\u{1b}[31m{cut}\u{1b}[0m\n\u{1b}[32m+ a\u{1b}[0m\n  2 more rows\n");
        assert_eq!(text(Style::Ansi), colored);
    }
}
