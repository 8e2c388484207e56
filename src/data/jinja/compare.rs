//! Comparisons.

use std::{cmp::Ordering, rc::Rc};

use super::{
    ast::CompareOp,
    error::{Error, Result},
    float::exact_int,
    meter,
    number::Number,
    undefined::defined,
    value::{HashKey, PyValue, View},
};

/// An operator applied to two values.
pub(super) fn compare(comparison: CompareOp, left: &PyValue, right: &PyValue) -> Result<bool> {
    meter::step(1)?;
    match comparison {
        CompareOp::Equal => equal(left, right),
        CompareOp::NotEqual => Ok(!equal(left, right)?),
        CompareOp::In => contains(right, left),
        CompareOp::NotIn => Ok(!contains(right, left)?),
        _ => {
            let order = order(comparison, left, right)?;
            Ok(match (comparison, order) {
                (_, None) => false,
                (CompareOp::Less, Some(order)) => order == Ordering::Less,
                (CompareOp::LessEqual, Some(order)) => order != Ordering::Greater,
                (CompareOp::Greater, Some(order)) => order == Ordering::Greater,
                (_, Some(order)) => order != Ordering::Less,
            })
        }
    }
}

/// `left == right`.
pub(super) fn equal(left: &PyValue, right: &PyValue) -> Result<bool> {
    meter::step(1)?;
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(order_numbers(a, b) == Some(Ordering::Equal));
    }
    meter::deeper(|| {
        Ok(match (left, right) {
            (PyValue::Undefined(_), PyValue::Undefined(_)) | (PyValue::None, PyValue::None) => true,
            (PyValue::Text(a) | PyValue::Markup(a), PyValue::Text(b) | PyValue::Markup(b)) => {
                meter::read(a.text.len().min(b.text.len()))?;
                a.text == b.text
            }
            (PyValue::List(a), PyValue::List(b)) | (PyValue::Tuple(a), PyValue::Tuple(b)) => {
                a.items.len() == b.items.len() && all_equal(&a.items, &b.items)?
            }
            (PyValue::Dict(a), PyValue::Dict(b)) => {
                if a.items.len() != b.items.len() {
                    return Ok(false);
                }
                for (key, value) in &a.items {
                    match b.get(key)? {
                        Some(other) if equal(value, other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (PyValue::Range(a), PyValue::Range(b)) => {
                let length = a.len();
                let same_step = length <= 1 || a.step == b.step;
                length == b.len() && (length == 0 || a.start == b.start && same_step)
            }
            (PyValue::View(View::Values, a), PyValue::View(View::Values, b)) => Rc::ptr_eq(a, b),
            (PyValue::View(..), PyValue::View(..)) => {
                return Err(Error::unsupported("comparison of the views of dicts"));
            }
            (PyValue::Namespace(a), PyValue::Namespace(b)) => Rc::ptr_eq(a, b),
            (PyValue::Loop(a), PyValue::Loop(b)) => Rc::ptr_eq(a, b),
            (PyValue::Macro(a), PyValue::Macro(b)) => Rc::ptr_eq(a, b),
            (PyValue::Iterator(a), PyValue::Iterator(b)) => Rc::ptr_eq(a, b),
            (PyValue::Cycler(a), PyValue::Cycler(b)) => Rc::ptr_eq(a, b),
            (PyValue::Joiner(a), PyValue::Joiner(b)) => Rc::ptr_eq(a, b),
            (PyValue::Function(a), PyValue::Function(b)) => a == b,
            (PyValue::Method(_), PyValue::Method(_)) => {
                return Err(Error::unsupported("comparison of methods"));
            }
            _ => false,
        })
    })
}

fn all_equal(a: &[PyValue], b: &[PyValue]) -> Result<bool> {
    for (a, b) in a.iter().zip(b) {
        if !equal(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `item in container`.
pub(super) fn contains(container: &PyValue, item: &PyValue) -> Result<bool> {
    match container {
        PyValue::Undefined(_) => Ok(false),
        PyValue::Text(text) | PyValue::Markup(text) => match item {
            PyValue::Text(part) | PyValue::Markup(part) => {
                meter::read(text.text.len())?;
                Ok(text.text.contains(&part.text))
            }
            _ => {
                let found = item.type_name();
                Err(Error::new(format!("'in <string>' requires string as left operand, not {found}")))
            }
        },
        PyValue::Dict(dict) | PyValue::View(View::Keys, dict) => Ok(dict.get(item)?.is_some()),
        PyValue::Iterator(iterator) => {
            while let Some(found) = iterator.take() {
                if equal(&found, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        PyValue::Range(range) => {
            let Some(number) = Number::of(item) else { return Ok(false) };
            let int = match number {
                Number::Int(int) => int,
                Number::Float(float) => match exact_int(float) {
                    Some(int) => int,
                    None => return Ok(false),
                },
            };
            let inside = if range.step > 0 {
                (range.start..range.stop).contains(&int)
            } else {
                int <= range.start && int > range.stop
            };
            Ok(inside && (int - range.start) % range.step == 0)
        }
        PyValue::List(list) | PyValue::Tuple(list) => {
            for found in &list.items {
                if equal(found, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        PyValue::View(..) => {
            for found in container.items()? {
                if equal(&found, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(Error::new(format!("argument of type '{}' is not iterable", container.type_name()))),
    }
}

/// Whether two values are the same object.
///
/// # Errors
/// For equal values whose identity this interpreter does not model.
pub(super) fn is_same(a: &PyValue, b: &PyValue) -> Result<bool> {
    Ok(match (a, b) {
        (PyValue::None, PyValue::None) => true,
        (PyValue::Bool(a), PyValue::Bool(b)) => a == b,
        (PyValue::List(a), PyValue::List(b)) | (PyValue::Tuple(a), PyValue::Tuple(b)) => Rc::ptr_eq(a, b),
        (PyValue::Dict(a), PyValue::Dict(b)) => Rc::ptr_eq(a, b),
        (PyValue::Namespace(a), PyValue::Namespace(b)) => Rc::ptr_eq(a, b),
        _ if a.type_name() != b.type_name() || !equal(a, b)? => false,
        _ => return Err(Error::unsupported(format!("`sameas` of two objects of type '{}'", a.type_name()))),
    })
}

/// Order of two values; `None` if one is NaN.
pub(super) fn order(comparison: CompareOp, left: &PyValue, right: &PyValue) -> Result<Option<Ordering>> {
    meter::step(1)?;
    defined(left)?;
    defined(right)?;
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(order_numbers(a, b));
    }
    meter::deeper(|| match (left, right) {
        (PyValue::Text(a) | PyValue::Markup(a), PyValue::Text(b) | PyValue::Markup(b)) => {
            meter::read(a.text.len().min(b.text.len()))?;
            Ok(Some(a.text.cmp(&b.text)))
        }
        (PyValue::List(a), PyValue::List(b)) | (PyValue::Tuple(a), PyValue::Tuple(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(a, b)? {
                    return order(comparison, a, b);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        (PyValue::View(..), PyValue::View(..)) => Err(Error::unsupported("comparison of the views of dicts")),
        _ => {
            let symbol = comparison.symbol();
            let (left, right) = (left.type_name(), right.type_name());
            Err(Error::new(format!("'{symbol}' not supported between instances of '{left}' and '{right}'")))
        }
    })
}

fn order_numbers(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
        (Number::Int(a), Number::Float(b)) => order_mixed(a, b),
        (Number::Float(a), Number::Int(b)) => order_mixed(b, a).map(Ordering::reverse),
    }
}

fn order_mixed(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    match exact_int(float.floor()) {
        Some(floor) if floor == int && float.fract() != 0.0 => Some(Ordering::Less),
        Some(floor) => Some(int.cmp(&floor)),
        None => Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater }),
    }
}

/// Stable sort of items by their keys. The standard sorts do not support comparisons that may fail.
pub(super) fn sort(items: Vec<(PyValue, PyValue)>, reverse: Reverse) -> Result<Vec<PyValue>> {
    let mut runs: Vec<Vec<(PyValue, PyValue)>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut left = runs.into_iter();
        while let Some(run) = left.next() {
            merged.push(match left.next() {
                Some(next) => merge(run, next, reverse)?,
                None => run,
            });
        }
        runs = merged;
    }
    Ok(runs.into_iter().flatten().map(|(_, item)| item).collect())
}

fn merge(
    left: Vec<(PyValue, PyValue)>,
    right: Vec<(PyValue, PyValue)>,
    reverse: Reverse,
) -> Result<Vec<(PyValue, PyValue)>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        let order = order(CompareOp::Less, b, a)?.ok_or_else(|| Error::unsupported("sorting of NaN"))?;
        let right_first = match reverse {
            Reverse::No => order == Ordering::Less,
            Reverse::Yes => order == Ordering::Greater,
        };
        merged.extend(if right_first { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

/// Whether a sort is descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reverse {
    No,
    Yes,
}

/// Whether a value occurs among those with the keys `seen`; adds its key.
pub(super) fn is_new(seen: &mut std::collections::HashSet<HashKey>, key: &PyValue) -> Result<bool> {
    Ok(seen.insert(HashKey::of(key)?))
}
