//! `str` and `repr` of values.

use std::fmt::Write as _;

use super::{
    error::{Error, Result},
    float,
    meter::{self, Writer},
    unicode,
    value::{PyValue, View},
};

/// Writes `str(value)`.
pub(super) fn write(value: &PyValue, out: &mut Writer) -> Result<()> {
    match value {
        PyValue::Undefined(_) => Ok(()),
        PyValue::Text(text) | PyValue::Markup(text) => out.push(&text.text),
        _ => repr(value, out),
    }
}

/// `str(value)`.
pub(super) fn to_text(value: &PyValue) -> Result<String> {
    let mut out = Writer::default();
    write(value, &mut out)?;
    Ok(out.into_parts().0)
}

/// `str(value)` as a value.
pub(super) fn to_value(value: &PyValue) -> Result<PyValue> {
    match value {
        PyValue::Text(_) => Ok(value.clone()),
        PyValue::Markup(text) => Ok(PyValue::Text(text.clone())),
        _ => {
            let mut out = Writer::default();
            write(value, &mut out)?;
            PyValue::written(out)
        }
    }
}

/// `repr(value)`.
pub(super) fn to_repr(value: &PyValue) -> Result<String> {
    let mut out = Writer::default();
    repr(value, &mut out)?;
    Ok(out.into_parts().0)
}

/// Writes `repr(value)`.
pub(super) fn repr(value: &PyValue, out: &mut Writer) -> Result<()> {
    meter::step(1)?;
    meter::deeper(|| match value {
        PyValue::Undefined(_) => out.push("Undefined"),
        PyValue::None => out.push("None"),
        PyValue::Bool(true) => out.push("True"),
        PyValue::Bool(false) => out.push("False"),
        PyValue::Int(value) => out.push(&value.to_string()),
        PyValue::Float(value) => out.push(&float::repr(*value)),
        PyValue::Text(text) => {
            meter::read(16 * text.text.len())?;
            out.push(&repr_text(&text.text))
        }
        PyValue::Markup(text) => out.push(&format!("Markup({})", repr_text(&text.text))),
        PyValue::List(list) => write_items("[", &list.items, "]", out),
        PyValue::Tuple(list) => {
            write_items("(", &list.items, if list.items.len() == 1 { ",)" } else { ")" }, out)
        }
        PyValue::Dict(dict) => write_pairs(&dict.items, out),
        PyValue::View(view, _) => {
            out.push(match view {
                View::Keys => "dict_keys(",
                View::Values => "dict_values(",
                View::Items => "dict_items(",
            })?;
            write_items("[", &value.items()?, "]", out)?;
            out.push(")")
        }
        PyValue::Range(range) => {
            out.push(&format!("range({}, {}", range.start, range.stop))?;
            if range.step != 1 {
                out.push(&format!(", {}", range.step))?;
            }
            out.push(")")
        }
        PyValue::Namespace(namespace) => {
            out.push("<Namespace ")?;
            let attributes = namespace.attributes.borrow().clone();
            let pairs = attributes.into_iter().map(|(name, value)| Ok((PyValue::text(&*name)?, value)));
            write_pairs(&pairs.collect::<Result<Vec<_>>>()?, out)?;
            out.push(">")
        }
        PyValue::Loop(inner) => {
            out.push(&format!("<LoopContext {}/{}>", inner.index.get() + 1, inner.items.len()))
        }
        PyValue::Macro(closure) => match &closure.definition.name {
            Some(name) => out.push(&format!("<Macro {}>", repr_text(name))),
            None => out.push("<Macro anonymous>"),
        },
        PyValue::Iterator(_)
        | PyValue::Function(_)
        | PyValue::Method(_)
        | PyValue::Cycler(_)
        | PyValue::Joiner(_) => {
            Err(Error::unsupported(format!("the text of an object of type '{}'", value.type_name())))
        }
    })
}

fn write_items(open: &str, items: &[PyValue], close: &str, out: &mut Writer) -> Result<()> {
    out.push(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(", ")?;
        }
        repr(item, out)?;
    }
    out.push(close)
}

fn write_pairs(pairs: &[(PyValue, PyValue)], out: &mut Writer) -> Result<()> {
    out.push("{")?;
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(", ")?;
        }
        repr(key, out)?;
        out.push(": ")?;
        repr(value, out)?;
    }
    out.push("}")
}

/// `repr` of a text.
pub(super) fn repr_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if unicode::is_printable(c) => out.push(c),
            c => {
                let _ = match c as u32 {
                    code @ ..=0xff => write!(out, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
    out
}
