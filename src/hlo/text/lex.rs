//! Tokens: words, numbers, strings and punctuation, each with the line and column of its start.

use crate::{
    base::{Diagnostic, Location},
    hlo::names::{continues_name, starts_name},
};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HloTokenKind<'a> {
    /// A name, a keyword or an element type; a leading `%` is dropped.
    Word(&'a str),
    /// A word that starts with a digit or a minus sign: `12`, `-1.5e-3`, `-inf`, `0_1x-2_0`.
    Number(&'a str),
    /// The text between double quotes, with its escapes.
    Str(&'a str),
    /// Any other character.
    Mark(char),
    /// A string or comment that is not closed.
    Unclosed(&'static str),
    /// The end of the text.
    End,
}

/// A token and its place in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct HloToken<'a> {
    pub kind: HloTokenKind<'a>,
    /// Byte offsets into the text.
    pub start: usize,
    pub end: usize,
    pub at: Position,
    /// Whether it is the first token of its line.
    pub leads_line: bool,
}

/// A line and a column, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The start of the text.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The location in a file that is named later.
    pub(super) fn location(self) -> Location {
        Location { line: Some(self.line), column: Some(self.column), ..Location::default() }
    }

    /// An error at this position.
    pub(super) fn error(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.location(), message)
    }
}

pub(super) struct HloLexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_start: usize,
    leads_line: bool,
}

impl<'a> HloLexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, line_start: 0, leads_line: true }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next token after white space and comments; `End` after the last token.
    pub(super) fn next(&mut self) -> HloToken<'a> {
        let closed = self.skip_blank();
        let (start, leads_line) = (self.at, self.leads_line);
        let at = Position { line: self.line, column: start - self.line_start + 1 };
        let kind = if closed { self.kind() } else { HloTokenKind::Unclosed("comment") };
        if !closed {
            self.advance(self.rest().len());
        }
        self.leads_line = false;
        HloToken { kind, start, end: self.at, at, leads_line }
    }

    /// Skips `length` bytes.
    pub(super) fn skip(&mut self, length: usize) {
        self.advance(length.min(self.rest().len()));
    }

    fn kind(&mut self) -> HloTokenKind<'a> {
        let rest = self.rest();
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return HloTokenKind::End };
        let second = chars.next().unwrap_or(' ');
        match first {
            '%' if starts_name(second) => {
                self.at += 1;
                HloTokenKind::Word(self.take(|_, c| continues_name(c)))
            }
            _ if starts_name(first) => HloTokenKind::Word(self.take(|_, c| continues_name(c))),
            '-' if second.is_ascii_alphanumeric() => self.number(),
            _ if first.is_ascii_digit() => self.number(),
            '"' => self.string(),
            _ => {
                self.at += first.len_utf8();
                HloTokenKind::Mark(first)
            }
        }
    }

    fn number(&mut self) -> HloTokenKind<'a> {
        HloTokenKind::Number(self.take(|before, c| match c {
            '-' => matches!(before, ' ' | 'e' | 'E' | 'x' | '_'),
            '+' => matches!(before, 'e' | 'E'),
            _ => c.is_ascii_alphanumeric() || matches!(c, '_' | '.'),
        }))
    }

    fn string(&mut self) -> HloTokenKind<'a> {
        let body = self.text.get(self.at + 1..).unwrap_or_default();
        let mut escaped = false;
        for (index, byte) in body.bytes().enumerate() {
            match byte {
                b'\n' => break,
                b'"' if !escaped => {
                    self.at += index + 2;
                    return HloTokenKind::Str(&body[..index]);
                }
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        self.at += 1 + body.find('\n').unwrap_or(body.len());
        HloTokenKind::Unclosed("string")
    }

    /// Takes characters as long as `accepts` returns true for the previous character (a space at first) and the current
    /// one.
    fn take(&mut self, accepts: impl Fn(char, char) -> bool) -> &'a str {
        let rest = self.rest();
        let mut before = ' ';
        let end = rest.find(|c| !accepts(std::mem::replace(&mut before, c), c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips white space and comments; false if a comment is not closed.
    fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let blank = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => end + 2,
                    None => return false,
                }
            } else {
                rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
            };
            if blank == 0 {
                return true;
            }
            self.advance(blank);
        }
    }

    fn advance(&mut self, length: usize) {
        for (index, _) in self.rest()[..length].match_indices('\n') {
            self.line += 1;
            self.line_start = self.at + index + 1;
            self.leads_line = true;
        }
        self.at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[HloTokenKind<'_>]) {
        let mut lexer = HloLexer::new(text);
        for (index, &kind) in expect.iter().chain([&HloTokenKind::End, &HloTokenKind::End]).enumerate() {
            assert_eq!(lexer.next().kind, kind, "token {index} of {text:?}");
        }
    }

    #[test]
    fn every_kind_of_token() {
        use HloTokenKind::{Mark, Number, Str, Unclosed, Word};
        check("%a.1-b = f32[2]", &[Word("a.1-b"), Mark('='), Word("f32"), Mark('['), Number("2"), Mark(']')]);
        check(
            "-1.5e-3 1e+5 -inf 0_1x-2_-1 [0:4]",
            &[
                Number("-1.5e-3"),
                Number("1e+5"),
                Number("-inf"),
                Number("0_1x-2_-1"),
                Mark('['),
                Number("0"),
                Mark(':'),
                Number("4"),
                Mark(']'),
            ],
        );
        check(r#""a\"b\\" -> % é"#, &[Str(r#"a\"b\\"#), Mark('-'), Mark('>'), Mark('%'), Mark('é')]);
        check("a // b\n /* c\n */ d", &[Word("a"), Word("d")]);
        check("\"open\nb", &[Unclosed("string"), Word("b")]);
        check("a /* open", &[Word("a"), Unclosed("comment")]);
    }

    #[test]
    fn tokens_have_line_and_column() {
        let mut lexer = HloLexer::new("a b\n/*\n*/  c");
        let positions: Vec<_> =
            (0..3).map(|_| lexer.next()).map(|t| (t.at.line, t.at.column, t.leads_line)).collect();
        assert_eq!(positions, [(1, 1, true), (1, 3, false), (3, 5, true)]);
    }
}
