//! Names and quoted strings in HLO text.

use std::fmt;

use crate::{
    base::{Diagnostic, MemorySpace},
    hlo::names::lists,
};

/// Words that XLA's lexer does not take for names, unless they are preceded by `%`.
const RESERVED: &str = "HloModule ENTRY ROOT true false inf nan maximal replicated manual unreduced unknown \
    last_tile_dim_replicate shard_as shard_like";

/// A name in HLO text.
pub(super) struct NameText<'a>(pub &'a str);

impl fmt::Display for NameText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sigil = if lists(RESERVED, self.0) { "%" } else { "" };
        write!(f, "{sigil}{}", self.0)
    }
}

/// A string in double quotes, with the escapes of absl's `CEscape`.
pub(super) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\{byte:03o}")?,
            }
        }
        f.write_str("\"")
    }
}

/// The length of the group in braces that `text` starts with; braces in double quotes do not count. XLA's lexer takes
/// such a group verbatim.
pub(super) fn dict_length(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = quoted && byte == b'\\' && !escaped;
        if depth == 0 && !quoted {
            return (byte == b'}').then_some(index + 1);
        }
    }
    None
}

/// Decodes the text between the quotes of [`Quoted`], and absl's other escapes.
pub(super) fn unescape(text: &str) -> Result<String, Diagnostic> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            return Err("unfinished escape at the end of the string".into());
        };
        rest = after;
        bytes.push(match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'"' | b'\'' | b'\\' | b'?' => escape,
            b'0'..=b'7' => number(&mut rest, u32::from(escape - b'0'), 8, 2)?,
            b'x' | b'X' => number(&mut rest, 0, 16, 2)?,
            _ => return Err(format!("unknown escape: \\{}", char::from(escape)).into()),
        });
    }
    String::from_utf8(bytes).map_err(|_| "expected UTF-8 in the string".into())
}

/// Parses up to `max` more digits of a byte.
fn number(rest: &mut &[u8], first: u32, radix: u32, max: usize) -> Result<u8, Diagnostic> {
    let mut value = first;
    for _ in 0..max {
        let Some((&byte, after)) = rest.split_first() else { break };
        let Some(digit) = char::from(byte).to_digit(radix) else { break };
        value = value * radix + digit;
        *rest = after;
    }
    u8::try_from(value).map_err(|_| format!("expected an escape below 256, found {value}").into())
}

/// The layout of a row-major array, such as `{1,0}` or, on the host, `{1,0:S(5)}`.
pub(super) fn row_major(rank: usize, memory: MemorySpace) -> String {
    let order: Vec<String> = (0..rank).rev().map(|dim| dim.to_string()).collect();
    let space = match memory.space() {
        0 => String::new(),
        space => format!(":S({space})"),
    };
    format!("{{{}{space}}}", order.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::names::is_name;

    #[test]
    fn strings_round_trip_through_quotes() {
        let text = "a\"b\\c\n\t\r\0'ä\u{1f600}7";
        let quoted = Quoted(text).to_string();
        assert_eq!(quoted, r#""a\"b\\c\n\t\r\000'\303\244\360\237\230\2007""#);
        assert_eq!(unescape(&quoted[1..quoted.len() - 1]), Ok(text.to_owned()));
    }

    #[test]
    fn invalid_escapes_are_reported() {
        assert_eq!(unescape("\\").unwrap_err().message, "unfinished escape at the end of the string");
        assert_eq!(unescape("\\q").unwrap_err().message, "unknown escape: \\q");
        assert_eq!(unescape("\\777").unwrap_err().message, "expected an escape below 256, found 511");
        assert_eq!(unescape("\\377").unwrap_err().message, "expected UTF-8 in the string");
    }

    #[test]
    fn a_reserved_word_is_marked_as_a_name() {
        assert_eq!(NameText("true").to_string(), "%true");
        assert_eq!(NameText("true.1").to_string(), "true.1");
        assert!(is_name("_a.b-1") && !is_name("1a") && !is_name("a b") && !is_name("") && !is_name("f32"));
    }
}
