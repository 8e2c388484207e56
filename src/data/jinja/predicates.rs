//! Tests, as in `value is defined`.

use super::{
    args::{Args, required},
    ast::{Comparison, Operator},
    compare,
    error::{Error, Result},
    methods, names, number, operators, print,
    value::Value,
};

/// A test without arguments.
type Test = fn(&Value) -> Result<bool>;

const TESTS: &[(&str, Test)] = &[
    ("boolean", |value| Ok(matches!(value, Value::Bool(_)))),
    ("callable", |value| Ok(is_callable(value))),
    ("defined", |value| Ok(!matches!(value, Value::Undefined(_)))),
    ("escaped", |value| Ok(matches!(value, Value::Markup(_)))),
    ("even", |value| Ok(remainder(value, 2)? == 0.0)),
    ("false", |value| Ok(matches!(value, Value::Bool(false)))),
    ("filter", |value| Ok(value.as_text().is_some_and(|name| names::is_filter(name)))),
    ("float", |value| Ok(matches!(value, Value::Float(_)))),
    ("integer", |value| Ok(matches!(value, Value::Int(_)))),
    ("iterable", |value| Ok(value.is_iterable())),
    ("lower", |value| Ok(methods::is_lower(&print::to_text(value)?))),
    ("mapping", |value| Ok(matches!(value, Value::Dict(_)))),
    ("none", |value| Ok(matches!(value, Value::None))),
    ("number", |value| Ok(number::Number::of(value).is_some())),
    ("odd", |value| Ok(remainder(value, 2)? == 1.0)),
    ("sequence", |value| Ok(is_sequence(value))),
    ("string", |value| Ok(matches!(value, Value::Text(_) | Value::Markup(_)))),
    ("test", |value| Ok(value.as_text().is_some_and(|name| find(name).is_some()))),
    ("true", |value| Ok(matches!(value, Value::Bool(true)))),
    ("undefined", |value| Ok(matches!(value, Value::Undefined(_)))),
    ("upper", |value| Ok(methods::is_upper(&print::to_text(value)?))),
];

/// Tests that compare with an argument.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessEqual),
    ("==", Comparison::Equal),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterEqual),
    ("eq", Comparison::Equal),
    ("equalto", Comparison::Equal),
    ("ge", Comparison::GreaterEqual),
    ("greaterthan", Comparison::Greater),
    ("gt", Comparison::Greater),
    ("in", Comparison::In),
    ("le", Comparison::LessEqual),
    ("lessthan", Comparison::Less),
    ("lt", Comparison::Less),
    ("ne", Comparison::NotEqual),
];

/// What a test does.
#[derive(Clone, Copy)]
pub enum Kind {
    Plain(Test),
    Comparison(Comparison),
    DivisibleBy,
    SameAs,
}

/// The test of a name.
pub fn find(name: &str) -> Option<Kind> {
    match name {
        "divisibleby" => return Some(Kind::DivisibleBy),
        "sameas" => return Some(Kind::SameAs),
        _ => {}
    }
    if let Ok(at) = TESTS.binary_search_by_key(&name, |(known, _)| known) {
        return Some(Kind::Plain(TESTS[at].1));
    }
    let at = COMPARISONS.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(Kind::Comparison(COMPARISONS[at].1))
}

/// `input is name(*args)`.
pub fn apply(name: &str, input: &Value, args: Args) -> Result<bool> {
    let kind = find(name).ok_or_else(|| Error::new(format!("No test named '{name}' found.")))?;
    if let Kind::Plain(test) = kind {
        args.none(name)?;
        return test(input);
    }
    let [other] = args.bind(name, [if matches!(kind, Kind::DivisibleBy) { "num" } else { "other" }])?;
    let other = required(other, name, "other")?;
    match kind {
        Kind::Comparison(comparison) => compare::compare(comparison, input, &other),
        Kind::SameAs => compare::is_same(input, &other),
        Kind::DivisibleBy | Kind::Plain(_) => {
            let rest = operators::binary(Operator::Modulo, input, &other)?;
            compare::equal(&rest, &Value::Int(0))
        }
    }
}

fn remainder(value: &Value, divisor: i128) -> Result<f64> {
    let rest = operators::binary(Operator::Modulo, value, &Value::Int(divisor))?;
    // Text is formatted, which equals no number.
    Ok(number::Number::of(&rest).map_or(f64::NAN, number::Number::to_f64))
}

fn is_sequence(value: &Value) -> bool {
    match value {
        Value::View(..) | Value::Loop(_) => false,
        _ => value.len().is_some(),
    }
}

fn is_callable(value: &Value) -> bool {
    matches!(
        value,
        Value::Undefined(_)
            | Value::Loop(_)
            | Value::Macro(_)
            | Value::Function(_)
            | Value::Method(_)
            | Value::Joiner(_)
    )
}
