//! Filters of lists and dicts.

use std::collections::HashSet;

use super::select::{ItemPath, attribute_of};
use crate::data::jinja::{
    args::{Args, int, int_or, not_none, required},
    compare::{self, Reverse},
    error::{Error, Result},
    meter, methods, operators,
    undefined::defined,
    value::{PyValue, View},
};

/// `sorted` takes an integer.
fn reversed(reverse: Option<PyValue>) -> Result<Reverse> {
    Ok(if int_or(reverse, 0)? == 0 { Reverse::No } else { Reverse::Yes })
}

/// The key by which text is compared regardless of its case.
fn ignore_case(value: PyValue) -> Result<PyValue> {
    match &value {
        PyValue::Text(text) => PyValue::text(methods::lower(&text.text)?),
        _ => Ok(value),
    }
}

/// The key of an item: an attribute, in lower case unless case matters.
fn key(
    item: &PyValue,
    path: &ItemPath,
    case_sensitive: Option<&PyValue>,
    default: Option<&PyValue>,
) -> Result<PyValue> {
    let value = attribute_of(item, path, default)?;
    if case_sensitive.is_some_and(PyValue::is_true) { Ok(value) } else { ignore_case(value) }
}

pub(super) fn length(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("len")?;
    let length = value.len();
    let missing = || Error::new(format!("object of type '{}' has no len()", value.type_name()));
    Ok(PyValue::Int(length.ok_or_else(missing)? as i128))
}

pub(super) fn list(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("list")?;
    PyValue::list(value.items()?)
}

pub(super) fn first(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("first")?;
    let first = match &value {
        PyValue::Iterator(iterator) => iterator.take(),
        PyValue::List(list) | PyValue::Tuple(list) => list.items.first().cloned(),
        _ => value.items()?.into_iter().next(),
    };
    Ok(first.unwrap_or_else(|| PyValue::undefined("No first item, sequence was empty.")))
}

pub(super) fn last(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("last")?;
    if let PyValue::Iterator(iterator) = &value {
        return Err(Error::new(format!("'{}' object is not reversible", iterator.kind)));
    }
    let last = match &value {
        PyValue::List(list) | PyValue::Tuple(list) => list.items.last().cloned(),
        _ => value.items()?.pop(),
    };
    Ok(last.unwrap_or_else(|| PyValue::undefined("No last item, sequence was empty.")))
}

pub(super) fn reverse(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("reverse")?;
    if let PyValue::Text(text) = &value {
        return PyValue::text(text.text.chars().rev().collect::<String>());
    }
    if !value.is_iterable() {
        return Err(Error::new("argument must be iterable"));
    }
    let mut items = value.items()?;
    items.reverse();
    let kind = match &value {
        PyValue::Iterator(_) | PyValue::Undefined(_) => return PyValue::list(items),
        PyValue::List(_) => "list_reverseiterator",
        PyValue::Dict(_) => "dict_reversekeyiterator",
        PyValue::View(View::Items, _) => "dict_reverseitemiterator",
        PyValue::View(View::Values, _) => "dict_reversevalueiterator",
        PyValue::View(View::Keys, _) => "dict_reversekeyiterator",
        PyValue::Range(_) => "range_iterator",
        _ => "reversed",
    };
    PyValue::iterator(kind, items)
}

pub(super) fn items(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("items")?;
    match &value {
        PyValue::Undefined(_) => PyValue::iterator("generator", Vec::new()),
        PyValue::Dict(dict) => {
            PyValue::iterator("generator", PyValue::View(View::Items, dict.clone()).items()?)
        }
        _ => Err(Error::new("Can only get item pairs from a mapping.")),
    }
}

