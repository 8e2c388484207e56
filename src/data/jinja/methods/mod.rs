//! Methods of Python's types.

mod text;

mod case;

mod split;

use super::{
    args::{Args, bounds, required},
    compare,
    error::{Error, Result},
    value::{PyValue, View},
};

pub(super) use case::{capitalize, is_lower, is_upper, lower, upper};
pub(super) use split::{Ends, TextSide, lines, split_on_spaces, strip};
pub(super) use text::{center, replace};

/// `object.name(*args)`, for one of the names that [`names::methods`](super::names) returns.
pub(super) fn call(object: &PyValue, name: &str, args: Args) -> Result<PyValue> {
    match object {
        PyValue::Text(text) => text::call(text, name, args),
        PyValue::Dict(dict) => match name {
            "get" => {
                let [key, default] = args.bind_positional("get")?;
                let key = required(key, "get", "key")?;
                Ok(dict.get(&key)?.cloned().or(default).unwrap_or(PyValue::None))
            }
            "copy" => {
                args.none("copy")?;
                Ok(object.clone())
            }
            "items" | "keys" | "values" => {
                args.none(name)?;
                let view = match name {
                    "items" => View::Items,
                    "keys" => View::Keys,
                    _ => View::Values,
                };
                Ok(PyValue::View(view, dict.clone()))
            }
            _ => unsupported(object, name),
        },
        PyValue::List(_) | PyValue::Tuple(_) | PyValue::Range(_) => match name {
            "copy" => {
                args.none("copy")?;
                PyValue::list(object.items()?)
            }
            "count" => {
                let [item] = args.bind_positional("count")?;
                let item = required(item, "count", "value")?;
                let mut count = 0;
                for found in object.items()? {
                    count += i128::from(compare::equal(&found, &item)?);
                }
                Ok(PyValue::Int(count))
            }
            "index" => {
                let [item, start, stop] = args.bind_positional("index")?;
                let item = required(item, "index", "value")?;
                let items = object.items()?;
                let (start, stop) = bounds(items.len(), start, stop)?;
                for (at, found) in items.iter().enumerate().take(stop).skip(start) {
                    if compare::equal(found, &item)? {
                        return Ok(PyValue::Int(at as i128));
                    }
                }
                Err(Error::new(format!("{} is not in list", super::print::to_repr(&item)?)))
            }
            _ => unsupported(object, name),
        },
        PyValue::Int(_) | PyValue::Bool(_) => number_method(object, name, args),
        PyValue::Float(value) if name == "is_integer" => {
            args.none(name)?;
            Ok(PyValue::Bool(value.is_finite() && value.fract() == 0.0))
        }
        PyValue::Float(_) if name == "conjugate" => Ok(object.clone()),
        _ => unsupported(object, name),
    }
}

fn number_method(object: &PyValue, name: &str, args: Args) -> Result<PyValue> {
    let size = object.as_int().unwrap_or(0).unsigned_abs();
    let result = match name {
        "bit_length" => i128::from(u128::BITS - size.leading_zeros()),
        "bit_count" => i128::from(size.count_ones()),
        "conjugate" => object.as_int().unwrap_or(0),
        _ => return unsupported(object, name),
    };
    args.none(name)?;
    Ok(PyValue::Int(result))
}

fn unsupported(object: &PyValue, name: &str) -> Result<PyValue> {
    Err(Error::unsupported(format!("the method '{name}' of '{}'", object.type_name())))
}
