//! A position in HLO text, and the smallest phrases of the grammar: blanks, words, numbers, strings, groups in brackets.

use super::{primitive::PrimitiveType, span::Span};
use crate::base::nearest_hint;

/// An error at a byte of the text. Lines and columns are counted only when it is reported.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub at: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    /// The error of an unknown name, with the nearest known one as a hint.
    pub(super) fn suggest<'a>(self, wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self { hint: nearest_hint(wanted, known), ..self }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

pub(super) type Parsed<T> = Result<T, SyntaxError>;

/// Whether a word has a meaning of its own, so that it is no name without `%`.
fn is_reserved(word: &[u8]) -> bool {
    matches!(
        word,
        b"HloModule"
            | b"ENTRY"
            | b"ROOT"
            | b"true"
            | b"false"
            | b"inf"
            | b"nan"
            | b"maximal"
            | b"replicated"
            | b"manual"
            | b"unknown"
            | b"unreduced"
            | b"last_tile_dim_replicate"
            | b"shard_as"
            | b"shard_like"
    ) || PrimitiveType::from_name(word).is_some()
}

/// A position in the bytes of a text. Offsets are those of the whole text, also where only a part of it is read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t> {
    bytes: &'t [u8],
    at: usize,
}

/// Whether a name may begin with this byte.
fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Whether a name may contain this byte after its first one.
fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

impl<'t> Cursor<'t> {
    /// A cursor at `start` that ends at `end`.
    pub(super) fn new(text: &'t str, start: usize, end: usize) -> Self {
        Self { bytes: &text.as_bytes()[..end], at: start }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn set(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn bytes(&self, span: std::ops::Range<usize>) -> &'t [u8] {
        &self.bytes[span]
    }

    /// The byte here; 0 at the end, which no valid text contains.
    pub(super) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, offset: usize) -> u8 {
        self.bytes.get(self.at + offset).copied().unwrap_or(0)
    }

    pub(super) fn is_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// Skips white space and comments.
    pub(super) fn skip_blank(&mut self) -> Parsed<()> {
        loop {
            match self.peek() {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek_at(1) == b'/' => self.skip_line(),
                b'/' if self.peek_at(1) == b'*' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|&byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
    }

    /// Skips from `/*` to after `*/`.
    fn skip_comment(&mut self) -> Parsed<()> {
        let rest = &self.bytes[self.at + 2..];
        let Some(length) = rest.windows(2).position(|pair| pair == b"*/") else {
            return Err(SyntaxError::new(self.at, "expected `*/`, found the end of the text in a comment"));
        };
        self.at += length + 4;
        Ok(())
    }

    /// Takes a mark after blanks, if it is there.
    pub(super) fn accept(&mut self, mark: u8) -> Parsed<bool> {
        self.skip_blank()?;
        let found = self.peek() == mark;
        self.at += usize::from(found);
        Ok(found)
    }

    pub(super) fn expect(&mut self, mark: u8) -> Parsed<()> {
        if self.accept(mark)? { Ok(()) } else { Err(self.unexpected(&format!("`{}`", mark as char))) }
    }

    /// Takes `->` after blanks.
    pub(super) fn expect_arrow(&mut self) -> Parsed<()> {
        self.skip_blank()?;
        if self.peek() != b'-' || self.peek_at(1) != b'>' {
            return Err(self.unexpected("`->`"));
        }
        self.at += 2;
        Ok(())
    }

    /// The word here, without taking it; empty if there is none.
    pub(super) fn peek_word(&self) -> &'t [u8] {
        if !starts_name(self.peek()) {
            return b"";
        }
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| !continues_name(byte)).unwrap_or(rest.len());
        // `a->b` is an arrow after a name.
        let length =
            if rest.get(length) == Some(&b'>') && rest[length - 1] == b'-' { length - 1 } else { length };
        &rest[..length]
    }

    /// Takes this word, if it is the one here.
    pub(super) fn accept_word(&mut self, word: &[u8]) -> Parsed<bool> {
        self.skip_blank()?;
        let found = self.peek_word() == word;
        self.at += if found { word.len() } else { 0 };
        Ok(found)
    }

