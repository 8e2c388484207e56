//! Translation of Python's regular expressions to those of `fancy_regex`.

/// Letters that form an escape after a backslash in Python's `re`.
const ESCAPES: &str = "AbBdDsSwWZafnrtvxuU";

/// Whether `(?i)` and other flags of a complete expression are accepted: Python takes them at its beginning only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobalFlags {
    /// At the beginning of an expression that is used unchanged.
    Leading,
    /// Nowhere, since PEFT puts something before the expression.
    Refused,
}

/// Python's message about an expression that it rejects, or a construct without an equivalent in `fancy_regex`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PythonRegexError {
    #[error("bad escape (end of pattern)")]
    EscapeAtEnd,
    #[error("bad escape {0}")]
    BadEscape(String),
    #[error("{0} is not supported: write \\x and two hexadecimal digits")]
    OctalEscape(String),
    #[error("missing ), unterminated comment")]
    UnterminatedComment,
    #[error("global flags not at the start of the expression")]
    LateFlags,
    #[error("unknown extension ?<: expected (?P<name>...)")]
    GroupName,
    #[error("redefinition of group name {0}")]
    DuplicateGroup(&'static str),
    #[error("-- in a class is not supported: write \\-")]
    ClassDifference,
    #[error("unterminated character set")]
    UnterminatedClass,
}

/// Rewrites an expression of Python's `re` as an equivalent one of `fancy_regex`.
///
/// # Errors
/// If Python rejects it, or it contains an octal escape or a doubled minus in a class.
pub(super) fn translate(pattern: &str, flags: GlobalFlags) -> Result<String, PythonRegexError> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' => escape(rest, &mut out)?,
            '[' => class(rest, &mut out)?,
            '(' if rest.starts_with("(?#") => {
                let end = rest.find(')').ok_or(PythonRegexError::UnterminatedComment)?;
                end + 1
            }
            '(' => group(rest, flags == GlobalFlags::Leading && rest.len() == pattern.len(), &mut out)?,
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
fn escape(rest: &str, out: &mut String) -> Result<usize, PythonRegexError> {
    let letter = rest.chars().nth(1).ok_or(PythonRegexError::EscapeAtEnd)?;
    let text = &rest[..1 + letter.len_utf8()];
    match letter {
        'Z' => out.push_str(r"\z"),
        '0' => return Err(PythonRegexError::OctalEscape(text.to_owned())),
        _ if letter.is_ascii_alphabetic() && !ESCAPES.contains(letter) => {
            return Err(PythonRegexError::BadEscape(text.to_owned()));
        }
        _ => out.push_str(text),
    }
    Ok(text.len())
}

/// The opening of a group, at the beginning of `rest`; returns its bytes. `first`: flags of the expression are accepted.
fn group(rest: &str, first: bool, out: &mut String) -> Result<usize, PythonRegexError> {
    let flags = rest.strip_prefix("(?").and_then(|after| after.split_once(')')).map(|(flags, _)| flags);
    if !first && flags.is_some_and(|f| !f.is_empty() && f.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        return Err(PythonRegexError::LateFlags);
    }
    let after = rest.strip_prefix("(?<");
    if after.is_some_and(|after| !after.starts_with(['=', '!'])) {
        return Err(PythonRegexError::GroupName);
    }
    out.push('(');
    Ok(1)
}

/// A class of characters, at the beginning of `rest`; returns its bytes. Brackets and doubled operators inside it are plain
/// characters in Python, and set operations in `fancy_regex`.
fn class(rest: &str, out: &mut String) -> Result<usize, PythonRegexError> {
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
                return Err(PythonRegexError::ClassDifference);
            }
            other => out.push(other),
        }
    }
    Err(PythonRegexError::UnterminatedClass)
}
