//! `value.name` and `value[key]`, by the rules of Jinja2's sandbox.

use std::{rc::Rc, sync::Arc};

use super::{
    error::{Error, Result},
    index, names,
    undefined::undefined_error,
    value::{Closure, Loop, Undefined, Value, View},
};

/// `value.name`: an attribute of the object, or else an item.
pub fn attribute(value: &Value, name: &Arc<str>) -> Result<Value> {
    if let Value::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    if let Some(found) = own_attribute(value, name)? {
        return Ok(found);
    }
    if let Value::Dict(dict) = value
        && let Some(found) = dict.get_text(name)
    {
        return Ok(found.clone());
    }
    missing(value, Value::text(&**name)?)
}

/// `value[key]`: an item, or else an attribute of the object.
pub fn item(value: &Value, key: &Value) -> Result<Value> {
    if let Value::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    if let Some(found) = index::item(value, key)? {
        return Ok(found);
    }
    if let Value::Text(name) = key
        && let Some(found) = own_attribute(value, &Arc::from(name.text.as_str()))?
    {
        return Ok(found);
    }
    missing(value, key.clone())
}

fn missing(value: &Value, name: Value) -> Result<Value> {
    Ok(Value::Undefined(Rc::new(Undefined::Attribute(type_in_messages(value), name))))
}

/// The type of a value as messages about undefined values have it.
fn type_in_messages(value: &Value) -> &'static str {
    match value {
        Value::None => "None",
        Value::Bool(_) => "bool object",
        Value::Int(_) => "int object",
        Value::Float(_) => "float object",
        Value::Text(_) => "str object",
        Value::Markup(_) => "markupsafe.Markup object",
        Value::List(_) => "list object",
        Value::Tuple(_) => "tuple object",
        Value::Dict(_) => "dict object",
        Value::Namespace(_) => "namespace object",
        Value::Loop(_) => "jinja2.runtime.LoopContext object",
        Value::Range(_) => "range object",
        Value::Macro(_) => "jinja2.runtime.Macro object",
        Value::View(View::Keys, _) => "dict_keys object",
        Value::View(View::Values, _) => "dict_values object",
        Value::View(View::Items, _) => "dict_items object",
        Value::Iterator(_) => "generator object",
        Value::Undefined(_) | Value::Function(_) | Value::Method(_) | Value::Cycler(_) | Value::Joiner(_) => {
            "object"
        }
    }
}

/// `value|attr(name)`: an attribute of the object and nothing else.
pub fn only_attribute(value: &Value, name: &Arc<str>) -> Result<Value> {
    if let Value::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    match own_attribute(value, name)? {
        Some(found) => Ok(found),
        None => missing(value, Value::text(&**name)?),
    }
}

/// Attributes that every object of Python has.
const OBJECT: [&str; 24] = [
    "__class__",
    "__delattr__",
    "__dir__",
    "__doc__",
    "__eq__",
    "__format__",
    "__ge__",
    "__getattribute__",
    "__getstate__",
    "__gt__",
    "__hash__",
    "__init__",
    "__init_subclass__",
    "__le__",
    "__lt__",
    "__ne__",
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__setattr__",
    "__sizeof__",
    "__str__",
    "__subclasshook__",
];

/// Attributes whose names begin with an underscore that containers and numbers have besides.
const PRIVATE: [&str; 22] = [
    "__len__",
    "__getitem__",
    "__iter__",
    "__contains__",
    "__add__",
    "__mul__",
    "__mod__",
    "__reversed__",
    "__or__",
    "__call__",
    "__dict__",
    "__module__",
    "__init__",
    "__globals__",
    "__mro__",
    "__bases__",
    "__subclasses__",
    "__int__",
    "__float__",
    "__bool__",
    "__abs__",
    "__index__",
];

