//! Filters that take attributes, filters and tests by their names.

use std::sync::Arc;

use crate::data::jinja::{
    args::{Args, not_none},
    attribute,
    error::{Error, Result},
    predicates,
    value::PyValue,
};

/// A path such as `a.0.b` to a value inside another.
pub(super) struct ItemPath(Vec<PyValue>);

impl ItemPath {
    /// The path in an argument; without one, the value itself.
    pub(super) fn new(attribute: Option<PyValue>) -> Result<Self> {
        match not_none(attribute) {
            None => Ok(Self(Vec::new())),
            Some(PyValue::Text(text)) => Self::parse(&text.text),
            Some(other) => Ok(Self(vec![other])),
        }
    }

    /// The comma-separated paths in an argument.
    pub(super) fn several(attribute: Option<PyValue>) -> Result<Vec<Self>> {
        match not_none(attribute) {
            Some(PyValue::Text(text)) => text.text.split(',').map(Self::parse).collect(),
            other => Ok(vec![Self::new(other)?]),
        }
    }

    /// The path to an item.
    pub(super) fn index(at: usize) -> Self {
        Self(vec![PyValue::Int(at as i128)])
    }

    fn parse(text: &str) -> Result<Self> {
        let part = |part: &str| match part.parse() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => Ok(PyValue::Int(index)),
            _ => PyValue::text(part),
        };
        Ok(Self(text.split('.').map(part).collect::<Result<_>>()?))
    }
}

/// The value at a path; `default` replaces undefined ones.
pub(super) fn attribute_of(item: &PyValue, path: &ItemPath, default: Option<&PyValue>) -> Result<PyValue> {
    let mut value = item.clone();
    for part in &path.0 {
        value = attribute::item(&value, part)?;
        if let (PyValue::Undefined(_), Some(default)) = (&value, default) {
            value = default.clone();
        }
    }
    Ok(value)
}

/// Applies a filter by its name.
type Apply = fn(&str, PyValue, Args) -> Result<PyValue>;

/// `map`; `apply` is the dispatcher of filters, which is above this file.
pub(super) fn map(value: PyValue, mut args: Args, apply: Apply) -> Result<PyValue> {
    let items = truthy_items(&value)?;
    let mut made = Vec::new();
    if args.positional.is_empty() && args.named.iter().any(|(name, _)| &**name == "attribute") {
        let [attribute, default] = args.bind("map", ["attribute", "default"])?;
        let path = ItemPath::new(attribute)?;
        let default = not_none(default);
        for item in items {
            made.push(attribute_of(&item, &path, default.as_ref())?);
        }
    } else if !items.is_empty() {
        let name = take_name(&mut args)?.ok_or_else(|| Error::new("map requires a filter argument"))?;
        for item in items {
            made.push(apply(&name, item, args.clone())?);
        }
    }
    PyValue::iterator("generator", made)
}

/// The items, unless the value is false.
fn truthy_items(value: &PyValue) -> Result<Vec<PyValue>> {
    if value.is_true() { value.items() } else { Ok(Vec::new()) }
}

/// Takes the first argument, a name.
fn take_name(args: &mut Args) -> Result<Option<Arc<str>>> {
    if args.positional.is_empty() {
        return Ok(None);
    }
    match args.positional.remove(0) {
        PyValue::Text(name) => Ok(Some(name.text.as_str().into())),
        other => Err(Error::new(format!(
            "No filter or test named {}.",
            crate::data::jinja::print::to_repr(&other)?
        ))),
    }
}

pub(super) fn select(value: PyValue, args: Args) -> Result<PyValue> {
    filter(value, args, KeptItems::Accepted, None)
}

pub(super) fn reject(value: PyValue, args: Args) -> Result<PyValue> {
    filter(value, args, KeptItems::Refused, None)
}

pub(super) fn selectattr(value: PyValue, args: Args) -> Result<PyValue> {
    filter_by_attribute(value, args, KeptItems::Accepted)
}

pub(super) fn rejectattr(value: PyValue, args: Args) -> Result<PyValue> {
    filter_by_attribute(value, args, KeptItems::Refused)
}

/// The items that a filter keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptItems {
    Accepted,
    Refused,
}

fn filter_by_attribute(value: PyValue, mut args: Args, keep: KeptItems) -> Result<PyValue> {
    if !value.is_true() {
        return PyValue::iterator("generator", Vec::new());
    }
    if args.positional.is_empty() {
        return Err(Error::new("Missing parameter for attribute name"));
    }
    let path = ItemPath::new(Some(args.positional.remove(0)))?;
    filter(value, args, keep, Some(&path))
}

fn filter(value: PyValue, mut args: Args, keep: KeptItems, path: Option<&ItemPath>) -> Result<PyValue> {
    let items = truthy_items(&value)?;
    let mut kept = Vec::new();
    if !items.is_empty() {
        let name = take_name(&mut args)?;
        for item in items {
            let tested = match path {
                Some(path) => attribute_of(&item, path, None)?,
                None => item.clone(),
            };
            let accepted = match &name {
                Some(name) => predicates::apply(name, &tested, args.clone())?,
                None => tested.is_true(),
            };
            if accepted == (keep == KeptItems::Accepted) {
                kept.push(item);
            }
        }
    }
    PyValue::iterator("generator", kept)
}
