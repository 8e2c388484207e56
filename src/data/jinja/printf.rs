//! `format % values`.

use super::{
    error::{Error, Result},
    float,
    meter::Writer,
    number::Number,
    print,
    undefined::defined,
    value::PyValue,
};

/// A conversion: `%(key)-10.3f`.
#[derive(Default)]
struct Conversion {
    alternate: bool,
    zero: bool,
    left: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

/// The arguments of a format string.
struct Values<'a> {
    all: &'a PyValue,
    /// The values in their order.
    positional: Vec<PyValue>,
    next: usize,
}

impl Values<'_> {
    fn take(&mut self) -> Result<PyValue> {
        self.next += 1;
        let value = self.positional.get(self.next - 1).cloned();
        value.ok_or_else(|| Error::new("not enough arguments for format string"))
    }

    fn named(&mut self, key: &str) -> Result<PyValue> {
        let PyValue::Dict(dict) = self.all else { return Err(Error::new("format requires a mapping")) };
        let value = dict.get_text(key).cloned();
        value.ok_or_else(|| Error::new(print::repr_text(key)))
    }

    fn size(&mut self) -> Result<i128> {
        self.take()?.as_int().ok_or_else(|| Error::new("* wants int"))
    }
}

/// `format % values`.
pub(super) fn format(format: &str, values: &PyValue) -> Result<PyValue> {
    let positional = match values {
        PyValue::Tuple(list) => list.items.clone(),
        other => vec![other.clone()],
    };
    let mut values = Values { all: values, positional, next: 0 };
    let mut out = Writer::default();
    let mut rest = format;
    let mut named = false;
    while let Some((before, after)) = rest.split_once('%') {
        out.push(before)?;
        rest = after;
        let mut key = None;
        if let Some(after) = rest.strip_prefix('(') {
            let end = closing_bracket(after).ok_or_else(|| Error::new("incomplete format key"))?;
            key = Some(&after[..end]);
            rest = &after[end + 1..];
            named = true;
        }
        let mut conversion = Conversion::default();
        rest = conversion.read(rest, &mut values)?;
        let Some(kind) = rest.chars().next() else { return Err(Error::new("incomplete format")) };
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            out.push("%")?;
            continue;
        }
        let value = match key {
            Some(key) => values.named(key)?,
            None => values.take()?,
        };
        conversion.write(kind, &value, &mut out)?;
    }
    out.push(rest)?;
    let unused = values.next < values.positional.len();
    let mapping =
        matches!(values.all, PyValue::Dict(_) | PyValue::List(_) | PyValue::Undefined(_) | PyValue::Range(_));
    if unused && !named && !mapping {
        return Err(Error::new("not all arguments converted during string formatting"));
    }
    PyValue::written(out)
}

/// Position of the bracket that closes the one before `text`.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

