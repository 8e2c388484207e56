//! Filters that take attributes, filters and tests by their names.

use std::sync::Arc;

use crate::data::jinja::{
    args::{Args, not_none},
    attribute,
    error::{Error, Result},
    predicates,
    value::Value,
};

/// A path such as `a.0.b` to a value inside another.
pub struct Path(Vec<Value>);

impl Path {
    /// The path that an argument spells; nothing is the value itself.
    pub fn new(attribute: Option<Value>) -> Result<Self> {
        match not_none(attribute) {
            None => Ok(Self(Vec::new())),
            Some(Value::Text(text)) => Self::parse(&text.text),
            Some(other) => Ok(Self(vec![other])),
        }
    }

    /// The paths that an argument spells, with commas between them.
    pub fn several(attribute: Option<Value>) -> Result<Vec<Self>> {
        match not_none(attribute) {
            Some(Value::Text(text)) => text.text.split(',').map(Self::parse).collect(),
            other => Ok(vec![Self::new(other)?]),
        }
    }

    /// The path to an item.
    pub fn index(at: usize) -> Self {
        Self(vec![Value::Int(at as i128)])
    }

    fn parse(text: &str) -> Result<Self> {
        let part = |part: &str| match part.parse() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Value::Int(index)),
            _ => Value::text(part),
        };
        Ok(Self(text.split('.').map(part).collect::<Result<_>>()?))
    }
}

/// The value at a path; `default` replaces undefined ones.
pub fn attribute_of(item: &Value, path: &Path, default: Option<&Value>) -> Result<Value> {
    let mut value = item.clone();
    for part in &path.0 {
        value = attribute::item(&value, part)?;
        if let (Value::Undefined(_), Some(default)) = (&value, default) {
            value = default.clone();
        }
    }
    Ok(value)
}

/// Applies a filter by its name.
type Apply = fn(&str, Value, Args) -> Result<Value>;

/// `map`; `apply` is the dispatcher of filters, which is above this file.
pub fn map(value: Value, mut args: Args, apply: Apply) -> Result<Value> {
    let items = truthy_items(&value)?;
    let mut made = Vec::new();
    if args.positional.is_empty() && args.named.iter().any(|(name, _)| &**name == "attribute") {
        let [attribute, default] = args.bind("map", ["attribute", "default"])?;
        let path = Path::new(attribute)?;
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
    Value::iterator("generator", made)
}

/// The items, unless the value is false.
fn truthy_items(value: &Value) -> Result<Vec<Value>> {
    if value.is_true() { value.items() } else { Ok(Vec::new()) }
}

/// Takes the first argument, a name.
fn take_name(args: &mut Args) -> Result<Option<Arc<str>>> {
    if args.positional.is_empty() {
        return Ok(None);
    }
    match args.positional.remove(0) {
        Value::Text(name) => Ok(Some(name.text.as_str().into())),
        other => Err(Error::new(format!(
            "No filter or test named {}.",
            crate::data::jinja::print::to_repr(&other)?
        ))),
    }
}

pub fn select(value: Value, args: Args) -> Result<Value> {
    filter(value, args, Keep::Accepted, None)
}

pub fn reject(value: Value, args: Args) -> Result<Value> {
    filter(value, args, Keep::Refused, None)
}

pub fn selectattr(value: Value, args: Args) -> Result<Value> {
    filter_by_attribute(value, args, Keep::Accepted)
}

pub fn rejectattr(value: Value, args: Args) -> Result<Value> {
    filter_by_attribute(value, args, Keep::Refused)
}

/// Which items a filter keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Accepted,
    Refused,
}

fn filter_by_attribute(value: Value, mut args: Args, keep: Keep) -> Result<Value> {
    if !value.is_true() {
        return Value::iterator("generator", Vec::new());
    }
    if args.positional.is_empty() {
        return Err(Error::new("Missing parameter for attribute name"));
    }
    let path = Path::new(Some(args.positional.remove(0)))?;
    filter(value, args, keep, Some(&path))
}

fn filter(value: Value, mut args: Args, keep: Keep, path: Option<&Path>) -> Result<Value> {
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
            if accepted == (keep == Keep::Accepted) {
                kept.push(item);
            }
        }
    }
    Value::iterator("generator", kept)
}
