//! Splitting and stripping.

use crate::data::jinja::{
    args::{self, Args, not_none},
    error::{Error, Result},
    meter,
    text::Text,
    unicode,
    value::PyValue,
};

/// The end of a text that a method works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextSide {
    Left,
    Right,
    Both,
}

/// `str.strip`, `str.lstrip` and `str.rstrip`.
pub(crate) fn strip<'a>(text: &'a str, chars: Option<&str>, side: TextSide) -> Result<&'a str> {
    meter::read(text.len() * chars.map_or(1, |chars| 1 + chars.len() / 8))?;
    let stripped = |c: char| chars.map_or_else(|| unicode::is_space(c), |chars| chars.contains(c));
    Ok(match side {
        TextSide::Left => text.trim_start_matches(stripped),
        TextSide::Right => text.trim_end_matches(stripped),
        TextSide::Both => text.trim_matches(stripped),
    })
}

/// A method of a text that strips.
pub(super) fn strip_method(text: &Text, name: &str, args: Args, side: TextSide) -> Result<PyValue> {
    let [chars] = args.bind_positional(name)?;
    let chars = match not_none(chars) {
        None => None,
        Some(PyValue::Text(chars)) => Some(chars),
        Some(_) => return Err(Error::new(format!("{name} arg must be None or str"))),
    };
    PyValue::text(strip(&text.text, chars.as_ref().map(|chars| chars.text.as_str()), side)?)
}

/// The parts between runs of whitespace.
pub(crate) fn split_on_spaces(text: &str) -> impl Iterator<Item = &str> {
    text.split(unicode::is_space).filter(|part| !part.is_empty())
}

/// `str.split` and `str.rsplit`.
pub(super) fn split(text: &Text, name: &str, args: Args, side: TextSide) -> Result<PyValue> {
    let [separator, limit] = args.bind(name, ["sep", "maxsplit"])?;
    let limit = usize::try_from(args::int_or(limit, -1)?).unwrap_or(usize::MAX);
    let text = text.text.as_str();
    meter::read(text.len())?;
    let parts: Vec<&str> = match not_none(separator) {
        None if side == TextSide::Left => split_spaces_left(text, limit),
        None => split_spaces_right(text, limit),
        Some(separator) => {
            let separator = args::text(&separator, name)?;
            if separator.is_empty() {
                return Err(Error::new("empty separator"));
            }
            let limit = limit.saturating_add(1);
            if side == TextSide::Left {
                text.splitn(limit, &separator).collect()
            } else {
                let mut parts: Vec<&str> = text.rsplitn(limit, &separator).collect();
                parts.reverse();
                parts
            }
        }
    };
    texts(parts)
}

/// A list of texts.
fn texts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<PyValue> {
    PyValue::list(parts.into_iter().map(PyValue::text).collect::<Result<_>>()?)
}

fn split_spaces_left(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(unicode::is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let length = rest.find(unicode::is_space).unwrap_or(rest.len());
        parts.push(&rest[..length]);
        rest = rest[length..].trim_start_matches(unicode::is_space);
    }
    parts
}

fn split_spaces_right(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(unicode::is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let start = rest
            .rfind(unicode::is_space)
            .map_or(0, |at| at + rest[at..].chars().next().map_or(0, char::len_utf8));
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(unicode::is_space);
    }
    parts.reverse();
    parts
}

/// The lines of a text, with their ends if `keep_ends`.
pub(crate) fn lines(text: &str, ends: Ends) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(is_end).unwrap_or(rest.len());
        let end = match rest[length..].chars().next() {
            Some('\r') if rest[length + 1..].starts_with('\n') => 2,
            Some(c) => c.len_utf8(),
            None => 0,
        };
        lines.push(&rest[..length + if ends == Ends::Kept { end } else { 0 }]);
        rest = &rest[length + end..];
    }
    lines
}

/// Whether lines keep their line breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Dropped,
    Kept,
}

/// `str.splitlines`.
pub(super) fn split_lines(text: &Text, args: Args) -> Result<PyValue> {
    let [keep] = args.bind("splitlines", ["keepends"])?;
    meter::read(text.text.len())?;
    let ends = if args::int_or(keep, 0)? == 0 { Ends::Dropped } else { Ends::Kept };
    texts(lines(&text.text, ends))
}

/// `str.partition` and `str.rpartition`.
pub(super) fn partition(text: &Text, name: &str, args: Args, side: TextSide) -> Result<PyValue> {
    let [separator] = args.bind_positional(name)?;
    let separator = args::text(&args::required(separator, name, "sep")?, name)?;
    if separator.is_empty() {
        return Err(Error::new("empty separator"));
    }
    let text = text.text.as_str();
    meter::read(text.len())?;
    let parts = if side == TextSide::Left {
        match text.split_once(&separator) {
            Some((before, after)) => [before, &separator, after],
            None => [text, "", ""],
        }
    } else {
        match text.rsplit_once(&separator) {
            Some((before, after)) => [before, &separator, after],
            None => ["", "", text],
        }
    };
    PyValue::tuple(parts.into_iter().map(PyValue::text).collect::<Result<_>>()?)
}
