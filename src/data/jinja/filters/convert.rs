//! Filters of numbers, and between types.

use crate::data::jinja::{
    args::{self, Args, int_or, is_true, required},
    attribute,
    error::{Error, Result},
    float::truncated,
    number::{self, Number},
    print,
    undefined::{defined, undefined_error},
    unicode,
    value::PyValue,
};

pub(super) fn abs(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("abs")?;
    number::absolute(&value)
}

pub(super) fn string(value: PyValue, args: Args) -> Result<PyValue> {
    args.none("string")?;
    // `soft_str` leaves marked text as it is.
    if let PyValue::Markup(_) = value { Ok(value) } else { print::to_value(&value) }
}

pub(super) fn default(value: PyValue, args: Args) -> Result<PyValue> {
    let [default, boolean] = args.bind("default", ["default_value", "boolean"])?;
    if matches!(value, PyValue::Undefined(_)) || is_true(boolean) && !value.is_true() {
        return default.map_or_else(|| PyValue::text(""), Ok);
    }
    Ok(value)
}

pub(super) fn attr(value: PyValue, args: Args) -> Result<PyValue> {
    let [name] = args.bind("attr", ["name"])?;
    let name = args::text(&required(name, "attr", "name")?, "attr")?;
    attribute::only_attribute(&value, &name.into())
}

pub(super) fn round(value: PyValue, args: Args) -> Result<PyValue> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let precision = int_or(precision, 0)?;
    let method = method.map_or(Ok("common".to_owned()), |method| args::text(&method, "round"))?;
    let towards = match method.as_str() {
        "common" => return number::round(&value, precision),
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        _ => return Err(Error::new("method must be common, ceil or floor")),
    };
    defined(&value)?;
    let number = Number::of(&value);
    let number =
        number.ok_or_else(|| Error::new(format!("must be real number, not {}", value.type_name())))?;
    if !(0..=22).contains(&precision) {
        return Err(Error::unsupported("rounding up or down with that precision"));
    }
    let unit = 10_f64.powi(precision as i32);
    let rounded = towards(number.to_f64() * unit);
    if !rounded.is_finite() || rounded.abs() > 9e15 {
        return Err(Error::unsupported("rounding so large a number up or down"));
    }
    // Python rounds to an integer, which has no negative zero.
    Ok(PyValue::Float((rounded + 0.0) / unit))
}

pub(super) fn int(value: PyValue, args: Args) -> Result<PyValue> {
    let [default, base] = args.bind("int", ["default", "base"])?;
    let base = int_or(base, 10)?;
    let default = default.unwrap_or(PyValue::Int(0));
    let beyond = || Error::unsupported("an integer beyond 128 bits");
    match &value {
        PyValue::Undefined(undefined) => Err(undefined_error(undefined)),
        PyValue::Float(float) if float.is_infinite() => {
            // `int(value)` raises an error that the filter does not catch.
            Err(Error::new("cannot convert float infinity to integer"))
        }
        PyValue::Float(float) if float.is_nan() => Ok(default),
        PyValue::Float(float) => truncated(*float).map(PyValue::Int).ok_or_else(beyond),
        PyValue::Text(text) => {
            if let Some(int) = parse_int(&text.text, base)? {
                return Ok(PyValue::Int(int));
            }
            match parse_float(&text.text)? {
                Some(float) if float.is_finite() => truncated(float).map(PyValue::Int).ok_or_else(beyond),
                _ => Ok(default),
            }
        }
        other => Ok(other.as_int().map_or(default, PyValue::Int)),
    }
}

pub(super) fn float(value: PyValue, args: Args) -> Result<PyValue> {
    let [default] = args.bind("float", ["default"])?;
    let default = default.unwrap_or(PyValue::Float(0.0));
    match &value {
        PyValue::Undefined(undefined) => Err(undefined_error(undefined)),
        PyValue::Text(text) => Ok(parse_float(&text.text)?.map_or(default, PyValue::Float)),
        other => Ok(Number::of(other).map_or(default, |number| PyValue::Float(number.to_f64()))),
    }
}

/// The digits of a number, without the whitespace around it and the underscores that Python allows.
fn digits(text: &str) -> Result<Option<String>> {
    let trimmed = text.trim_matches(unicode::is_space);
    if let Some(digit) = trimmed.chars().find(|c| !c.is_ascii() && unicode::is_decimal(*c)) {
        return Err(Error::unsupported(format!("the digit {digit:?} in a number")));
    }
    let bytes = trimmed.as_bytes();
    for (at, _) in trimmed.match_indices('_') {
        let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        if at == 0 || !digit(bytes.get(at - 1)) || !digit(bytes.get(at + 1)) {
            return Ok(None);
        }
    }
    Ok(Some(trimmed.replace('_', "")))
}

/// `int(text, base)`; `None` if the text is no integer.
fn parse_int(text: &str, base: i128) -> Result<Option<i128>> {
    let Some(digits) = digits(text)? else { return Ok(None) };
    let base = match u32::try_from(base) {
        Ok(base) if base == 0 || (2..=36).contains(&base) => base,
        _ => return Ok(None),
    };
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    let prefix = unsigned.get(..2).map(str::to_ascii_lowercase);
    let (base, unsigned) = match (prefix.as_deref(), base) {
        (Some("0x"), 0 | 16) => (16, &unsigned[2..]),
        (Some("0o"), 0 | 8) => (8, &unsigned[2..]),
        (Some("0b"), 0 | 2) => (2, &unsigned[2..]),
        (_, 0) if unsigned.starts_with('0') && unsigned.bytes().any(|byte| byte != b'0') => return Ok(None),
        (_, 0) => (10, unsigned),
        (_, base) => (base, unsigned),
    };
    if unsigned.is_empty() || !unsigned.chars().all(|c| c.is_digit(base)) {
        return Ok(None);
    }
    let sign = if digits.starts_with('-') { "-" } else { "" };
    match i128::from_str_radix(&format!("{sign}{unsigned}"), base) {
        Ok(int) => Ok(Some(int)),
        Err(_) => Err(Error::unsupported("an integer beyond 128 bits")),
    }
}

/// `float(text)`; `None` if the text is no number.
fn parse_float(text: &str) -> Result<Option<f64>> {
    let Some(digits) = digits(text)? else { return Ok(None) };
    // Rust takes the same spellings, but for an underscore.
    Ok(digits.parse().ok())
}

pub(super) fn filesizeformat(value: PyValue, args: Args) -> Result<PyValue> {
    let [binary] = args.bind("filesizeformat", ["binary"])?;
    let PyValue::Float(bytes) = float(value, Args { positional: vec![PyValue::None], named: Vec::new() })?
    else {
        return Err(Error::new("could not convert the value to float"));
    };
    let binary = is_true(binary);
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return PyValue::text("1 Byte");
    }
    if bytes < base {
        let whole = truncated(bytes).ok_or_else(|| Error::unsupported("so large a file size"))?;
        return PyValue::text(format!("{whole} Bytes"));
    }
    let prefixes = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut power = 2;
    while power < 9 && bytes >= base.powi(power) {
        power += 1;
    }
    let prefix = prefixes[usize::try_from(power).unwrap_or(2) - 2];
    let prefix = if binary { format!("{}i", prefix.to_uppercase()) } else { prefix.to_owned() };
    PyValue::text(format!("{:.1} {prefix}B", base * bytes / base.powi(power)))
}
