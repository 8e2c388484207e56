//! Items and slices of sequences and dicts.

use super::{
    error::{Error, Result},
    meter,
    undefined::undefined_error,
    value::PyValue,
};

/// `value[key]` as Python evaluates it; `None` where that raises a `TypeError` or a `LookupError`.
pub(super) fn item(value: &PyValue, key: &PyValue) -> Result<Option<PyValue>> {
    match value {
        PyValue::Dict(dict) => match dict.get(key) {
            Ok(found) => Ok(found.cloned()),
            // Unhashable keys are missing ones.
            Err(_) if matches!(key, PyValue::List(_) | PyValue::Dict(_) | PyValue::View(..)) => Ok(None),
            Err(error) => Err(error),
        },
        PyValue::List(list) | PyValue::Tuple(list) => {
            let at = key.as_int().and_then(|index| position(index, list.items.len()));
            Ok(at.map(|at| list.items[at].clone()))
        }
        PyValue::Text(text) => {
            let Some(at) = key.as_int().and_then(|index| position(index, text.chars)) else {
                return Ok(None);
            };
            if text.chars == text.text.len() {
                return PyValue::text(&text.text[at..=at]).map(Some);
            }
            meter::read(text.text.len())?;
            text.text.chars().nth(at).map(PyValue::text).transpose()
        }
        PyValue::Range(range) => {
            let at = key.as_int().and_then(|index| position(index, range.len()));
            Ok(at.map(|at| PyValue::Int(range.start + range.step * at as i128)))
        }
        PyValue::Markup(_) => Err(Error::unsupported("items of text that `escape` or `safe` returned")),
        _ => Ok(None),
    }
}

fn position(index: i128, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i128 } else { index };
    usize::try_from(index).ok().filter(|&index| index < length)
}

/// `value[start:stop:step]`.
pub(super) fn slice(value: &PyValue, bounds: [PyValue; 3]) -> Result<PyValue> {
    if let PyValue::Undefined(undefined) = value {
        return Err(undefined_error(undefined));
    }
    let bound = |value: &PyValue| match value {
        PyValue::None => Ok(None),
        PyValue::Undefined(_) => {
            Err(Error::new("slice indices must be integers or None or have an __index__ method"))
        }
        _ => match value.as_int() {
            Some(int) => Ok(Some(int)),
            None => Err(Error::new("slice indices must be integers or None or have an __index__ method")),
        },
    };
    let length = match value {
        PyValue::Text(_) | PyValue::List(_) | PyValue::Tuple(_) | PyValue::Range(_) => {
            value.len().unwrap_or(0)
        }
        PyValue::Dict(_) => return Err(Error::new("unhashable type: 'slice'")),
        PyValue::Markup(_) => {
            return Err(Error::unsupported("slices of text that `escape` or `safe` returned"));
        }
        _ => {
            return Err(Error::new(format!("'{}' object is not subscriptable", value.type_name())));
        }
    };
    let [start, stop, step] = [bound(&bounds[0])?, bound(&bounds[1])?, bound(&bounds[2])?];
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new("slice step cannot be zero"));
    }
    let positions = positions(length as i128, start, stop, step);
    meter::step(positions.len())?;
    match value {
        PyValue::List(list) => PyValue::list(positions.iter().map(|&at| list.items[at].clone()).collect()),
        PyValue::Tuple(list) => PyValue::tuple(positions.iter().map(|&at| list.items[at].clone()).collect()),
        PyValue::Text(text) => {
            meter::read(text.text.len())?;
            if step == 1 {
                let bytes =
                    |at: usize| text.text.char_indices().nth(at).map_or(text.text.len(), |(at, _)| at);
                let Some((&first, &last)) = positions.first().zip(positions.last()) else {
                    return PyValue::text("");
                };
                return PyValue::text(&text.text[bytes(first)..bytes(last + 1)]);
            }
            let chars: Vec<char> = text.text.chars().collect();
            PyValue::text(positions.iter().map(|&at| chars[at]).collect::<String>())
        }
        _ => Err(Error::unsupported("slices of a range")),
    }
}

/// The positions that a slice takes.
fn positions(length: i128, start: Option<i128>, stop: Option<i128>, step: i128) -> Vec<usize> {
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i128| if bound < 0 { (bound + length).max(low) } else { bound.min(high) };
    let start = start.map_or(if step > 0 { low } else { high }, clamp);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
    let mut positions = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        positions.extend(usize::try_from(at).ok());
        at = at.saturating_add(step);
    }
    positions
}
