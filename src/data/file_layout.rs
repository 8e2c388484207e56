//! Layouts of JSON values in a file: one a line, the elements of an array, or values over several lines.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::base::{Diagnostic, FileKind};

/// The format that a file without JSON values seems to have, and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherFormat {
    pub found: String,
    pub hint: &'static str,
}

const TO_JSON: &str = "convert it to JSONL, for example with `to_json` of Hugging Face datasets";
const AS_UTF8: &str = "save the file as UTF-8";

/// First bytes of other formats than those of [`FileKind`].
const MAGIC: &[(&[u8], &str, &str)] = &[
    (b"\xff\xff\xff\xff", "an Arrow stream", TO_JSON),
    (b"FEA1", "a Feather file", TO_JSON),
    (b"SQLite format 3\0", "a SQLite database", TO_JSON),
    (b"{\0", "text in UTF-16", AS_UTF8),
    (b"[\0", "text in UTF-16", AS_UTF8),
    (b"\0{", "text in UTF-16", AS_UTF8),
    (b"\0[", "text in UTF-16", AS_UTF8),
];

/// Separation of the JSON values of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Lines,
    Array,
    Stream,
}

/// Calls `each` with every JSON value of a file, or the error in its place, and the line, counted from one.
///
/// # Errors
/// [`OtherFormat`] if the file is of another format.
pub(super) fn read_values(
    bytes: &[u8],
    each: impl FnMut(usize, Result<Value, Diagnostic>),
) -> Result<(), OtherFormat> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match layout(bytes)? {
        Layout::Lines => read_lines(bytes, each),
        Layout::Array => Scanner::new(bytes).read_array(each),
        Layout::Stream => Scanner::new(bytes).read_stream(each),
    }
    Ok(())
}

fn layout(bytes: &[u8]) -> Result<Layout, OtherFormat> {
    if let Some(&(_, found, hint)) = MAGIC.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(OtherFormat { found: found.to_owned(), hint });
    }
    match FileKind::of(bytes) {
        FileKind::Empty | FileKind::Json | FileKind::Text(_) | FileKind::Binary => {}
        other => return Err(OtherFormat { found: other.to_string(), hint: other.hint().unwrap_or(TO_JSON) }),
    }
    let mut lines =
        bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return Ok(Layout::Lines) };
    match first[0] {
        b'[' => {
            let is_complete = serde_json::from_slice::<IgnoredAny>(first).is_ok();
            let is_one_of_several = is_complete && lines.next().is_some_and(|line| line[0] == b'[');
            Ok(if is_one_of_several { Layout::Lines } else { Layout::Array })
        }
        b'{' => match serde_json::from_slice::<IgnoredAny>(first) {
            Err(error) if error.is_eof() && continues(bytes, lines.next()) => Ok(Layout::Stream),
            _ => Ok(Layout::Lines),
        },
        _ => match text_format(first, lines) {
            Some(other) => Err(other),
            None => Ok(Layout::Lines),
        },
    }
}

/// Whether the value that begins in the first line continues in the next. If the first line is truncated instead, the
/// second is a value by itself.
fn continues(bytes: &[u8], second: Option<&[u8]>) -> bool {
    let first_line =
        1 + bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).filter(|&&byte| byte == b'\n').count();
    let mut values = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    let Some(error) = values.find_map(Result::err) else { return true };
    let is_value = |line| serde_json::from_slice::<IgnoredAny>(line).is_ok();
    error.line() > first_line + 1 && !second.is_some_and(is_value)
}

/// The format of a text file whose first line begins neither a JSON object nor an array; `None` if it is JSON after all.
fn text_format<'a>(first: &[u8], mut others: impl Iterator<Item = &'a [u8]>) -> Option<OtherFormat> {
    let is_json = serde_json::from_slice::<IgnoredAny>(first).is_ok();
    if is_json || others.any(|line| line[0] == b'{') {
        return None;
    }
    let start: String = String::from_utf8_lossy(first).chars().take(60).collect();
    let (found, hint) = if first.contains(&0) {
        ("binary data".to_owned(), TO_JSON)
    } else if first.contains(&b'\t') {
        (format!("what looks like TSV that begins with: {start}"), TO_JSON)
    } else if first.contains(&b',') {
        (format!("what looks like CSV that begins with: {start}"), TO_JSON)
    } else {
        (
            format!("text that begins with: {start}"),
            "write one JSON object a line; for plain text, {\"text\": ...}",
        )
    };
    Some(OtherFormat { found, hint })
}

