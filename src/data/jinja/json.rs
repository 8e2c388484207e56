//! `tojson`, which transformers defines as Python's `json.dumps`.

use super::{
    args::{Args, is_true, not_none},
    compare::{self, Reverse},
    error::{Error, Result},
    float, meter,
    meter::Writer,
    value::PyValue,
};

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn filter(value: PyValue, args: Args) -> Result<PyValue> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = args.bind("tojson", names)?;
    let indent = match not_none(indent) {
        None => None,
        Some(PyValue::Text(text)) => Some(text.text.clone()),
        Some(width) => {
            let mut indent = Writer::default();
            let width = super::args::int(&width)?.max(0);
            indent.repeat(" ", usize::try_from(width).unwrap_or(usize::MAX))?;
            Some(indent.into_parts().0)
        }
    };
    let [item, key] = match not_none(separators) {
        None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
        Some(pair) => {
            let wrong = || Error::new("expected two separators");
            let [item, key] = <[PyValue; 2]>::try_from(pair.items()?).map_err(|_| wrong())?;
            [super::args::text(&item, "tojson")?, super::args::text(&key, "tojson")?]
        }
    };
    let style =
        JsonStyle { indent, item, key, sort_keys: is_true(sort_keys), ensure_ascii: is_true(ensure_ascii) };
    let mut out = Writer::default();
    style.write(&value, 0, &mut out)?;
    PyValue::written(out)
}

struct JsonStyle {
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

impl JsonStyle {
    fn write(&self, value: &PyValue, depth: usize, out: &mut Writer) -> Result<()> {
        meter::step(1)?;
        meter::deeper(|| match value {
            PyValue::None => out.push("null"),
            PyValue::Bool(value) => out.push(if *value { "true" } else { "false" }),
            PyValue::Int(value) => out.push(&value.to_string()),
            PyValue::Float(value) => out.push(&float(*value)),
            PyValue::Text(text) | PyValue::Markup(text) => self.write_text(&text.text, out),
            PyValue::List(list) | PyValue::Tuple(list) => {
                out.push("[")?;
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(i, depth + 1, out)?;
                    self.write(item, depth + 1, out)?;
                }
                self.close(list.items.len(), depth, "]", out)
            }
            PyValue::Dict(dict) => {
                let mut items = dict.items.clone();
                if self.sort_keys {
                    let pairs = items
                        .into_iter()
                        .map(|(key, value)| Ok((key.clone(), PyValue::tuple(vec![key, value])?)));
                    let sorted = compare::sort(pairs.collect::<Result<_>>()?, Reverse::No)?;
                    items = sorted.iter().map(pair).collect::<Result<_>>()?;
                }
                out.push("{")?;
                for (i, (key, item)) in items.iter().enumerate() {
                    self.separate(i, depth + 1, out)?;
                    self.write_text(&key_text(key)?, out)?;
                    out.push(&self.key)?;
                    self.write(item, depth + 1, out)?;
                }
                self.close(items.len(), depth, "}", out)
            }
            _ => Err(Error::new(format!("Object of type {} is not JSON serializable", value.type_name()))),
        })
    }

    fn separate(&self, index: usize, depth: usize, out: &mut Writer) -> Result<()> {
        if index > 0 {
            out.push(&self.item)?;
        }
        self.break_line(depth, out)
    }

    fn close(&self, count: usize, depth: usize, bracket: &str, out: &mut Writer) -> Result<()> {
        if count > 0 {
            self.break_line(depth, out)?;
        }
        out.push(bracket)
    }

    fn break_line(&self, depth: usize, out: &mut Writer) -> Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        out.push("\n")?;
        out.repeat(indent, depth)
    }

    fn write_text(&self, text: &str, out: &mut Writer) -> Result<()> {
        out.push("\"")?;
        for c in text.chars() {
            match c {
                '"' => out.push("\\\"")?,
                '\\' => out.push("\\\\")?,
                '\n' => out.push("\\n")?,
                '\r' => out.push("\\r")?,
                '\t' => out.push("\\t")?,
                '\x08' => out.push("\\b")?,
                '\x0c' => out.push("\\f")?,
                '\0'..='\x1f' => out.push(&format!("\\u{:04x}", c as u32))?,
                _ if c > '~' && self.ensure_ascii => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push(&format!("\\u{unit:04x}"))?;
                    }
                }
                _ => out.push_char(c)?,
            }
        }
        out.push("\"")
    }
}

fn pair(value: &PyValue) -> Result<(PyValue, PyValue)> {
    let wrong = || Error::new("expected a pair");
    let [key, value] = <[PyValue; 2]>::try_from(value.items()?).map_err(|_| wrong())?;
    Ok((key, value))
}

fn float(value: f64) -> String {
    match float::repr(value).as_str() {
        "nan" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        text => text.to_owned(),
    }
}

fn key_text(key: &PyValue) -> Result<String> {
    match key {
        PyValue::Text(text) | PyValue::Markup(text) => Ok(text.text.clone()),
        PyValue::None => Ok("null".into()),
        PyValue::Bool(value) => Ok(if *value { "true" } else { "false" }.into()),
        PyValue::Int(value) => Ok(value.to_string()),
        PyValue::Float(value) => Ok(float(*value)),
        _ => {
            let found = key.type_name();
            Err(Error::new(format!("keys must be str, int, float, bool or None, not {found}")))
        }
    }
}
