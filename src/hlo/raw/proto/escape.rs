//! Texts in quotes, as XLA escapes them.

use std::fmt::Write;

/// Appends bytes in double quotes: what is not printable ASCII, and quotes, as escapes.
pub(super) fn push_quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            0x20..=0x7e => out.push(byte as char),
            _ => drop(write!(out, "\\{byte:03o}")),
        }
    }
    out.push('"');
}

/// Appends a configuration: as it is if it is a group in braces that the reader of a text finds the end of, else in quotes.
pub(super) fn push_config(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_group(bytes) => out.push_str(text),
        _ => push_quoted(out, bytes),
    }
}

/// Whether a text is one group in braces: inside of it, braces match outside of strings.
fn is_group(text: &[u8]) -> bool {
    if text.first() != Some(&b'{') {
        return false;
    }
    let mut open = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => {
                let mut closed = false;
                while let Some((_, &byte)) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => {
                            closed = true;
                            break;
                        }
                        _ => {}
                    }
                }
                if !closed {
                    return false;
                }
            }
            b'{' | b'[' | b'(' => open.push(byte),
            b'}' | b']' | b')' => {
                let matches = match open.pop() {
                    Some(b'{') => byte == b'}',
                    Some(b'[') => byte == b']',
                    _ => byte == b')',
                };
                if !matches {
                    return false;
                }
                if open.is_empty() {
                    return at + 1 == text.len();
                }
            }
            // A reader would take it for a comment.
            b'/' if matches!(text.get(at + 1), Some(b'/' | b'*')) => return false,
            0 => return false,
            _ => {}
        }
    }
    false
}

/// The bytes of a text between quotes; `None` if an escape is invalid.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes().peekable();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = bytes.next()?;
        let mut digits = |first: u32, radix: u32, most: usize| {
            let mut value = first;
            for _ in 0..most {
                let Some(digit) = bytes.peek().and_then(|&byte| char::from(byte).to_digit(radix)) else {
                    break;
                };
                value = value * radix + digit;
                bytes.next();
            }
            value
        };
        match escape {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'\\' | b'?' | b'\'' | b'"' => out.push(escape),
            b'0'..=b'7' => out.push(u8::try_from(digits(u32::from(escape - b'0'), 8, 2)).ok()?),
            b'x' | b'X' => out.push(u8::try_from(digits(0, 16, 2)).ok()?),
            b'u' | b'U' => {
                let code = digits(0, 16, if escape == b'u' { 4 } else { 8 });
                out.extend(char::from_u32(code)?.encode_utf8(&mut [0; 4]).bytes());
            }
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_back() {
        let mut text = String::new();
        push_quoted(&mut text, b"a\n\t\"'\\\x01\xc3\xa9");
        assert_eq!(text, r#""a\n\t\"\'\\\001\303\251""#);
        assert_eq!(unescape(&text[1..text.len() - 1]).unwrap(), b"a\n\t\"'\\\x01\xc3\xa9");
        assert_eq!(unescape(r"\x41\u00e9\60").unwrap(), "A\u{e9}0".as_bytes());
        assert_eq!(unescape(r"\q"), None);
        assert_eq!(unescape("\\"), None);
    }

    #[test]
    fn configurations_in_braces_need_no_quotes() {
        let text = |config: &str| {
            let mut out = String::new();
            push_config(&mut out, config.as_bytes());
            out
        };
        assert_eq!(text(r#"{"a":[1,"}"]}"#), r#"{"a":[1,"}"]}"#);
        assert_eq!(text("{a} b"), "\"{a} b\"");
        assert_eq!(text("{a"), "\"{a\"");
        assert_eq!(text("{a: [}]"), "\"{a: [}]\"");
        assert_eq!(text("{a //}"), "\"{a //}\"");
        assert_eq!(text("plain"), "\"plain\"");
    }
}
