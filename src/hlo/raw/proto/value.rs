//! The values of attributes, from their text.

use super::escape::unescape;
use crate::hlo::raw::cursor::{Cursor, Parsed, SyntaxError};

/// A position in the value of an attribute.
#[derive(Clone, Copy)]
pub(super) struct Value<'t>(pub Cursor<'t>);

impl<'t> Value<'t> {
    pub(super) fn new(text: &'t str, start: usize, end: usize) -> Self {
        Self(Cursor::new(text, start, end))
    }

    pub(super) fn error(&self, expected: &str) -> SyntaxError {
        self.0.unexpected(expected)
    }

    pub(super) fn accept(&mut self, mark: u8) -> Parsed<bool> {
        self.0.accept(mark)
    }

    pub(super) fn expect(&mut self, mark: u8) -> Parsed<()> {
        self.0.expect(mark)
    }

    /// Whether this byte comes next.
    pub(super) fn next_is(&mut self, mark: u8) -> Parsed<bool> {
        self.0.skip_blank()?;
        Ok(self.0.peek() == mark)
    }

    pub(super) fn int(&mut self) -> Parsed<i64> {
        self.0.skip_blank()?;
        let at = *self;
        let value = self.0.int("an integer")?;
        i64::try_from(value).map_err(|_| at.error("an integer of 64 bits"))
    }

    pub(super) fn int32(&mut self) -> Parsed<i32> {
        let at = *self;
        let value = self.int()?;
        i32::try_from(value).map_err(|_| at.error("an integer of 32 bits"))
    }

    /// A number with or without a fraction.
    pub(super) fn number(&mut self) -> Parsed<f64> {
        self.0.skip_blank()?;
        let at = *self;
        let text = self.token();
        text.parse().map_err(|_| at.error("a number"))
    }

    pub(super) fn boolean(&mut self) -> Parsed<bool> {
        let at = *self;
        match self.word("`true` or `false`")? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(at.error("`true` or `false`")),
        }
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<&'t str> {
        let span = self.0.word(what)?;
        Ok(text(self.0.bytes(span.range())))
    }

    pub(super) fn accept_word(&mut self, word: &str) -> Parsed<bool> {
        self.0.accept_word(word.as_bytes())
    }

    /// Letters, digits and what else a number consists of.
    pub(super) fn token(&mut self) -> &'t str {
        let start = self.0.at();
        while self.0.peek().is_ascii_alphanumeric() || matches!(self.0.peek(), b'.' | b'-' | b'+' | b'_') {
            self.0.advance(1);
        }
        text(self.0.bytes(start..self.0.at()))
    }

    /// A text in single or double quotes.
    pub(super) fn string(&mut self) -> Parsed<Vec<u8>> {
        self.0.skip_blank()?;
        let at = *self;
        let found = if self.0.peek() == b'\'' {
            self.single_quoted()?
        } else {
            let span = self.0.string()?;
            text(self.0.bytes(span.range()))
        };
        unescape(found).ok_or_else(|| SyntaxError::new(at.0.at(), "unknown escape in a string"))
    }

    fn single_quoted(&mut self) -> Parsed<&'t str> {
        let at = *self;
        self.0.advance(1);
        let start = self.0.at();
        loop {
            match self.0.peek() {
                b'\'' => break,
                b'\\' => self.0.advance(2),
                _ if self.0.is_end() => {
                    return Err(SyntaxError::new(
                        at.0.at(),
                        "expected a closing `'`, found the end of the text",
                    ));
                }
                _ => self.0.advance(1),
            }
        }
        let end = self.0.at();
        self.0.advance(1);
        Ok(text(self.0.bytes(start..end)))
    }

    pub(super) fn utf8(&mut self) -> Parsed<String> {
        self.0.skip_blank()?;
        let at = self.0.at();
        String::from_utf8(self.string()?).map_err(|_| SyntaxError::new(at, "expected UTF-8 in a string"))
    }

    /// A text in quotes, or a group in braces as it is.
    pub(super) fn config(&mut self) -> Parsed<Vec<u8>> {
        self.0.skip_blank()?;
        if self.0.peek() != b'{' {
            return self.string();
        }
        let start = self.0.at();
        self.0.skip_group()?;
        Ok(self.0.bytes(start..self.0.at()).to_vec())
    }

    /// Items with commas between them or without, up to the closing mark.
    pub(super) fn items<T>(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(open)?;
        let mut found = Vec::new();
        loop {
            self.accept(b',')?;
            if self.accept(close)? {
                return Ok(found);
            }
            self.0.skip_blank()?;
            let before = self.0.at();
            found.push(item(self)?);
            if self.0.at() == before {
                return Err(self.error(&format!("`{}`", close as char)));
            }
        }
    }

    /// `{0,1}`
    pub(super) fn ints(&mut self) -> Parsed<Vec<i64>> {
        self.items(b'{', b'}', Self::int)
    }

    /// `{true,false}` or `true`
    pub(super) fn bools(&mut self) -> Parsed<Vec<bool>> {
        if self.next_is(b'{')? { self.items(b'{', b'}', Self::boolean) } else { Ok(vec![self.boolean()?]) }
    }

    /// The number of a name, without regard to upper case.
    pub(super) fn one_of(&mut self, names: &[&str]) -> Parsed<i32> {
        self.0.skip_blank()?;
        let at = *self;
        let word = self.word("a word")?;
        let found = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        found.map(|index| index as i32).ok_or_else(|| at.error(&format!("one of {}", names.join(", "))))
    }

    /// Integers with a mark between them: `3x3`, `0_1`.
    pub(super) fn separated(&mut self, mark: u8) -> Parsed<Vec<i64>> {
        let mut found = vec![self.int()?];
        while self.0.peek() == mark {
            self.0.advance(1);
            found.push(self.int()?);
        }
        Ok(found)
    }

    /// Nothing but blanks is left.
    pub(super) fn end(&mut self) -> Parsed<()> {
        self.0.skip_blank()?;
        if self.0.is_end() { Ok(()) } else { Err(self.error("the end of the value")) }
    }
}

/// The text between two places of a text. Places are at ASCII bytes.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
