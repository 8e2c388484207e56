//! Tokens of a template, with the whitespace control of Jinja2 (`trim_blocks` and `lstrip_blocks`).

use std::sync::Arc;

use super::{
    error::{Error, Result},
    unicode,
};

/// A token with its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemplateToken {
    pub line: usize,
    pub kind: TokenKind,
}

/// Kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Data(Arc<str>),
    BlockBegin,
    BlockEnd,
    VariableBegin,
    VariableEnd,
    Name(Arc<str>),
    Text(String),
    Int(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";",
];

/// Kinds of tags, which end differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Block,
    Variable,
}

struct TemplateLexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether the last token ended with a line break, or there is none.
    line_starts: bool,
    tokens: Vec<TemplateToken>,
}

/// The tokens of `source`, with line breaks made `\n` and the last one dropped, as Jinja2 does.
pub(super) fn tokens(source: &str) -> Result<Vec<TemplateToken>> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = TemplateLexer { source, at: 0, line: 1, line_starts: true, tokens: Vec::new() };
    lexer.run()?;
    lexer.push(TokenKind::End);
    Ok(lexer.tokens)
}

impl<'a> TemplateLexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn push(&mut self, kind: TokenKind) {
        self.tokens.push(TemplateToken { line: self.line, kind });
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.line, message))
    }

    /// Moves over `length` bytes.
    fn skip(&mut self, length: usize) {
        let skipped = &self.source[self.at..self.at + length];
        self.line += skipped.matches('\n').count();
        self.line_starts = skipped.ends_with('\n');
        self.at += length;
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let mut begins = rest.match_indices('{').map(|(at, _)| at);
            let begin = begins.find(|at| rest[at + 1..].starts_with(['{', '%', '#']));
            let Some(length) = begin else {
                self.data(rest);
                self.skip(rest.len());
                return Ok(());
            };
            let raw = raw_tag(&rest[length..], "raw").filter(|_| rest[length..].starts_with("{%"));
            let sign = rest[length + 2..].chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let variable = rest[length..].starts_with("{{");
            let text = if variable && sign != Some('-') {
                &rest[..length]
            } else {
                self.stripped(&rest[..length], sign)
            };
            self.data(text);
            self.skip(length);
            let begin = 2 + usize::from(sign.is_some());
            if let Some(length) = raw {
                self.skip(length);
                self.raw()?;
            } else if rest[length..].starts_with("{#") {
                self.skip(begin);
                self.comment()?;
            } else {
                self.push(if variable { TokenKind::VariableBegin } else { TokenKind::BlockBegin });
                self.skip(begin);
                self.tag(if variable { Tag::Variable } else { Tag::Block })?;
            }
        }
    }

    fn data(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(TokenKind::Data(text.into()));
        }
    }

    /// The text before a block or comment, without the whitespace that the tag strips.
    fn stripped(&self, text: &'a str, sign: Option<char>) -> &'a str {
        match sign {
            Some('-') => text.trim_end_matches(unicode::is_space),
            Some(_) => text,
            None => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let starts = line > 0 || self.line_starts;
                let blank = text[line..].chars().all(unicode::is_space) && !text[line..].is_empty();
                if starts && blank { &text[..line] } else { text }
            }
        }
    }

    /// Skips the end of a block, a comment or raw text, from its closing sign on, with the whitespace that it strips.
    fn close(&mut self, closing: &str) -> bool {
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix('-').and_then(|rest| rest.strip_prefix(closing)) {
            let space = after.len() - after.trim_start_matches(unicode::is_space).len();
            self.skip(1 + closing.len() + space);
        } else if rest.strip_prefix('+').is_some_and(|rest| rest.starts_with(closing)) {
            self.skip(1 + closing.len());
        } else if let Some(after) = rest.strip_prefix(closing) {
            let line_break = closing != "}}" && after.starts_with('\n');
            self.skip(closing.len() + usize::from(line_break));
        } else {
            return false;
        }
        true
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest().find("#}") else { return self.fail("Missing end of comment tag") };
        let sign = self.rest()[..end].ends_with(['-', '+']);
        self.skip(end - usize::from(sign));
        self.close("#}");
        Ok(())
    }

    fn raw(&mut self) -> Result<()> {
        let rest = self.rest();
        let ends = rest.match_indices("{%").map(|(at, _)| at);
        for length in ends {
            let Some(tag) = raw_end(&rest[length..]) else { continue };
            let sign = rest[length + 2..].chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let text = self.stripped(&rest[..length], sign);
            self.data(text);
            self.skip(length + tag);
            self.close("%}");
            return Ok(());
        }
        self.fail("Missing end of raw directive")
    }

    /// The tokens of a tag, up to its end outside of every bracket.
    fn tag(&mut self, tag: Tag) -> Result<()> {
        let closing = if tag == Tag::Block { "%}" } else { "}}" };
        let mut open = Vec::new();
        loop {
            let rest = self.rest();
            let plus = tag == Tag::Variable && rest.starts_with('+');
            if open.is_empty() && !plus {
                let end = if tag == Tag::Block { TokenKind::BlockEnd } else { TokenKind::VariableEnd };
                let line = self.line;
                if self.close(closing) {
                    self.tokens.push(TemplateToken { line, kind: end });
                    return Ok(());
                }
            }
            let Some(first) = rest.chars().next() else { return Ok(()) };
            if unicode::is_space(first) {
                let space = rest.len() - rest.trim_start_matches(unicode::is_space).len();
                self.skip(space);
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if unicode::is_word(first) {
                self.name()?;
            } else if matches!(first, '"' | '\'') {
                self.text(first)?;
            } else if let Some(&operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
                self.balance(operator, &mut open)?;
                self.push(TokenKind::Operator(operator));
                self.skip(operator.len());
            } else {
                return self.fail(format!("unexpected char {first:?} at {}", self.at));
            }
        }
    }

    fn balance(&self, operator: &'static str, open: &mut Vec<&'static str>) -> Result<()> {
        match operator {
            "{" => open.push("}"),
            "(" => open.push(")"),
            "[" => open.push("]"),
            "}" | ")" | "]" => match open.pop() {
                None => return self.fail(format!("unexpected '{operator}'")),
                Some(expected) if expected != operator => {
                    return self.fail(format!("unexpected '{operator}', expected '{expected}'"));
                }
                Some(_) => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn name(&mut self) -> Result<()> {
        let rest = self.rest();
        let length = rest.find(|c| !unicode::is_word(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        if !unicode::is_identifier(name) {
            return self.fail("Invalid character in identifier");
        }
        self.push(TokenKind::Name(name.into()));
        self.skip(length);
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        let rest = self.rest();
        let after_dot = self.source[..self.at].ends_with('.');
        let float = float_length(rest).filter(|_| !after_dot);
        let length = float.unwrap_or_else(|| int_length(rest));
        let digits = rest[..length].replace('_', "");
        let kind = if float.is_some() {
            digits.parse().ok().map(TokenKind::Float)
        } else {
            let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
                Some("0x") => (16, &digits[2..]),
                Some("0o") => (8, &digits[2..]),
                Some("0b") => (2, &digits[2..]),
                _ => (10, digits.as_str()),
            };
            i128::from_str_radix(digits, radix).ok().map(TokenKind::Int)
        };
        let Some(kind) = kind else {
            return self.fail(format!("unsupported: a number beyond 128 bits: {}", &rest[..length]));
        };
        self.push(kind);
        self.skip(length);
        Ok(())
    }

    fn text(&mut self, quote: char) -> Result<()> {
        let rest = self.rest();
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    let text = unescape(&rest[1..at]).map_err(|error| error.or_at(self.line))?;
                    self.push(TokenKind::Text(text));
                    self.skip(at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.fail(format!("unexpected char {:?} at {}", quote, self.at))
    }
}

/// Length of `{%`, whitespace and `word`, if `text` begins so and the word ends there.
fn raw_start(text: &str, word: &str) -> Option<usize> {
    let after = text.strip_prefix("{%")?;
    let after = after.strip_prefix(['-', '+']).unwrap_or(after);
    let after = after.trim_start_matches(unicode::is_space).strip_prefix(word)?;
    let after = after.trim_start_matches(unicode::is_space);
    Some(text.len() - after.len())
}

/// Length of the tag `{% raw %}` at the start of `text`, with the whitespace that it strips. It keeps a line
/// break behind it.
fn raw_tag(text: &str, word: &str) -> Option<usize> {
    let length = raw_start(text, word)?;
    let after = &text[length..];
    if let Some(after) = after.strip_prefix("-%}") {
        return Some(text.len() - after.trim_start_matches(unicode::is_space).len());
    }
    after.starts_with("%}").then_some(length + 2)
}

/// Length of `{% endraw` at the start of `text`, up to the sign that closes it.
fn raw_end(text: &str) -> Option<usize> {
    let length = raw_start(text, "endraw")?;
    let after = &text[length..];
    ["-%}", "+%}", "%}"].iter().any(|end| after.starts_with(end)).then_some(length)
}

/// Length of digits with single underscores between them.
fn digits(text: &str, digit: impl Fn(char) -> bool) -> usize {
    let mut length = 0;
    for (at, c) in text.char_indices() {
        if digit(c) {
            length = at + 1;
        } else if c != '_' || length != at || at == 0 {
            break;
        }
    }
    length
}

fn float_length(text: &str) -> Option<usize> {
    let decimal = |text: &str| digits(text, |c| c.is_ascii_digit());
    let whole = decimal(text);
    let fraction = text[whole..].strip_prefix('.').map(decimal).filter(|&length| length > 0);
    let length = whole + fraction.map_or(0, |length| length + 1);
    let exponent = text[length..].strip_prefix(['e', 'E']).and_then(|rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let count = decimal(digits);
        (count > 0).then_some(1 + rest.len() - digits.len() + count)
    });
    (fraction.is_some() || exponent.is_some()).then_some(length + exponent.unwrap_or(0))
}

fn int_length(text: &str) -> usize {
    let prefixed = |digit: fn(char) -> bool| {
        let rest = &text[2..];
        let skipped = usize::from(rest.starts_with('_'));
        let length = digits(&rest[skipped..], digit);
        (length > 0).then_some(2 + skipped + length)
    };
    let prefix = text.get(..2).map(str::to_ascii_lowercase);
    let length = match prefix.as_deref() {
        Some("0x") => prefixed(|c| c.is_ascii_hexdigit()),
        Some("0o") => prefixed(|c| ('0'..='7').contains(&c)),
        Some("0b") => prefixed(|c| matches!(c, '0' | '1')),
        _ => None,
    };
    let zero = || text.starts_with('0').then(|| digits(text, |c| c == '0'));
    length.or_else(zero).unwrap_or_else(|| digits(text, |c| c.is_ascii_digit()))
}

/// The text of a string literal, by the rules of Python's `unicode-escape`.
fn unescape(literal: &str) -> Result<String> {
    let mut text = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else { break };
        let mut length = escape.len_utf8();
        let simple = match escape {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'v' => Some('\x0b'),
            '\\' | '\'' | '"' => Some(escape),
            _ => None,
        };
        if let Some(c) = simple {
            text.push(c);
        } else if escape == '\n' {
            // A backslash before a line break removes both.
        } else if let Some(width) = [('x', 2), ('u', 4), ('U', 8)].iter().find(|(c, _)| *c == escape) {
            let code = rest.get(1..=width.1).and_then(|digits| u32::from_str_radix(digits, 16).ok());
            let code = code.ok_or_else(|| Error::new(format!("truncated \\{escape} escape in a string")))?;
            let c = char::from_u32(code).ok_or_else(|| {
                Error::unsupported(format!("\\{escape}{code:x} in a string, which is no character"))
            })?;
            text.push(c);
            length += width.1;
        } else if escape.is_digit(8) {
            length = rest.chars().take(3).take_while(|c| c.is_digit(8)).count();
            let code = u32::from_str_radix(&rest[..length], 8).ok().and_then(char::from_u32);
            text.extend(code);
        } else if escape == 'N' {
            return Err(Error::unsupported("\\N in a string"));
        } else {
            text.push('\\');
            text.push(escape);
        }
        rest = &rest[length..];
    }
    text.push_str(rest);
    Ok(text)
}
