//! Python's regular expressions, written as those of `fancy_regex`.

/// Letters that mean something after a backslash in Python's `re`.
const ESCAPES: &str = "AbBdDsSwWZafnrtvxuU";

/// Whether `(?i)` and its like may stand for a whole expression: Python takes them at its beginning only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flags {
    /// The expression is used as it is.
    Leading,
    /// Something is put before it.
    Refused,
}

/// Rewrites an expression of Python's `re` so that it means the same here.
///
/// # Errors
/// What it contains that means another thing here, or nothing in Python.
pub(super) fn translate(pattern: &str, flags: Flags) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' => escape(rest, &mut out)?,
            '[' => class(rest, &mut out)?,
            '(' if rest.starts_with("(?#") => {
                let end = rest.find(')').ok_or("missing ), unterminated comment")?;
                end + 1
            }
            '(' => group(rest, flags == Flags::Leading && rest.len() == pattern.len(), &mut out)?,
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Ok(out)
}

/// One escape, at the beginning of `rest`; returns its bytes.
fn escape(rest: &str, out: &mut String) -> Result<usize, String> {
    let Some(letter) = rest.chars().nth(1) else { return Err("bad escape (end of pattern)".into()) };
    let text = &rest[..1 + letter.len_utf8()];
    match letter {
        'Z' => out.push_str(r"\z"),
        '0' => return Err(format!("{text} is not supported: write \\x and two hexadecimal digits")),
        _ if letter.is_ascii_alphabetic() && !ESCAPES.contains(letter) => {
            return Err(format!("bad escape {text}"));
        }
        _ => out.push_str(text),
    }
    Ok(text.len())
}

/// What opens a group, at the beginning of `rest`; `first` where flags of the whole expression may be set.
fn group(rest: &str, first: bool, out: &mut String) -> Result<usize, String> {
    let flags = rest.strip_prefix("(?").and_then(|after| after.split_once(')')).map(|(flags, _)| flags);
    if !first && flags.is_some_and(|f| !f.is_empty() && f.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        return Err("global flags not at the start of the expression".into());
    }
    let after = rest.strip_prefix("(?<");
    if after.is_some_and(|after| !after.starts_with(['=', '!'])) {
        return Err("unknown extension ?<: expected (?P<name>...)".into());
    }
    out.push('(');
    Ok(1)
}

/// A class of characters, at the beginning of `rest`. Brackets and doubled operators inside it are plain characters in
/// Python, and set operations here.
fn class(rest: &str, out: &mut String) -> Result<usize, String> {
    let mut chars = rest.char_indices().skip(1).peekable();
    out.push('[');
    if chars.next_if(|&(_, next)| next == '^').is_some() {
        out.push('^');
    }
    // A bracket that closes nothing yet is a plain character.
    if chars.next_if(|&(_, next)| next == ']').is_some() {
        out.push_str(r"\]");
    }
    while let Some((at, next)) = chars.next() {
        match next {
            ']' => {
                out.push(']');
                return Ok(at + 1);
            }
            '\\' => {
                escape(&rest[at..], out)?;
                chars.next();
            }
            '[' | '&' | '~' => out.extend(['\\', next]),
            '-' if rest[at..].starts_with("--") => {
                return Err("-- in a class is not supported: write \\-".into());
            }
            other => out.push(other),
        }
    }
    Err("unterminated character set".into())
}