    /// A word without `%`: an opcode, an attribute, a keyword.
    pub(super) fn word(&mut self, what: &str) -> Parsed<Span> {
        self.skip_blank()?;
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.unexpected(what));
        }
        let span = Span::new(self.at, word.len());
        self.at += word.len();
        Ok(span)
    }

    /// A name of a module, computation or instruction, after an optional `%`, which is not part of it. A colon may follow.
    pub(super) fn name(&mut self, what: &str) -> Parsed<Span> {
        self.skip_blank()?;
        if self.peek() == b'%' {
            self.at += 1;
            let word = self.peek_word();
            if word.is_empty() {
                return Err(self.unexpected("a letter or `_` after `%`"));
            }
            let span = Span::new(self.at, word.len());
            self.at += word.len();
            return Ok(span);
        }
        let word = self.peek_word();
        let end = self.peek_at(word.len());
        let is_name = !word.is_empty() && end != b'=' && (end == b':' || !is_reserved(word));
        if !is_name {
            return Err(self.unexpected(what));
        }
        let span = Span::new(self.at, word.len());
        self.at += word.len() + usize::from(end == b':');
        Ok(span)
    }

    /// A word and the `=` right after it: the name of an attribute or of a field of one. The `=` is taken too.
    pub(super) fn attribute_name(&mut self, what: &str) -> Parsed<Span> {
        self.skip_blank()?;
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.unexpected(what));
        }
        if self.peek_at(word.len()) != b'=' {
            let found = String::from_utf8_lossy(word);
            return Err(SyntaxError::new(self.at, format!("expected `=` right after `{found}`")));
        }
        let span = Span::new(self.at, word.len());
        self.at += word.len() + 1;
        Ok(span)
    }

    /// An integer of 64 bits. Values from 2^63 to 2^64 - 1 are those of unsigned types.
    pub(super) fn int(&mut self, what: &str) -> Parsed<i128> {
        self.skip_blank()?;
        let negative = self.peek() == b'-';
        let digits = &self.bytes[(self.at + usize::from(negative)).min(self.bytes.len())..];
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 || length > 20 {
            return Err(self.unexpected(what));
        }
        let value =
            digits[..length].iter().fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        let value = if negative { -value } else { value };
        if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
            return Err(self.unexpected(what));
        }
        self.at += length + usize::from(negative);
        Ok(value)
    }

    /// A string in double or single quotes; the span is without them.
    pub(super) fn string(&mut self) -> Parsed<Span> {
        self.skip_blank()?;
        if !matches!(self.peek(), b'"' | b'\'') {
            return Err(self.unexpected("a string in quotes"));
        }
        let start = self.at;
        self.skip_string()?;
        Ok(Span::new(start + 1, self.at - start - 2))
    }

    /// Skips a string from its first quote to after its last.
    pub(super) fn skip_string(&mut self) -> Parsed<()> {
        let start = self.at;
        let quote = self.peek();
        self.at += 1;
        loop {
            match self.peek() {
                byte if byte == quote => break,
                b'\\' => self.skip_escape()?,
                0 if self.is_end() => {
                    self.at = start;
                    let message =
                        format!("expected a closing `{}`, found the end of the text", quote as char);
                    return Err(SyntaxError::new(start, message));
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Skips a backslash and what it escapes, as in C.
    fn skip_escape(&mut self) -> Parsed<()> {
        let is_escape = matches!(
            self.peek_at(1),
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'?' | b'\'' | b'"' | b'0'
                ..=b'7' | b'x' | b'X' | b'u' | b'U'
        );
        if !is_escape {
            return Err(SyntaxError::new(self.at, "invalid escape in a string")
                .with_hint("write a backslash as `\\\\`"));
        }
        self.at += 2;
        Ok(())
    }

    /// Skips a string or `/* */`, whose brackets do not count, if one begins here.
    fn skip_string_or_comment(&mut self) -> Parsed<bool> {
        match (self.peek(), self.peek_at(1)) {
            (b'"' | b'\'', _) => self.skip_string()?,
            (b'/', b'*') => self.skip_comment()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Skips from an opening bracket to after the one that closes it. Brackets inside strings do not count.
    pub(super) fn skip_group(&mut self) -> Parsed<()> {
        let start = self.at;
        if !matches!(self.peek(), b'{' | b'[' | b'(') {
            return Err(self.unexpected("`{`, `[` or `(`"));
        }
        let mut open = Vec::new();
        loop {
            match self.peek() {
                bracket @ (b'{' | b'[' | b'(') => open.push((bracket, self.at)),
                bracket @ (b'}' | b']' | b')') => {
                    let expected = open.pop().map(|(opening, _)| closing(opening));
                    if expected != Some(bracket) {
                        return Err(self.unexpected(&format!("`{}`", expected.unwrap_or(b'}') as char)));
                    }
                    if open.is_empty() {
                        self.at += 1;
                        return Ok(());
                    }
                }
                b'"' | b'\'' | b'/' if self.skip_string_or_comment()? => continue,
                _ if self.is_end() => {
                    let (opening, at) = open.pop().unwrap_or((self.bytes[start], start));
                    let message = format!("`{}` is not closed", opening as char);
                    return Err(SyntaxError::new(at, message));
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips the body of a computation from its `{` to after its `}`. Only braces, strings and comments matter to it.
    pub(super) fn skip_body(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                b'/' if self.peek_at(1) == b'/' => {
                    self.skip_line();
                    continue;
                }
                b'"' | b'\'' | b'/' if self.skip_string_or_comment()? => continue,
                _ => {}
            }
            self.at += 1;
        }
        Err(SyntaxError::new(start, "`{` is not closed"))
    }

    /// The same position, with an earlier end.
    pub(super) fn until(self, end: usize) -> Self {
        Self { bytes: &self.bytes[..end], ..self }
    }

    /// The error of what is here in place of `expected`.
    pub(super) fn unexpected(&self, expected: &str) -> SyntaxError {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let word = rest.iter().position(|&byte| !continues_name(byte)).unwrap_or(rest.len());
        let found = match rest {
            [] => "the end of the text".to_owned(),
            [b'"' | b'\'', ..] => "a string".to_owned(),
            _ if word > 0 => format!("`{}`", String::from_utf8_lossy(&rest[..word.min(64)])),
            _ => {
                let text = String::from_utf8_lossy(&rest[..rest.len().min(4)]);
                format!("`{}`", text.chars().next().unwrap_or_default().escape_debug())
            }
        };
        SyntaxError::new(self.at, format!("expected {expected}, found {found}"))
    }
}

const fn closing(opening: u8) -> u8 {
    match opening {
        b'{' => b'}',
        b'[' => b']',
        _ => b')',
    }
}
