//! Binary operators.

use super::{
    ast::Operator,
    error::{Error, Result},
    meter,
    number::{Number, arithmetic},
    printf,
    undefined::defined,
    value::Value,
};

/// An operator applied to two values.
pub fn binary(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    meter::step(1)?;
    if let (Operator::Modulo, Value::Text(format)) = (operator, left) {
        return printf::format(&format.text, right);
    }
    defined(left)?;
    defined(right)?;
    for value in [left, right] {
        if let Value::Markup(_) = value {
            let symbol = operator.symbol();
            return Err(Error::unsupported(format!("'{symbol}' on text that `escape` or `safe` returned")));
        }
    }
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return arithmetic(operator, a, b);
    }
    match operator {
        Operator::Add => add(left, right),
        Operator::Multiply => multiply(left, right),
        _ => Err(unsupported_operands(operator, left, right)),
    }
}

fn unsupported_operands(operator: Operator, left: &Value, right: &Value) -> Error {
    let symbol = operator.symbol();
    let (left, right) = (left.type_name(), right.type_name());
    Error::new(format!("unsupported operand type(s) for {symbol}: '{left}' and '{right}'"))
}

fn add(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => {
            let mut out = meter::Writer::default();
            out.push(&a.text)?;
            out.push(&b.text)?;
            Value::written(out)
        }
        (Value::Text(_), _) => {
            let found = right.type_name();
            Err(Error::new(format!("can only concatenate str (not \"{found}\") to str")))
        }
        (Value::List(a), Value::List(b)) => Value::list([&a.items[..], &b.items[..]].concat()),
        (Value::Tuple(a), Value::Tuple(b)) => Value::tuple([&a.items[..], &b.items[..]].concat()),
        (Value::List(_) | Value::Tuple(_), _) => {
            let (kind, found) = (left.type_name(), right.type_name());
            Err(Error::new(format!("can only concatenate {kind} (not \"{found}\") to {kind}")))
        }
        _ => Err(unsupported_operands(Operator::Add, left, right)),
    }
}

fn multiply(left: &Value, right: &Value) -> Result<Value> {
    let (sequence, count) = match (left.as_int(), right.as_int()) {
        (None, Some(count)) => (left, count),
        (Some(count), None) => (right, count),
        _ => (left, 0),
    };
    let times = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    let is_counted = left.as_int().is_some() || right.as_int().is_some();
    match sequence {
        Value::Text(text) if is_counted => {
            let mut out = meter::Writer::default();
            out.repeat(&text.text, times)?;
            Value::written(out)
        }
        Value::List(list) | Value::Tuple(list) if is_counted => {
            let length = list.items.len().saturating_mul(times);
            // Counted before the items are copied.
            drop(meter::Charge::of(length.saturating_mul(48))?);
            let items: Vec<Value> = std::iter::repeat_n(&list.items, times).flatten().cloned().collect();
            if matches!(sequence, Value::List(_)) { Value::list(items) } else { Value::tuple(items) }
        }
        _ if matches!(left, Value::Text(_) | Value::List(_) | Value::Tuple(_)) => {
            let found = right.type_name();
            Err(Error::new(format!("can't multiply sequence by non-int of type '{found}'")))
        }
        _ if matches!(right, Value::Text(_) | Value::List(_) | Value::Tuple(_)) => {
            let found = left.type_name();
            Err(Error::new(format!("can't multiply sequence by non-int of type '{found}'")))
        }
        _ => Err(unsupported_operands(Operator::Multiply, left, right)),
    }
}

/// `sum(values, start)`.
pub fn sum(values: &[Value], start: Value) -> Result<Value> {
    if let Value::Text(_) = start {
        return Err(Error::new("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    values.iter().try_fold(start, |sum, value| binary(Operator::Add, &sum, value))
}