pub(super) fn dictsort(value: PyValue, args: Args) -> Result<PyValue> {
    let [case_sensitive, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let by = by.map_or_else(|| PyValue::text("key"), Ok)?;
    let position = match by.as_text() {
        Some("key") => 0,
        Some("value") => 1,
        _ => return Err(Error::new("You can only sort by either \"key\" or \"value\"")),
    };
    let PyValue::Dict(dict) = &value else {
        defined(&value)?;
        return Err(Error::new(format!("'{}' object has no attribute 'items'", value.type_name())));
    };
    let mut pairs = Vec::new();
    for pair in PyValue::View(View::Items, dict.clone()).items()? {
        let path = ItemPath::index(position);
        pairs.push((key(&pair, &path, case_sensitive.as_ref(), None)?, pair));
    }
    PyValue::list(compare::sort(pairs, reversed(reverse)?)?)
}

pub(super) fn sort(value: PyValue, args: Args) -> Result<PyValue> {
    let [reverse, case_sensitive, attribute] =
        args.bind("sort", ["reverse", "case_sensitive", "attribute"])?;
    let paths = ItemPath::several(attribute)?;
    let mut pairs = Vec::new();
    for item in value.items()? {
        let keys = paths.iter().map(|path| key(&item, path, case_sensitive.as_ref(), None));
        pairs.push((PyValue::list(keys.collect::<Result<_>>()?)?, item));
    }
    PyValue::list(compare::sort(pairs, reversed(reverse)?)?)
}

pub(super) fn unique(value: PyValue, args: Args) -> Result<PyValue> {
    let [case_sensitive, attribute] = args.bind("unique", ["case_sensitive", "attribute"])?;
    let path = ItemPath::new(attribute)?;
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for item in value.items()? {
        if compare::is_new(&mut seen, &key(&item, &path, case_sensitive.as_ref(), None)?)? {
            kept.push(item);
        }
    }
    PyValue::iterator("generator", kept)
}

pub(super) fn min(value: PyValue, args: Args) -> Result<PyValue> {
    extreme(value, args, "min")
}

pub(super) fn max(value: PyValue, args: Args) -> Result<PyValue> {
    extreme(value, args, "max")
}

fn extreme(value: PyValue, args: Args, name: &str) -> Result<PyValue> {
    let [case_sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
    let path = ItemPath::new(attribute)?;
    let mut best: Option<(PyValue, PyValue)> = None;
    for item in value.items()? {
        let new = key(&item, &path, case_sensitive.as_ref(), None)?;
        let comparison = if name == "min" {
            crate::data::jinja::ast::CompareOp::Less
        } else {
            crate::data::jinja::ast::CompareOp::Greater
        };
        let better = match &best {
            None => true,
            Some((old, _)) => compare::compare(comparison, &new, old)?,
        };
        if better {
            best = Some((new, item));
        }
    }
    Ok(best.map_or_else(|| PyValue::undefined("No aggregated item, sequence was empty."), |(_, item)| item))
}

pub(super) fn sum(value: PyValue, args: Args) -> Result<PyValue> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"])?;
    let path = ItemPath::new(attribute)?;
    let items =
        value.items()?.iter().map(|item| attribute_of(item, &path, None)).collect::<Result<Vec<_>>>()?;
    operators::sum(&items, start.unwrap_or(PyValue::Int(0)))
}

pub(super) fn groupby(value: PyValue, args: Args) -> Result<PyValue> {
    let [attribute, default, case_sensitive] =
        args.bind("groupby", ["attribute", "default", "case_sensitive"])?;
    let path = ItemPath::new(Some(required(attribute, "groupby", "attribute")?))?;
    let default = not_none(default);
    let mut pairs = Vec::new();
    for item in value.items()? {
        let key = key(&item, &path, case_sensitive.as_ref(), default.as_ref())?;
        pairs.push((key.clone(), PyValue::tuple(vec![key, item])?));
    }
    let mut groups: Vec<(PyValue, Vec<PyValue>)> = Vec::new();
    for pair in compare::sort(pairs, Reverse::No)? {
        let pair = pair.items()?;
        let [key, item] = pair.as_slice() else { continue };
        match groups.last_mut() {
            Some((last, items)) if compare::equal(last, key)? => items.push(item.clone()),
            _ => groups.push((key.clone(), vec![item.clone()])),
        }
    }
    let mut made = Vec::new();
    for (key, items) in groups {
        let sensitive = case_sensitive.as_ref().is_some_and(PyValue::is_true);
        // The group has the spelling of its first item.
        let key = if sensitive { key } else { attribute_of(&items[0], &path, default.as_ref())? };
        let group = PyValue::tuple(vec![key, PyValue::list(items)?])?;
        if let PyValue::Tuple(list) = &group {
            list.is_group.set(true);
        }
        made.push(group);
    }
    PyValue::list(made)
}

pub(super) fn slice(value: PyValue, args: Args) -> Result<PyValue> {
    let [slices, fill] = args.bind("slice", ["slices", "fill_with"])?;
    let slices = int(&required(slices, "slice", "slices")?)?;
    let items = value.items()?;
    if slices == 0 {
        return Err(Error::new("integer division or modulo by zero"));
    }
    let Ok(slices) = usize::try_from(slices) else { return PyValue::iterator("generator", Vec::new()) };
    meter::step(slices)?;
    let (size, extra) = (items.len() / slices, items.len() % slices);
    let fill = not_none(fill);
    let mut made = Vec::new();
    let mut at = 0;
    for slice in 0..slices {
        let end = at + size + usize::from(slice < extra);
        let mut part = items[at..end].to_vec();
        if slice >= extra {
            part.extend(fill.clone());
        }
        made.push(PyValue::list(part)?);
        at = end;
    }
    PyValue::iterator("generator", made)
}

pub(super) fn batch(value: PyValue, args: Args) -> Result<PyValue> {
    let [count, fill] = args.bind("batch", ["linecount", "fill_with"])?;
    let count = int_or(Some(required(count, "batch", "linecount")?), 0)?;
    let items = value.items()?;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        return Err(Error::unsupported("'batch' with a count below one"));
    };
    let mut made = Vec::new();
    for part in items.chunks(count) {
        let mut part = part.to_vec();
        if let Some(fill) = not_none(fill.clone()) {
            let missing = count - part.len();
            drop(meter::Charge::of(missing.saturating_mul(48))?);
            part.extend(std::iter::repeat_n(fill, missing));
        }
        made.push(PyValue::list(part)?);
    }
    PyValue::iterator("generator", made)
}
