//! Filters for HTML and URLs.

use std::sync::LazyLock;

use regex::Regex;

use crate::data::jinja::{
    args::Args,
    error::{Error, Result},
    meter,
    meter::Writer,
    methods, print,
    undefined::defined,
    value::PyValue,
};

/// Writes a text with the characters of HTML escaped.
fn write_escaped(text: &str, out: &mut Writer) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        out.push(&rest[..at])?;
        out.push(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&#34;",
            _ => "&#39;",
        })?;
        rest = &rest[at + 1..];
    }
    out.push(rest)
}

fn marked(value: PyValue) -> PyValue {
    match value {
        PyValue::Text(text) => PyValue::Markup(text),
        other => other,
    }
}

pub(super) fn escape(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("escape")?;
    if let PyValue::Markup(_) = value { Ok(value) } else { force(&value) }
}

pub(super) fn forceescape(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("forceescape")?;
    force(&value)
}

fn force(value: &PyValue) -> Result<PyValue> {
    let mut out = Writer::default();
    write_escaped(&print::to_text(value)?, &mut out)?;
    Ok(marked(PyValue::written(out)?))
}

pub(super) fn safe(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("safe")?;
    Ok(marked(print::to_value(&value)?))
}

/// Removes comments and tags, and makes runs of whitespace a space each.
pub(super) fn striptags(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("striptags")?;
    let text = print::to_text(&value)?;
    meter::read(4 * text.len())?;
    let without_comments = removed(&text, "<!--", "-->");
    let without_tags = removed(&without_comments, "<", ">");
    if without_tags.contains('&') {
        return Err(Error::unsupported("'striptags' of text with character references"));
    }
    let words: Vec<&str> = methods::split_on_spaces(&without_tags).collect();
    PyValue::text(words.join(" "))
}

/// The text without the parts from `open` to the next `close`.
fn removed(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let Some(end) = rest[start..].find(close) else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + end + close.len()..];
    }
    out + rest
}

pub(super) fn xmlattr(value: PyValue, args: Args) -> Result<PyValue> {
    let [space] = args.bind("xmlattr", ["autospace"])?;
    let PyValue::Dict(dict) = &value else {
        defined(&value)?;
        return Err(Error::new(format!("'{}' object has no attribute 'items'", value.type_name())));
    };
    static INVALID: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[ \t\n\r\x0c\x0b/>=]").expect("a constant pattern"));
    let mut out = Writer::default();
    for (key, value) in &dict.items {
        if matches!(value, PyValue::None | PyValue::Undefined(_)) {
            continue;
        }
        let PyValue::Text(key) = key else { return Err(Error::new("expected string or bytes-like object")) };
        if INVALID.is_match(&key.text) {
            let key = print::repr_text(&key.text);
            return Err(Error::new(format!("Invalid character in attribute name: {key}")));
        }
        if out.len() > 0 || space.as_ref().is_none_or(PyValue::is_true) {
            out.push(" ")?;
        }
        write_escaped(&key.text, &mut out)?;
        out.push("=\"")?;
        if let PyValue::Markup(text) = value {
            out.push(&text.text)?;
        } else {
            write_escaped(&print::to_text(value)?, &mut out)?;
        }
        out.push("\"")?;
    }
    PyValue::written(out)
}

pub(super) fn urlencode(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("urlencode")?;
    let mut out = Writer::default();
    if matches!(value, PyValue::Text(_)) || !value.is_iterable() {
        quote(&print::to_text(&value)?, Quoting::ItemPath, &mut out)?;
        return PyValue::written(out);
    }
    let pairs = match &value {
        PyValue::Dict(dict) => dict.items.clone(),
        _ => {
            let pair = |pair: PyValue| {
                let wrong = || Error::new("expected pairs of keys and values");
                let [key, value] = <[PyValue; 2]>::try_from(pair.items()?).map_err(|_| wrong())?;
                Ok((key, value))
            };
            value.items()?.into_iter().map(pair).collect::<Result<_>>()?
        }
    };
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push("&")?;
        }
        quote(&print::to_text(key)?, Quoting::Query, &mut out)?;
        out.push("=")?;
        quote(&print::to_text(value)?, Quoting::Query, &mut out)?;
    }
    PyValue::written(out)
}

/// Where in a URL a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    ItemPath,
    Query,
}

fn quote(text: &str, quoting: Quoting, out: &mut Writer) -> Result<()> {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push_char(char::from(byte))?;
            }
            b'/' if quoting == Quoting::ItemPath => out.push("/")?,
            b' ' if quoting == Quoting::Query => out.push("+")?,
            _ => out.push(&format!("%{byte:02X}"))?,
        }
    }
    Ok(())
}