fn own_attribute(value: &Value, name: &Arc<str>) -> Result<Option<Value>> {
    if name.starts_with('_') {
        let namespace = matches!(value, Value::Namespace(_)) && !name.starts_with("__");
        if OBJECT.contains(&&**name) || PRIVATE.contains(&&**name) && !namespace {
            return Ok(Some(unsafe_attribute(value, name)));
        }
        return Ok(None);
    }
    if let Value::Markup(_) = value
        && names::TEXT.contains(&&**name)
    {
        return Err(Error::unsupported(format!("'{name}' of text that `escape` or `safe` returned")));
    }
    let (safe, mutating) = names::methods(value);
    if mutating.contains(&&**name) {
        return Ok(Some(unsafe_attribute(value, name)));
    }
    if safe.contains(&&**name) {
        return Ok(Some(Value::Method(Rc::new((value.clone(), name.clone())))));
    }
    match value {
        Value::Namespace(namespace) => {
            let attributes = namespace.attributes.borrow();
            Ok(attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
        }
        Value::Loop(inner) => loop_attribute(value, inner, name),
        Value::Macro(closure) => macro_attribute(closure, name),
        Value::Cycler(cycler) => match &**name {
            "current" => Ok(Some(
                cycler.items.get(cycler.at.get() % cycler.items.len().max(1)).cloned().unwrap_or(Value::None),
            )),
            "pos" => Ok(Some(Value::Int(cycler.at.get() as i128))),
            "items" => Ok(Some(Value::tuple(cycler.items.clone())?)),
            _ => Ok(None),
        },
        Value::Joiner(joiner) => match &**name {
            "sep" => Ok(Some(joiner.separator.clone())),
            "used" => Ok(Some(Value::Bool(joiner.used.get()))),
            _ => Ok(None),
        },
        Value::Tuple(list) if list.is_group.get() => Ok(match &**name {
            "grouper" => list.items.first().cloned(),
            "list" => list.items.get(1).cloned(),
            _ => None,
        }),
        Value::Range(range) => Ok(match &**name {
            "start" => Some(Value::Int(range.start)),
            "stop" => Some(Value::Int(range.stop)),
            "step" => Some(Value::Int(range.step)),
            _ => None,
        }),
        Value::Int(_) | Value::Bool(_) => match &**name {
            "real" | "numerator" => Ok(value.as_int().map(Value::Int)),
            "imag" => Ok(Some(Value::Int(0))),
            "denominator" => Ok(Some(Value::Int(1))),
            _ => Ok(None),
        },
        Value::Float(_) => Ok(match &**name {
            "real" => Some(value.clone()),
            "imag" => Some(Value::Float(0.0)),
            _ => None,
        }),
        Value::View(..) if &**name == "mapping" => Err(Error::unsupported("'mapping' of a view")),
        Value::Function(_) | Value::Method(_) => {
            Err(Error::unsupported(format!("the attribute '{name}' of a function")))
        }
        _ => Ok(None),
    }
}

fn unsafe_attribute(value: &Value, name: &str) -> Value {
    let kind = value.type_name();
    Value::undefined(format!("access to attribute '{name}' of '{kind}' object is unsafe."))
}

fn loop_attribute(value: &Value, inner: &Rc<Loop>, name: &Arc<str>) -> Result<Option<Value>> {
    let (index, length) = (inner.index.get(), inner.items.len());
    let int = |value: usize| Ok(Some(Value::Int(value as i128)));
    match &**name {
        "index" => int(index + 1),
        "index0" => int(index),
        "revindex" => int(length - index),
        "revindex0" => int(length - index - 1),
        "length" => int(length),
        "depth" => int(inner.depth + 1),
        "depth0" => int(inner.depth),
        "first" => Ok(Some(Value::Bool(index == 0))),
        "last" => Ok(Some(Value::Bool(index + 1 == length))),
        "previtem" => Ok(Some(match index.checked_sub(1).and_then(|at| inner.items.get(at)) {
            Some(item) => item.clone(),
            None => Value::undefined("there is no previous item"),
        })),
        "nextitem" => Ok(Some(match inner.items.get(index + 1) {
            Some(item) => item.clone(),
            None => Value::undefined("there is no next item"),
        })),
        "cycle" | "changed" => Ok(Some(Value::Method(Rc::new((value.clone(), name.clone()))))),
        _ => Ok(None),
    }
}

fn macro_attribute(closure: &Closure, name: &str) -> Result<Option<Value>> {
    let definition = &closure.definition;
    Ok(Some(match name {
        "name" => definition.name.as_deref().map_or(Ok(Value::None), Value::text)?,
        "arguments" => {
            let names = definition.parameters.iter().map(|(name, _)| Value::text(&**name));
            // A list of Python that Jinja2 passes as a tuple.
            Value::tuple(names.collect::<Result<_>>()?)?
        }
        "catch_kwargs" => Value::Bool(definition.reads.kwargs),
        "catch_varargs" => Value::Bool(definition.reads.varargs),
        "caller" => Value::Bool(definition.reads.caller),
        _ => return Ok(None),
    }))
}
