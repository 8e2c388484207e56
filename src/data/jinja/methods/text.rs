//! Methods of `str`.

use super::{
    case,
    split::{self, TextSide},
};
use crate::data::jinja::{
    args::{self, Args, bounds, int_or, required},
    error::{Error, Result},
    format, meter,
    meter::Writer,
    text::Text,
    unicode,
    value::PyValue,
};

/// `text.name(*args)`.
pub(super) fn call(text: &Text, name: &str, args: Args) -> Result<PyValue> {
    meter::read(text.text.len())?;
    let cased: Option<fn(&str) -> Result<String>> = match name {
        "upper" => Some(case::upper),
        "lower" => Some(case::lower),
        "casefold" => Some(case::casefold),
        "capitalize" => Some(case::capitalize),
        "title" => Some(case::title),
        "swapcase" => Some(case::swapcase),
        _ => None,
    };
    if let Some(cased) = cased {
        args.none(name)?;
        return PyValue::text(cased(&text.text)?);
    }
    if let Some(test) = predicate(name) {
        args.none(name)?;
        meter::read(16 * text.text.len())?;
        return Ok(PyValue::Bool(test(&text.text)));
    }
    match name {
        "strip" => split::strip_method(text, name, args, TextSide::Both),
        "lstrip" => split::strip_method(text, name, args, TextSide::Left),
        "rstrip" => split::strip_method(text, name, args, TextSide::Right),
        "split" => split::split(text, name, args, TextSide::Left),
        "rsplit" => split::split(text, name, args, TextSide::Right),
        "splitlines" => split::split_lines(text, args),
        "partition" => split::partition(text, name, args, TextSide::Left),
        "rpartition" => split::partition(text, name, args, TextSide::Right),
        "startswith" | "endswith" => affix(text, name, args),
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind_positional(name)?;
            let affix = args::text(&required(affix, name, "affix")?, name)?;
            let rest = if name == "removeprefix" {
                text.text.strip_prefix(affix.as_str())
            } else {
                text.text.strip_suffix(affix.as_str())
            };
            PyValue::text(rest.unwrap_or(&text.text))
        }
        "find" | "rfind" | "index" | "rindex" | "count" => search(text, name, args),
        "replace" => {
            let [old, new, count] = args.bind_positional(name)?;
            let old = args::text(&required(old, name, "old")?, name)?;
            let new = args::text(&required(new, name, "new")?, name)?;
            replace(&text.text, &old, &new, int_or(count, -1)?)
        }
        "join" => {
            let [items] = args.bind_positional(name)?;
            join(text, &required(items, name, "iterable")?)
        }
        "center" | "ljust" | "rjust" => justify(text, name, args),
        "zfill" => zfill(text, args),
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"])?;
            expand_tabs(&text.text, int_or(size, 8)?)
        }
        "format" => format::format(&text.text, &args),
        "format_map" => {
            let [map] = args.bind_positional(name)?;
            let PyValue::Dict(dict) = required(map, name, "mapping")? else {
                return Err(Error::unsupported("'format_map' with other than a dict"));
            };
            let named =
                dict.items.iter().filter_map(|(key, value)| Some((key.as_text()?.into(), value.clone())));
            format::format(&text.text, &Args { positional: Vec::new(), named: named.collect() })
        }
        _ => Err(Error::unsupported(format!("the method '{name}' of 'str'"))),
    }
}

fn predicate(name: &str) -> Option<fn(&str) -> bool> {
    fn all(text: &str, test: fn(char) -> bool) -> bool {
        !text.is_empty() && text.chars().all(test)
    }
    Some(match name {
        "isalnum" => |text| all(text, unicode::is_alphanumeric),
        "isalpha" => |text| all(text, unicode::is_alpha),
        "isdecimal" => |text| all(text, unicode::is_decimal),
        "isdigit" => |text| all(text, unicode::is_digit),
        "isnumeric" => |text| all(text, unicode::is_numeric),
        "isspace" => |text| all(text, unicode::is_space),
        "isascii" => str::is_ascii,
        "isprintable" => |text| text.chars().all(unicode::is_printable),
        "isidentifier" => unicode::is_identifier,
        "islower" => case::is_lower,
        "isupper" => case::is_upper,
        "istitle" => case::is_title,
        _ => return None,
    })
}

/// The part of a text between two bounds in characters, and where it starts in bytes; `None` if they cross.
fn part(text: &Text, start: Option<PyValue>, stop: Option<PyValue>) -> Result<Option<&str>> {
    let (start, stop) = bounds(text.chars, start, stop)?;
    if start > stop || start > text.chars {
        return Ok(None);
    }
    let byte = |at: usize| text.text.char_indices().nth(at).map_or(text.text.len(), |(at, _)| at);
    Ok(Some(&text.text[byte(start)..byte(stop)]))
}

