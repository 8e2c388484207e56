//! Properties of values: type, truth, length, items.

use super::{
    error::{Error, Result},
    value::{PyValue, View},
};

impl PyValue {
    /// The name of its type in Python.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::Markup(_) => "Markup",
            Self::List(_) => "list",
            Self::Tuple(list) if list.is_group.get() => "_GroupTuple",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::View(View::Keys, _) => "dict_keys",
            Self::View(View::Values, _) => "dict_values",
            Self::View(View::Items, _) => "dict_items",
            Self::Range(_) => "range",
            Self::Iterator(iterator) => iterator.kind,
            Self::Namespace(_) => "TemplateNamespace",
            Self::Loop(_) => "LoopContext",
            Self::Macro(_) => "Macro",
            Self::Function(_) => "function",
            Self::Method(_) => "builtin_function_or_method",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
        }
    }

    /// `bool(value)`.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            _ => self.len().is_none_or(|length| length > 0),
        }
    }

    /// `len(value)`, if it has one.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Undefined(_) => Some(0),
            Self::Text(text) | Self::Markup(text) => Some(text.chars),
            Self::List(list) | Self::Tuple(list) => Some(list.items.len()),
            Self::Dict(dict) | Self::View(_, dict) => Some(dict.items.len()),
            Self::Range(range) => Some(range.len()),
            Self::Loop(inner) => Some(inner.items.len()),
            _ => None,
        }
    }

    /// Whether a loop can visit its items.
    pub(super) fn is_iterable(&self) -> bool {
        match self {
            Self::Iterator(_) => true,
            _ => self.len().is_some(),
        }
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// The integer, as `operator.index` takes one.
    pub(super) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// The items that a loop over it visits.
    pub(super) fn items(&self) -> Result<Vec<Self>> {
        let items: Vec<Self> = match self {
            Self::Undefined(_) => Vec::new(),
            Self::Text(text) | Self::Markup(text) => {
                text.text.chars().map(Self::text).collect::<Result<_>>()?
            }
            Self::List(list) | Self::Tuple(list) => list.items.clone(),
            Self::Dict(dict) | Self::View(View::Keys, dict) => {
                dict.items.iter().map(|(key, _)| key.clone()).collect()
            }
            Self::View(View::Values, dict) => dict.items.iter().map(|(_, value)| value.clone()).collect(),
            Self::View(View::Items, dict) => {
                let pair = |(key, value): &(Self, Self)| Self::tuple(vec![key.clone(), value.clone()]);
                dict.items.iter().map(pair).collect::<Result<_>>()?
            }
            Self::Range(range) => range.items().collect(),
            Self::Iterator(iterator) => iterator.rest(),
            Self::Loop(_) => return Err(Error::unsupported("a loop over `loop`")),
            _ => return Err(Error::new(format!("'{}' object is not iterable", self.type_name()))),
        };
        super::meter::step(items.len())?;
        Ok(items)
    }
}
