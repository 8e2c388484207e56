//! `value.name` and `value[key]`, by the rules of Jinja2's sandbox.

use std::{rc::Rc, sync::Arc};

use super::{
    error::{Error, Result},
    index, names,
    undefined::undefined_error,
    value::{Closure, Loop, PyValue, Undefined, View},
};

/// `value.name`: an attribute of the object, or else an item.
pub(super) fn attribute(value: &PyValue, name: &Arc<str>) -> Result<PyValue> {
    if let PyValue::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    if let Some(found) = own_attribute(value, name)? {
        return Ok(found);
    }
    if let PyValue::Dict(dict) = value
        && let Some(found) = dict.get_text(name)
    {
        return Ok(found.clone());
    }
    missing(value, PyValue::text(&**name)?)
}

/// `value[key]`: an item, or else an attribute of the object.
pub(super) fn item(value: &PyValue, key: &PyValue) -> Result<PyValue> {
    if let PyValue::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    if let Some(found) = index::item(value, key)? {
        return Ok(found);
    }
    if let PyValue::Text(name) = key
        && let Some(found) = own_attribute(value, &Arc::from(name.text.as_str()))?
    {
        return Ok(found);
    }
    missing(value, key.clone())
}

fn missing(value: &PyValue, name: PyValue) -> Result<PyValue> {
    Ok(PyValue::Undefined(Rc::new(Undefined::Attribute(type_in_messages(value), name))))
}

/// Name of a value's type in messages about undefined values.
fn type_in_messages(value: &PyValue) -> &'static str {
    match value {
        PyValue::None => "None",
        PyValue::Bool(_) => "bool object",
        PyValue::Int(_) => "int object",
        PyValue::Float(_) => "float object",
        PyValue::Text(_) => "str object",
        PyValue::Markup(_) => "markupsafe.Markup object",
        PyValue::List(_) => "list object",
        PyValue::Tuple(_) => "tuple object",
        PyValue::Dict(_) => "dict object",
        PyValue::Namespace(_) => "namespace object",
        PyValue::Loop(_) => "jinja2.runtime.LoopContext object",
        PyValue::Range(_) => "range object",
        PyValue::Macro(_) => "jinja2.runtime.Macro object",
        PyValue::View(View::Keys, _) => "dict_keys object",
        PyValue::View(View::Values, _) => "dict_values object",
        PyValue::View(View::Items, _) => "dict_items object",
        PyValue::Iterator(_) => "generator object",
        PyValue::Undefined(_)
        | PyValue::Function(_)
        | PyValue::Method(_)
        | PyValue::Cycler(_)
        | PyValue::Joiner(_) => "object",
    }
}

/// `value|attr(name)`: an attribute of the object and nothing else.
pub(super) fn only_attribute(value: &PyValue, name: &Arc<str>) -> Result<PyValue> {
    if let PyValue::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    match own_attribute(value, name)? {
        Some(found) => Ok(found),
        None => missing(value, PyValue::text(&**name)?),
    }
}

/// Attributes of every Python object.
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

/// Further attributes of containers, numbers and functions whose names begin with an underscore.
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