impl Conversion {
    /// Reads flags, width and precision; returns what follows.
    fn read<'a>(&mut self, text: &'a str, values: &mut Values<'_>) -> Result<&'a str> {
        let mut rest = text;
        loop {
            match rest.chars().next() {
                Some('#') => self.alternate = true,
                Some('0') => self.zero = true,
                Some('-') => self.left = true,
                Some(' ') => self.space = true,
                Some('+') => self.plus = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('*') {
            let width = values.size()?;
            self.left |= width < 0;
            self.width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
            rest = after;
        } else {
            (self.width, rest) = digits(rest)?;
        }
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(after) = after.strip_prefix('*') {
                self.precision = Some(usize::try_from(values.size()?.max(0)).unwrap_or(usize::MAX));
                rest = after;
            } else {
                let (precision, after) = digits(after)?;
                self.precision = Some(precision);
                rest = after;
            }
        }
        Ok(rest.strip_prefix(['h', 'l', 'L']).unwrap_or(rest))
    }

    fn write(&self, kind: char, value: &PyValue, out: &mut Writer) -> Result<()> {
        match kind {
            's' => self.pad_text(&print::to_text(value)?, out),
            'r' => self.pad_text(&print::to_repr(value)?, out),
            'a' => self.pad_text(&ascii(&print::to_repr(value)?), out),
            'c' => {
                let c = match value {
                    PyValue::Text(text) if text.chars == 1 => text.text.clone(),
                    _ => {
                        let code = value.as_int().ok_or_else(|| Error::new("%c requires int or char"))?;
                        let c = u32::try_from(code).ok().and_then(char::from_u32);
                        c.ok_or_else(|| Error::new("%c arg not in range(0x110000)"))?.to_string()
                    }
                };
                Self { precision: None, zero: false, ..*self }.pad_text(&c, out)
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => self.integer(kind, value, out),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let Some(number) = Number::of(value) else {
                    defined(value)?;
                    return Err(Error::new(format!("must be real number, not {}", value.type_name())));
                };
                let number = number.to_f64();
                let digits = float::digits(number.abs(), kind, self.precision, self.alternate)?;
                self.pad_number(
                    number.is_sign_negative() && !number.is_nan(),
                    "",
                    &digits,
                    number.is_finite(),
                    out,
                )
            }
            _ => Err(Error::new(format!("unsupported format character '{kind}' (0x{:x})", kind as u32))),
        }
    }

    fn integer(&self, kind: char, value: &PyValue, out: &mut Writer) -> Result<()> {
        let decimal = matches!(kind, 'd' | 'i' | 'u');
        let number = match value {
            PyValue::Float(float) if decimal => float::exact_int(float.trunc()),
            _ => value.as_int(),
        };
        let Some(number) = number else {
            defined(value)?;
            let (found, wanted) = (value.type_name(), if decimal { "a real number" } else { "an integer" });
            return Err(Error::new(format!("%{kind} format: {wanted} is required, not {found}")));
        };
        let size = number.unsigned_abs();
        let mut digits = match kind {
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            'o' => format!("{size:o}"),
            _ => size.to_string(),
        };
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        if missing > 0 {
            let mut padded = Writer::default();
            padded.repeat("0", missing)?;
            padded.push(&digits)?;
            digits = padded.into_parts().0;
        }
        let prefix = match kind {
            'x' if self.alternate => "0x",
            'X' if self.alternate => "0X",
            'o' if self.alternate => "0o",
            _ => "",
        };
        self.pad_number(number < 0, prefix, &digits, true, out)
    }

    fn pad_text(&self, text: &str, out: &mut Writer) -> Result<()> {
        let cut = self.precision.and_then(|precision| text.char_indices().nth(precision));
        let text = cut.map_or(text, |(at, _)| &text[..at]);
        let space = self.width.saturating_sub(text.chars().count());
        if !self.left {
            out.repeat(" ", space)?;
        }
        out.push(text)?;
        if self.left { out.repeat(" ", space) } else { Ok(()) }
    }

    fn pad_number(
        &self,
        negative: bool,
        prefix: &str,
        digits: &str,
        zeros: bool,
        out: &mut Writer,
    ) -> Result<()> {
        let sign = match negative {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        };
        let space = self.width.saturating_sub(sign.len() + prefix.len() + digits.len());
        let zero = self.zero && !self.left && zeros;
        if !zero && !self.left {
            out.repeat(" ", space)?;
        }
        out.push(sign)?;
        out.push(prefix)?;
        if zero {
            out.repeat("0", space)?;
        }
        out.push(digits)?;
        if self.left { out.repeat(" ", space) } else { Ok(()) }
    }
}

fn digits(text: &str) -> Result<(usize, &str)> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if length == 0 {
        return Ok((0, text));
    }
    let number = text[..length].parse().map_err(|_| Error::new("width too big"))?;
    Ok((number, &text[length..]))
}

/// A text with other than ASCII characters escaped.
fn ascii(text: &str) -> String {
    let escape = |c: char| match c as u32 {
        ..=0x7f => c.to_string(),
        code @ ..=0xff => format!("\\x{code:02x}"),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    text.chars().map(escape).collect()
}