fn read_lines(bytes: &[u8], mut each: impl FnMut(usize, Result<Value, Diagnostic>)) {
    for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let text = text.trim_ascii();
        if !text.is_empty() {
            each(line, parse_line(text));
        }
    }
}

fn parse_line(text: &[u8]) -> Result<Value, Diagnostic> {
    let text = std::str::from_utf8(text).map_err(|error| not_utf8(error.valid_up_to()))?;
    serde_json::from_str(text).map_err(|error| not_json(&error, error.column()))
}

fn not_utf8(at: usize) -> Diagnostic {
    let message = format!("expected UTF-8, found another encoding at byte {}", at + 1);
    Diagnostic::from(message).with_hint(AS_UTF8)
}

/// The parser's message without the position, which the parser counts from the start of the value.
fn not_json(error: &serde_json::Error, column: usize) -> Diagnostic {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    format!("not JSON at column {column}: {reason}").into()
}

/// Reads values that are not separated by lines, up to the first error.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Line of `at`, counted from one.
    line: usize,
    line_start: usize,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1, line_start: 0 }
    }

    fn advance(&mut self, n_bytes: usize) {
        let passed = &self.bytes[self.at..self.at + n_bytes];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count();
        if let Some(last) = passed.iter().rposition(|&byte| byte == b'\n') {
            self.line_start = self.at + last + 1;
        }
        self.at += n_bytes;
    }

    /// Skips whitespace and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.bytes[self.at..];
        self.advance(rest.len() - rest.trim_ascii_start().len());
        self.bytes.get(self.at).copied()
    }

    fn column(&self) -> usize {
        self.at - self.line_start + 1
    }

    /// Reads the value at the current position; an error comes with its line.
    fn value(&mut self) -> Result<Value, (usize, Diagnostic)> {
        let mut values = Deserializer::from_slice(&self.bytes[self.at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let n_bytes = values.byte_offset();
                self.advance(n_bytes);
                Ok(value)
            }
            Some(Err(error)) => {
                let before = if error.line() == 1 { self.at - self.line_start } else { 0 };
                Err((self.line + error.line() - 1, not_json(&error, before + error.column())))
            }
            None => Err((self.line, format!("expected a value at column {}", self.column()).into())),
        }
    }

    fn read_stream(mut self, mut each: impl FnMut(usize, Result<Value, Diagnostic>)) {
        while self.peek().is_some() {
            let line = self.line;
            match self.value() {
                Ok(value) => each(line, Ok(value)),
                Err((line, diagnostic)) => return each(line, Err(diagnostic)),
            }
        }
    }

    fn read_array(mut self, mut each: impl FnMut(usize, Result<Value, Diagnostic>)) {
        let expected = |scanner: &Self, what: &str, found: Option<u8>| {
            let found =
                found.map_or("the end of the file".to_owned(), |byte| format!("`{}`", byte.escape_ascii()));
            Err(format!("expected {what} at column {}, found {found}", scanner.column()).into())
        };
        self.peek();
        self.advance(1);
        let mut next = self.peek();
        while next != Some(b']') {
            let line = self.line;
            match next {
                Some(b'{') => match self.value() {
                    Ok(value) => each(line, Ok(value)),
                    Err((line, diagnostic)) => return each(line, Err(diagnostic)),
                },
                found => return each(line, expected(&self, "a JSON object in the array of samples", found)),
            }
            next = self.peek();
            if next == Some(b',') {
                self.advance(1);
                next = self.peek();
            } else if next != Some(b']') {
                return each(self.line, expected(&self, "`,` or `]` after a sample", next));
            }
        }
        self.advance(1);
        if let found @ Some(_) = self.peek() {
            each(self.line, expected(&self, "nothing after the array of samples", found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value or error with its line.
    fn read(bytes: impl AsRef<[u8]>) -> Vec<String> {
        let mut found = Vec::new();
        let each = |line, value: Result<Value, Diagnostic>| {
            let text = value.map_or_else(|diagnostic| diagnostic.message, |value| value.to_string());
            found.push(format!("{line}: {text}"));
        };
        match read_values(bytes.as_ref(), each) {
            Ok(()) => found,
            Err(other) => vec![other.found],
        }
    }

    #[test]
    fn values_are_read_from_lines_arrays_and_several_lines() {
        assert_eq!(read("{\"a\":1}\r\n\n{\"a\":2}"), ["1: {\"a\":1}", "3: {\"a\":2}"]);
        assert_eq!(read("[{\"a\":1}, {\"a\":2}]\n"), ["1: {\"a\":1}", "1: {\"a\":2}"]);
        let pretty = "[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": [2]\n  }\n]\n";
        assert_eq!(read(pretty), ["2: {\"a\":1}", "5: {\"a\":[2]}"]);
        assert_eq!(read("\n{\n  \"a\": 1\n}\n{\"a\":\n2}"), ["2: {\"a\":1}", "5: {\"a\":2}"]);
        assert_eq!(read("[]"), [""; 0]);
        assert_eq!(read("[1]\n[2]\n"), ["1: [1]", "2: [2]"]);
    }

    #[test]
    fn an_error_over_several_lines_is_reported_once() {
        assert_eq!(
            read("[\n  {\"a\": 1},\n  {\"a\": x},\n  {\"a\": x}\n]"),
            ["2: {\"a\":1}", "3: not JSON at column 9: expected value"]
        );
        assert_eq!(
            read("[{\"a\": 1} {\"a\": 2}]"),
            ["1: {\"a\":1}", "1: expected `,` or `]` after a sample at column 11, found `{`"]
        );
        assert_eq!(
            read("[\n{\"a\": 1},\n"),
            [
                "2: {\"a\":1}",
                "3: expected a JSON object in the array of samples at column 1, found the end of the file"
            ]
        );
        assert_eq!(read("[7]"), ["1: expected a JSON object in the array of samples at column 2, found `7`"]);
        assert_eq!(
            read("[{}]\nx"),
            ["1: {}", "2: expected nothing after the array of samples at column 1, found `x`"]
        );
        assert_eq!(read("{\n  \"a\": 1,\n  \"b\": x\n}\n"), ["3: not JSON at column 8: expected value"]);
        // A truncated first line is reported, and the second line is read.
        assert_eq!(
            read("{\"a\":\n{\"a\":2}\n"),
            ["1: not JSON at column 5: EOF while parsing a value", "2: {\"a\":2}"]
        );
    }

    #[test]
    fn files_of_other_formats_are_recognised() {
        let check = |bytes: &[u8], expect: &str| assert_eq!(read(bytes), [expect]);
        check(b"PAR1\x15\x04", "a Parquet file");
        check(b"\xff\xff\xff\xff\x10\0", "an Arrow stream");
        check(b"\x1f\x8b\x08\0", "a file compressed by gzip");
        check(b"\xff\xfe{\0\"\0", "text in UTF-16");
        check(b"{\0\"\0", "text in UTF-16");
        check(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer");
        check(b"\n<!DOCTYPE html>\n<html>{}</html>\n", "an HTML page");
        check(b"prompt,completion\na,b\n", "what looks like CSV that begins with: prompt,completion");
        check(b"prompt\tcompletion\na\tb\n", "what looks like TSV that begins with: prompt\tcompletion");
        check(
            "Es war einmal".repeat(9).as_bytes(),
            &format!("text that begins with: {}", &"Es war einmal".repeat(9)[..60]),
        );
        // An invalid first line does not make a file of samples another format.
        assert_eq!(read("x\n{}\n").len(), 2);
        assert_eq!(read("\"a\"\n\"b\"\n"), ["1: \"a\"", "2: \"b\""]);
    }
}
