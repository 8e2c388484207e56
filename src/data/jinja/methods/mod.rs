//! Methods of Python's types.

mod text;

mod case;

mod split;

use super::{
    Error, Result,
    args::{Args, required},
    compare,
    value::{Value, View},
};

pub use case::{capitalize, is_lower, is_upper, lower, upper};
pub use split::{Ends, Side, lines, split_on_spaces, strip};
pub use text::{center, replace};

/// Methods of `str`.
pub const TEXT: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

const DICT: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const DICT_MUTATING: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const LIST: [&str; 3] = ["copy", "count", "index"];
const LIST_MUTATING: [&str; 8] = ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const SEQUENCE: [&str; 2] = ["count", "index"];
const INT: [&str; 6] = ["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"];
const FLOAT: [&str; 5] = ["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];
const GENERATOR: [&str; 7] = ["close", "gi_code", "gi_frame", "gi_running", "gi_yieldfrom", "send", "throw"];

/// Methods that a value has: those that templates may call, and those that would change it.
pub fn names(value: &Value) -> (&'static [&'static str], &'static [&'static str]) {
    match value {
        Value::Text(_) | Value::Markup(_) => (&TEXT, &[]),
        Value::Dict(_) => (&DICT, &DICT_MUTATING),
        Value::List(_) => (&LIST, &LIST_MUTATING),
        Value::Tuple(_) | Value::Range(_) => (&SEQUENCE, &[]),
        Value::Int(_) | Value::Bool(_) => (&INT, &[]),
        Value::Float(_) => (&FLOAT, &[]),
        Value::View(View::Keys | View::Items, _) => (&["isdisjoint"], &[]),
        Value::Iterator(iterator) if iterator.kind == "generator" => (&GENERATOR, &[]),
        Value::Cycler(_) => (&["next", "reset"], &[]),
        _ => (&[], &[]),
    }
}

/// `object.name(*args)`, for one of the names that [`names`] gives.
pub fn call(object: &Value, name: &str, args: Args) -> Result<Value> {
    match object {
        Value::Text(text) => text::call(text, name, args),
        Value::Dict(dict) => match name {
            "get" => {
                let [key, default] = args.bind_positional("get")?;
                let key = required(key, "get", "key")?;
                Ok(dict.get(&key)?.cloned().or(default).unwrap_or(Value::None))
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
                Ok(Value::View(view, dict.clone()))
            }
            _ => unsupported(object, name),
        },
        Value::List(_) | Value::Tuple(_) | Value::Range(_) => match name {
            "copy" => {
                args.none("copy")?;
                Value::list(object.items()?)
            }
            "count" => {
                let [item] = args.bind_positional("count")?;
                let item = required(item, "count", "value")?;
                let mut count = 0;
                for found in object.items()? {
                    count += i128::from(compare::equal(&found, &item)?);
                }
                Ok(Value::Int(count))
            }
            "index" => {
                let [item, start, stop] = args.bind_positional("index")?;
                let item = required(item, "index", "value")?;
                let items = object.items()?;
                let (start, stop) = bounds(items.len(), start, stop)?;
                for (at, found) in items.iter().enumerate().take(stop).skip(start) {
                    if compare::equal(found, &item)? {
                        return Ok(Value::Int(at as i128));
                    }
                }
                Err(Error::new(format!("{} is not in list", super::print::to_repr(&item)?)))
            }
            _ => unsupported(object, name),
        },
        Value::Int(_) | Value::Bool(_) => number_method(object, name, args),
        Value::Float(value) if name == "is_integer" => {
            args.none(name)?;
            Ok(Value::Bool(value.is_finite() && value.fract() == 0.0))
        }
        Value::Float(_) if name == "conjugate" => Ok(object.clone()),
        _ => unsupported(object, name),
    }
}

fn number_method(object: &Value, name: &str, args: Args) -> Result<Value> {
    let size = object.as_int().unwrap_or(0).unsigned_abs();
    let result = match name {
        "bit_length" => i128::from(u128::BITS - size.leading_zeros()),
        "bit_count" => i128::from(size.count_ones()),
        "conjugate" => object.as_int().unwrap_or(0),
        _ => return unsupported(object, name),
    };
    args.none(name)?;
    Ok(Value::Int(result))
}

fn unsupported(object: &Value, name: &str) -> Result<Value> {
    Err(Error::unsupported(format!("the method '{name}' of '{}'", object.type_name())))
}

/// The bounds `start` and `stop` of a search in `length` items.
fn bounds(length: usize, start: Option<Value>, stop: Option<Value>) -> Result<(usize, usize)> {
    let bound = |value: Option<Value>, default: usize| -> Result<usize> {
        let Some(value) = value.filter(|value| !matches!(value, Value::None)) else { return Ok(default) };
        let index = super::args::int(&value)?;
        let index = if index < 0 { (index + length as i128).max(0) } else { index };
        Ok(usize::try_from(index).unwrap_or(usize::MAX))
    };
    Ok((bound(start, 0)?, bound(stop, length)?.min(length)))
}