fn affix(text: &Text, name: &str, args: Args) -> Result<PyValue> {
    let [affix, start, stop] = args.bind_positional(name)?;
    let affixes = match required(affix, name, "affix")? {
        PyValue::Tuple(list) => list.items.clone(),
        single => vec![single],
    };
    let part = part(text, start, stop)?;
    for affix in &affixes {
        let PyValue::Text(affix) = affix else {
            let found = affix.type_name();
            return Err(Error::new(format!("{name} first arg must be str or a tuple of str, not {found}")));
        };
        let Some(part) = part else { continue };
        let found = if name == "startswith" {
            part.starts_with(affix.text.as_str())
        } else {
            part.ends_with(affix.text.as_str())
        };
        if found {
            return Ok(PyValue::Bool(true));
        }
    }
    Ok(PyValue::Bool(false))
}

fn search(text: &Text, name: &str, args: Args) -> Result<PyValue> {
    let [needle, start, stop] = args.bind_positional(name)?;
    let needle = args::text(&required(needle, name, "sub")?, name)?;
    let Some(part) = part(text, start, stop)? else {
        return match name {
            "count" => Ok(PyValue::Int(0)),
            "find" | "rfind" => Ok(PyValue::Int(-1)),
            _ => Err(Error::new("substring not found")),
        };
    };
    if name == "count" {
        let count = if needle.is_empty() { part.chars().count() + 1 } else { part.matches(&needle).count() };
        return Ok(PyValue::Int(count as i128));
    }
    let found = if name.starts_with('r') { part.rfind(&needle) } else { part.find(&needle) };
    let offset = part.as_ptr() as usize - text.text.as_ptr() as usize;
    match found {
        Some(at) => Ok(PyValue::Int(text.text[..offset + at].chars().count() as i128)),
        None if name.ends_with("find") => Ok(PyValue::Int(-1)),
        None => Err(Error::new("substring not found")),
    }
}

/// `str.replace`; a negative count replaces all.
pub(crate) fn replace(text: &str, old: &str, new: &str, count: i128) -> Result<PyValue> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut out = Writer::default();
    let mut rest = text;
    meter::read(text.len())?;
    for done in 0.. {
        if done == limit {
            break;
        }
        if old.is_empty() {
            out.push(new)?;
            let Some(first) = rest.chars().next() else { break };
            out.push_char(first)?;
            rest = &rest[first.len_utf8()..];
        } else {
            let Some((before, after)) = rest.split_once(old) else { break };
            out.push(before)?;
            out.push(new)?;
            rest = after;
        }
    }
    out.push(rest)?;
    PyValue::written(out)
}

fn join(separator: &Text, items: &PyValue) -> Result<PyValue> {
    if !items.is_iterable() {
        return Err(Error::new("can only join an iterable"));
    }
    let mut out = Writer::default();
    for (i, item) in items.items()?.iter().enumerate() {
        let PyValue::Text(text) = item else {
            let found = item.type_name();
            return Err(Error::new(format!("sequence item {i}: expected str instance, {found} found")));
        };
        if i > 0 {
            out.push(&separator.text)?;
        }
        out.push(&text.text)?;
    }
    PyValue::written(out)
}

/// `str.center`.
pub(crate) fn center(text: &Text, width: i128, fill: &str) -> Result<PyValue> {
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let space = width.saturating_sub(text.chars);
    let left = space / 2 + (space & width & 1);
    pad(text, left, space - left, fill)
}

fn pad(text: &Text, left: usize, right: usize, fill: &str) -> Result<PyValue> {
    let mut out = Writer::default();
    out.repeat(fill, left)?;
    out.push(&text.text)?;
    out.repeat(fill, right)?;
    PyValue::written(out)
}

fn justify(text: &Text, name: &str, args: Args) -> Result<PyValue> {
    let [width, fill] = args.bind_positional(name)?;
    let width = args::int(&required(width, name, "width")?)?;
    let fill = fill.map_or(Ok(" ".to_owned()), |fill| args::text(&fill, name))?;
    if fill.chars().count() != 1 {
        return Err(Error::new("The fill character must be exactly one character long"));
    }
    let space = usize::try_from(width.max(0)).unwrap_or(usize::MAX).saturating_sub(text.chars);
    match name {
        "center" => center(text, width, &fill),
        "ljust" => pad(text, 0, space, &fill),
        _ => pad(text, space, 0, &fill),
    }
}

fn zfill(text: &Text, args: Args) -> Result<PyValue> {
    let [width] = args.bind_positional("zfill")?;
    let width = args::int(&required(width, "zfill", "width")?)?;
    let space = usize::try_from(width.max(0)).unwrap_or(usize::MAX).saturating_sub(text.chars);
    let digits = text.text.strip_prefix(['+', '-']).unwrap_or(&text.text);
    let mut out = Writer::default();
    out.push(&text.text[..text.text.len() - digits.len()])?;
    out.repeat("0", space)?;
    out.push(digits)?;
    PyValue::written(out)
}

fn expand_tabs(text: &str, size: i128) -> Result<PyValue> {
    let size = usize::try_from(size.max(0)).unwrap_or(usize::MAX);
    let mut out = Writer::default();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let space = size - column % size;
                out.repeat(" ", space)?;
                column += space;
            }
            '\t' => {}
            _ => {
                out.push_char(c)?;
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    PyValue::written(out)
}
