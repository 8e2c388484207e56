//! Jinja tests, as in `value is defined`.

use super::{
    args::{Args, required},
    ast::{BinaryOp, CompareOp},
    compare,
    error::{Error, Result},
    methods, names, number, operators, print,
    value::PyValue,
};

/// A test without arguments.
type Test = fn(&PyValue) -> Result<bool>;

const TESTS: &[(&str, Test)] = &[
    ("boolean", |value| Ok(matches!(value, PyValue::Bool(_)))),
    ("callable", |value| Ok(is_callable(value))),
    ("defined", |value| Ok(!matches!(value, PyValue::Undefined(_)))),
    ("escaped", |value| Ok(matches!(value, PyValue::Markup(_)))),
    ("even", |value| Ok(remainder(value, 2)? == 0.0)),
    ("false", |value| Ok(matches!(value, PyValue::Bool(false)))),
    ("filter", |value| Ok(value.as_text().is_some_and(names::is_filter))),
    ("float", |value| Ok(matches!(value, PyValue::Float(_)))),
    ("integer", |value| Ok(matches!(value, PyValue::Int(_)))),
    ("iterable", |value| Ok(value.is_iterable())),
    ("lower", |value| Ok(methods::is_lower(&print::to_text(value)?))),
    ("mapping", |value| Ok(matches!(value, PyValue::Dict(_)))),
    ("none", |value| Ok(matches!(value, PyValue::None))),
    ("number", |value| Ok(number::Number::of(value).is_some())),
    ("odd", |value| Ok(remainder(value, 2)? == 1.0)),
    ("sequence", |value| Ok(is_sequence(value))),
    ("string", |value| Ok(matches!(value, PyValue::Text(_) | PyValue::Markup(_)))),
    ("test", |value| Ok(value.as_text().is_some_and(|name| find(name).is_some()))),
    ("true", |value| Ok(matches!(value, PyValue::Bool(true)))),
    ("undefined", |value| Ok(matches!(value, PyValue::Undefined(_)))),
    ("upper", |value| Ok(methods::is_upper(&print::to_text(value)?))),
];

/// Tests that compare with an argument.
const COMPARISONS: &[(&str, CompareOp)] = &[
    ("!=", CompareOp::NotEqual),
    ("<", CompareOp::Less),
    ("<=", CompareOp::LessEqual),
    ("==", CompareOp::Equal),
    (">", CompareOp::Greater),
    (">=", CompareOp::GreaterEqual),
    ("eq", CompareOp::Equal),
    ("equalto", CompareOp::Equal),
    ("ge", CompareOp::GreaterEqual),
    ("greaterthan", CompareOp::Greater),
    ("gt", CompareOp::Greater),
    ("in", CompareOp::In),
    ("le", CompareOp::LessEqual),
    ("lessthan", CompareOp::Less),
    ("lt", CompareOp::Less),
    ("ne", CompareOp::NotEqual),
];

/// Kinds of tests.
#[derive(Clone, Copy)]
pub(super) enum TestKind {
    Plain(Test),
    Comparison(CompareOp),
    DivisibleBy,
    SameAs,
}

/// The test of a name.
pub(super) fn find(name: &str) -> Option<TestKind> {
    match name {
        "divisibleby" => return Some(TestKind::DivisibleBy),
        "sameas" => return Some(TestKind::SameAs),
        _ => {}
    }
    if let Ok(at) = TESTS.binary_search_by_key(&name, |(known, _)| known) {
        return Some(TestKind::Plain(TESTS[at].1));
    }
    let at = COMPARISONS.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(TestKind::Comparison(COMPARISONS[at].1))
}

/// `input is name(*args)`.
pub(super) fn apply(name: &str, input: &PyValue, args: Args) -> Result<bool> {
    let kind = find(name).ok_or_else(|| Error::new(format!("No test named '{name}' found.")))?;
    if let TestKind::Plain(test) = kind {
        args.none(name)?;
        return test(input);
    }
    let [other] = args.bind(name, [if matches!(kind, TestKind::DivisibleBy) { "num" } else { "other" }])?;
    let other = required(other, name, "other")?;
    match kind {
        TestKind::Comparison(comparison) => compare::compare(comparison, input, &other),
        TestKind::SameAs => compare::is_same(input, &other),
        TestKind::DivisibleBy | TestKind::Plain(_) => {
            let rest = operators::binary(BinaryOp::Modulo, input, &other)?;
            compare::equal(&rest, &PyValue::Int(0))
        }
    }
}

fn remainder(value: &PyValue, divisor: i128) -> Result<f64> {
    let rest = operators::binary(BinaryOp::Modulo, value, &PyValue::Int(divisor))?;
    // Text is formatted, which equals no number.
    Ok(number::Number::of(&rest).map_or(f64::NAN, number::Number::to_f64))
}

fn is_sequence(value: &PyValue) -> bool {
    match value {
        PyValue::View(..) | PyValue::Loop(_) => false,
        _ => value.len().is_some(),
    }
}

fn is_callable(value: &PyValue) -> bool {
    matches!(
        value,
        PyValue::Undefined(_)
            | PyValue::Loop(_)
            | PyValue::Macro(_)
            | PyValue::Function(_)
            | PyValue::Method(_)
            | PyValue::Joiner(_)
    )
}
