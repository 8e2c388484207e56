//! Binary operators.

use super::{
    ast::BinaryOp,
    error::{Error, Result},
    meter,
    number::{Number, arithmetic},
    printf,
    undefined::defined,
    value::PyValue,
};

/// An operator applied to two values.
pub(super) fn binary(operator: BinaryOp, left: &PyValue, right: &PyValue) -> Result<PyValue> {
    meter::step(1)?;
    if let (BinaryOp::Modulo, PyValue::Text(format)) = (operator, left) {
        return printf::format(&format.text, right);
    }
    defined(left)?;
    defined(right)?;
    for value in [left, right] {
        if let PyValue::Markup(_) = value {
            let symbol = operator.symbol();
            return Err(Error::unsupported(format!("'{symbol}' on text that `escape` or `safe` returned")));
        }
    }
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return arithmetic(operator, a, b);
    }
    match operator {
        BinaryOp::Add => add(left, right),
        BinaryOp::Multiply => multiply(left, right),
        _ => Err(unsupported_operands(operator, left, right)),
    }
}

fn unsupported_operands(operator: BinaryOp, left: &PyValue, right: &PyValue) -> Error {
    let symbol = operator.symbol();
    let (left, right) = (left.type_name(), right.type_name());
    Error::new(format!("unsupported operand type(s) for {symbol}: '{left}' and '{right}'"))
}

fn add(left: &PyValue, right: &PyValue) -> Result<PyValue> {
    match (left, right) {
        (PyValue::Text(a), PyValue::Text(b)) => {
            let mut out = meter::Writer::default();
            out.push(&a.text)?;
            out.push(&b.text)?;
            PyValue::written(out)
        }
        (PyValue::Text(_), _) => {
            let found = right.type_name();
            Err(Error::new(format!("can only concatenate str (not \"{found}\") to str")))
        }
        (PyValue::List(a), PyValue::List(b)) => PyValue::list([&a.items[..], &b.items[..]].concat()),
        (PyValue::Tuple(a), PyValue::Tuple(b)) => PyValue::tuple([&a.items[..], &b.items[..]].concat()),
        (PyValue::List(_) | PyValue::Tuple(_), _) => {
            let (kind, found) = (left.type_name(), right.type_name());
            Err(Error::new(format!("can only concatenate {kind} (not \"{found}\") to {kind}")))
        }
        _ => Err(unsupported_operands(BinaryOp::Add, left, right)),
    }
}

fn multiply(left: &PyValue, right: &PyValue) -> Result<PyValue> {
    let (sequence, count) = match (left.as_int(), right.as_int()) {
        (None, Some(count)) => (left, count),
        (Some(count), None) => (right, count),
        _ => (left, 0),
    };
    let times = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    let is_counted = left.as_int().is_some() || right.as_int().is_some();
    match sequence {
        PyValue::Text(text) if is_counted => {
            let mut out = meter::Writer::default();
            out.repeat(&text.text, times)?;
            PyValue::written(out)
        }
        PyValue::List(list) | PyValue::Tuple(list) if is_counted => {
            let length = list.items.len().saturating_mul(times);
            // Counted before the items are copied.
            drop(meter::Charge::of(length.saturating_mul(48))?);
            let items: Vec<PyValue> = std::iter::repeat_n(&list.items, times).flatten().cloned().collect();
            if matches!(sequence, PyValue::List(_)) { PyValue::list(items) } else { PyValue::tuple(items) }
        }
        _ if matches!(left, PyValue::Text(_) | PyValue::List(_) | PyValue::Tuple(_)) => {
            let found = right.type_name();
            Err(Error::new(format!("can't multiply sequence by non-int of type '{found}'")))
        }
        _ if matches!(right, PyValue::Text(_) | PyValue::List(_) | PyValue::Tuple(_)) => {
            let found = left.type_name();
            Err(Error::new(format!("can't multiply sequence by non-int of type '{found}'")))
        }
        _ => Err(unsupported_operands(BinaryOp::Multiply, left, right)),
    }
}

/// `sum(values, start)`.
pub(super) fn sum(values: &[PyValue], start: PyValue) -> Result<PyValue> {
    if let PyValue::Text(_) = start {
        return Err(Error::new("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    values.iter().try_fold(start, |sum, value| binary(BinaryOp::Add, &sum, value))
}