fn own_attribute(value: &PyValue, name: &Arc<str>) -> Result<Option<PyValue>> {
    if name.starts_with('_') {
        let namespace = matches!(value, PyValue::Namespace(_)) && !name.starts_with("__");
        if OBJECT.contains(&&**name) || PRIVATE.contains(&&**name) && !namespace {
            return Ok(Some(unsafe_attribute(value, name)));
        }
        return Ok(None);
    }
    if let PyValue::Markup(_) = value
        && names::TEXT.contains(&&**name)
    {
        return Err(Error::unsupported(format!("'{name}' of text that `escape` or `safe` returned")));
    }
    let (safe, mutating) = names::methods(value);
    if mutating.contains(&&**name) {
        return Ok(Some(unsafe_attribute(value, name)));
    }
    if safe.contains(&&**name) {
        return Ok(Some(PyValue::Method(Rc::new((value.clone(), name.clone())))));
    }
    match value {
        PyValue::Namespace(namespace) => {
            let attributes = namespace.attributes.borrow();
            Ok(attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
        }
        PyValue::Loop(inner) => loop_attribute(value, inner, name),
        PyValue::Macro(closure) => macro_attribute(closure, name),
        PyValue::Cycler(cycler) => match &**name {
            "current" => Ok(Some(
                cycler
                    .items
                    .get(cycler.at.get() % cycler.items.len().max(1))
                    .cloned()
                    .unwrap_or(PyValue::None),
            )),
            "pos" => Ok(Some(PyValue::Int(cycler.at.get() as i128))),
            "items" => Ok(Some(PyValue::tuple(cycler.items.clone())?)),
            _ => Ok(None),
        },
        PyValue::Joiner(joiner) => match &**name {
            "sep" => Ok(Some(joiner.separator.clone())),
            "used" => Ok(Some(PyValue::Bool(joiner.used.get()))),
            _ => Ok(None),
        },
        PyValue::Tuple(list) if list.is_group.get() => Ok(match &**name {
            "grouper" => list.items.first().cloned(),
            "list" => list.items.get(1).cloned(),
            _ => None,
        }),
        PyValue::Range(range) => Ok(match &**name {
            "start" => Some(PyValue::Int(range.start)),
            "stop" => Some(PyValue::Int(range.stop)),
            "step" => Some(PyValue::Int(range.step)),
            _ => None,
        }),
        PyValue::Int(_) | PyValue::Bool(_) => match &**name {
            "real" | "numerator" => Ok(value.as_int().map(PyValue::Int)),
            "imag" => Ok(Some(PyValue::Int(0))),
            "denominator" => Ok(Some(PyValue::Int(1))),
            _ => Ok(None),
        },
        PyValue::Float(_) => Ok(match &**name {
            "real" => Some(value.clone()),
            "imag" => Some(PyValue::Float(0.0)),
            _ => None,
        }),
        PyValue::View(..) if &**name == "mapping" => Err(Error::unsupported("'mapping' of a view")),
        PyValue::Function(_) | PyValue::Method(_) => {
            Err(Error::unsupported(format!("the attribute '{name}' of a function")))
        }
        _ => Ok(None),
    }
}

fn unsafe_attribute(value: &PyValue, name: &str) -> PyValue {
    let kind = value.type_name();
    PyValue::undefined(format!("access to attribute '{name}' of '{kind}' object is unsafe."))
}

fn loop_attribute(value: &PyValue, inner: &Rc<Loop>, name: &Arc<str>) -> Result<Option<PyValue>> {
    let (index, length) = (inner.index.get(), inner.items.len());
    let int = |value: usize| Ok(Some(PyValue::Int(value as i128)));
    match &**name {
        "index" => int(index + 1),
        "index0" => int(index),
        "revindex" => int(length - index),
        "revindex0" => int(length - index - 1),
        "length" => int(length),
        "depth" => int(inner.depth + 1),
        "depth0" => int(inner.depth),
        "first" => Ok(Some(PyValue::Bool(index == 0))),
        "last" => Ok(Some(PyValue::Bool(index + 1 == length))),
        "previtem" => Ok(Some(match index.checked_sub(1).and_then(|at| inner.items.get(at)) {
            Some(item) => item.clone(),
            None => PyValue::undefined("there is no previous item"),
        })),
        "nextitem" => Ok(Some(match inner.items.get(index + 1) {
            Some(item) => item.clone(),
            None => PyValue::undefined("there is no next item"),
        })),
        "cycle" | "changed" => Ok(Some(PyValue::Method(Rc::new((value.clone(), name.clone()))))),
        _ => Ok(None),
    }
}

fn macro_attribute(closure: &Closure, name: &str) -> Result<Option<PyValue>> {
    let definition = &closure.definition;
    Ok(Some(match name {
        "name" => definition.name.as_deref().map_or(Ok(PyValue::None), PyValue::text)?,
        "arguments" => {
            let names = definition.parameters.iter().map(|(name, _)| PyValue::text(&**name));
            // A list of Python that Jinja2 passes as a tuple.
            PyValue::tuple(names.collect::<Result<_>>()?)?
        }
        "catch_kwargs" => PyValue::Bool(definition.reads.kwargs),
        "catch_varargs" => PyValue::Bool(definition.reads.varargs),
        "caller" => PyValue::Bool(definition.reads.caller),
        _ => return Ok(None),
    }))
}
