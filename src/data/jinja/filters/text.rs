//! Filters of text.

use super::select::{ItemPath, attribute_of};
use crate::data::jinja::{
    args::{Args, int, int_or, not_none, required, text as text_of},
    error::{Error, Result},
    meter,
    meter::Writer,
    methods, print, printf, unicode,
    value::PyValue,
};

pub(super) fn upper(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("upper")?;
    PyValue::text(methods::upper(&print::to_text(&value)?)?)
}

pub(super) fn lower(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("lower")?;
    PyValue::text(methods::lower(&print::to_text(&value)?)?)
}

pub(super) fn capitalize(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("capitalize")?;
    PyValue::text(methods::capitalize(&print::to_text(&value)?)?)
}

/// Words begin after whitespace, `-` and opening brackets.
pub(super) fn title(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("title")?;
    let text = print::to_text(&value)?;
    meter::read(4 * text.len())?;
    let is_separator = |c: char| unicode::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let separators = rest.find(|c| !is_separator(c)).unwrap_or(rest.len());
        let word = rest[separators..].find(is_separator).map_or(rest.len(), |at| separators + at);
        out.push_str(&rest[..separators]);
        let mut chars = rest[separators..word].chars();
        out.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        out.push_str(&chars.as_str().to_lowercase());
        rest = &rest[word..];
    }
    PyValue::text(out)
}

pub(super) fn center(value: PyValue, args: Args) -> Result<PyValue> {
    let [width] = args.bind("center", ["width"])?;
    let PyValue::Text(text) = print::to_value(&value)? else { return Err(Error::new("expected str")) };
    methods::center(&text, int_or(width, 80)?, " ")
}

pub(super) fn trim(value: PyValue, args: Args) -> Result<PyValue> {
    let [chars] = args.bind("trim", ["chars"])?;
    let chars = not_none(chars).map(|chars| text_of(&chars, "strip")).transpose()?;
    let text = print::to_text(&value)?;
    PyValue::text(methods::strip(&text, chars.as_deref(), methods::TextSide::Both)?)
}

pub(super) fn replace(value: PyValue, args: Args) -> Result<PyValue> {
    let [old, new, count] = args.bind("replace", ["old", "new", "count"])?;
    let old = print::to_text(&required(old, "replace", "old")?)?;
    let new = print::to_text(&required(new, "replace", "new")?)?;
    let count = not_none(count).map_or(Ok(-1), |count| int(&count))?;
    methods::replace(&print::to_text(&value)?, &old, &new, count)
}

pub(super) fn join(value: PyValue, args: Args) -> Result<PyValue> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"])?;
    let separator = separator.map_or(Ok(String::new()), |separator| print::to_text(&separator))?;
    let path = ItemPath::new(attribute)?;
    let mut out = Writer::default();
    for (i, item) in value.items()?.iter().enumerate() {
        if i > 0 {
            out.push(&separator)?;
        }
        print::write(&attribute_of(item, &path, None)?, &mut out)?;
    }
    PyValue::written(out)
}

pub(super) fn format(value: PyValue, args: Args) -> Result<PyValue> {
    if !args.positional.is_empty() && !args.named.is_empty() {
        return Err(Error::new("can't handle positional and keyword arguments at the same time"));
    }
    let values = if args.named.is_empty() {
        PyValue::tuple(args.positional)?
    } else {
        let pairs = args.named.into_iter().map(|(name, value)| Ok((PyValue::text(&*name)?, value)));
        PyValue::dict(pairs.collect::<Result<Vec<_>>>()?)?
    };
    printf::format(&print::to_text(&value)?, &values)
}

pub(super) fn wordcount(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("wordcount")?;
    let text = print::to_text(&value)?;
    meter::read(8 * text.len())?;
    let words = text.split(|c| !unicode::is_word(c)).filter(|word| !word.is_empty());
    Ok(PyValue::Int(words.count() as i128))
}
