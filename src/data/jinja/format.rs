//! `str.format`.

use super::{
    args::Args,
    attribute,
    error::{Error, Result},
    float,
    meter::Writer,
    number::Number,
    print,
    value::PyValue,
};

/// `text.format(*args)`.
pub(super) fn format(text: &str, args: &Args) -> Result<PyValue> {
    let mut out = Writer::default();
    let mut next = Numbering::Unknown;
    write(text, args, &mut next, 3, &mut out)?;
    PyValue::written(out)
}

/// Numbering of replacement fields: explicit or automatic.
enum Numbering {
    Unknown,
    Automatic(usize),
    Manual,
}

fn write(text: &str, args: &Args, next: &mut Numbering, depth: usize, out: &mut Writer) -> Result<()> {
    if depth == 0 {
        return Err(Error::new("Max string recursion exceeded"));
    }
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at])?;
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push(brace)?;
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err(Error::new("Single '}' encountered in format string"));
        }
        let end = field_end(rest)?;
        let field = &rest[..end];
        rest = &rest[end + 1..];
        write_field(field, args, next, depth, out)?;
    }
    out.push(rest)
}

/// Position of the brace that closes a replacement field.
fn field_end(text: &str) -> Result<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
    }
    let message = if text.is_empty() {
        "Single '{' encountered in format string"
    } else {
        "expected '}' before end of string"
    };
    Err(Error::new(message))
}

fn write_field(field: &str, args: &Args, next: &mut Numbering, depth: usize, out: &mut Writer) -> Result<()> {
    let split = field.find([':', '!']).unwrap_or(field.len());
    let (name, mut rest) = field.split_at(split);
    let mut conversion = None;
    if let Some(after) = rest.strip_prefix('!') {
        conversion = after.chars().next();
        let length = conversion.map_or(0, char::len_utf8);
        rest = &after[length..];
        if conversion.is_none() || !rest.is_empty() && !rest.starts_with(':') {
            return Err(Error::new("expected ':' after conversion specifier"));
        }
    }
    let mut value = lookup(name, args, next)?;
    match conversion {
        None => {}
        Some('s') => value = print::to_value(&value)?,
        Some('r') => value = PyValue::text(print::to_repr(&value)?)?,
        Some(other) => {
            return Err(Error::unsupported(format!("the conversion '!{other}' of `format`")));
        }
    }
    let mut spec = Writer::default();
    write(rest.strip_prefix(':').unwrap_or(""), args, next, depth - 1, &mut spec)?;
    write_value(&value, &spec.into_parts().0, out)
}

fn lookup(name: &str, args: &Args, next: &mut Numbering) -> Result<PyValue> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let index = if first.is_empty() {
        let at = match next {
            Numbering::Manual => {
                return Err(Error::new(
                    "cannot switch from manual field specification to automatic field numbering",
                ));
            }
            Numbering::Automatic(at) => *at,
            Numbering::Unknown => 0,
        };
        *next = Numbering::Automatic(at + 1);
        Some(at)
    } else if first.chars().all(|c| c.is_ascii_digit()) {
        if let Numbering::Automatic(_) = next {
            return Err(Error::new(
                "cannot switch from manual field specification to automatic field numbering",
            ));
        }
        *next = Numbering::Manual;
        Some(first.parse().unwrap_or(usize::MAX))
    } else {
        None
    };
    let found = match index {
        Some(at) => args.positional.get(at).cloned(),
        None => args.named.iter().find(|(known, _)| **known == *first).map(|(_, value)| value.clone()),
    };
    let mut value = found.ok_or_else(|| match index {
        Some(at) => Error::new(format!("Replacement index {at} out of range for positional args tuple")),
        None => Error::new(print::repr_text(first)),
    })?;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            value = attribute::attribute(&value, &after[..end].into())?;
            rest = &after[end..];
        } else {
            let end = rest.find(']').ok_or_else(|| Error::new("Missing ']' in format string"))?;
            let key = &rest[1..end];
            let key = key.parse().map_or_else(|_| PyValue::text(key), |index| Ok(PyValue::Int(index)))?;
            value = attribute::item(&value, &key)?;
            rest = &rest[end + 1..];
        }
    }
    Ok(value)
}

/// A format specification: `[[fill]align][sign][#][0][width][,][.precision][type]`.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    grouping: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str) -> Result<Self> {
        let mut spec = Self::default();
        let mut chars: Vec<char> = text.chars().collect();
        let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '=' | '^'));
        if is_align(chars.get(1)) {
            spec.fill = Some(chars.remove(0));
            spec.align = Some(chars.remove(0));
        } else if is_align(chars.first()) {
            spec.align = Some(chars.remove(0));
        }
        let mut at = 0;
        let mut skip = |accepted: &[char]| -> Option<char> {
            let found = chars.get(at).copied().filter(|c| accepted.contains(c))?;
            at += 1;
            Some(found)
        };
        spec.sign = skip(&['+', '-', ' ']);
        if skip(&['z']).is_some() {
            return Err(Error::unsupported("'z' in a format specification"));
        }
        spec.alternate = skip(&['#']).is_some();
        if skip(&['0']).is_some() && spec.align.is_none() {
            spec.fill = Some('0');
            spec.align = Some('=');
        }
        let number = |skip: &mut dyn FnMut(&[char]) -> Option<char>| -> Result<Option<usize>> {
            let mut digits = String::new();
            while let Some(digit) = skip(&['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
                digits.push(digit);
            }
            let too_many = || Error::new("Too many decimal digits in format string");
            if digits.is_empty() { Ok(None) } else { digits.parse().map(Some).map_err(|_| too_many()) }
        };
        spec.width = number(&mut skip)?.unwrap_or(0);
        spec.grouping = skip(&[',', '_']);
        if skip(&['.']).is_some() {
            spec.precision = number(&mut skip)?;
            if spec.precision.is_none() {
                return Err(Error::new("Format specifier missing precision"));
            }
        }
        let rest = &chars[at..];
        spec.kind = rest.first().copied();
        if rest.len() > 1 {
            return Err(Error::new("Invalid format specifier"));
        }
        Ok(spec)
    }

    fn write(&self, sign: &str, body: &str, align: char, out: &mut Writer) -> Result<()> {
        let space = self.width.saturating_sub(sign.len() + body.chars().count());
        let mut buffer = [0; 4];
        let fill: &str = self.fill.unwrap_or(' ').encode_utf8(&mut buffer);
        let (before, middle, after) = match self.align.unwrap_or(align) {
            '<' => (0, 0, space),
            '^' => (space / 2, 0, space - space / 2),
            '=' => (0, space, 0),
            _ => (space, 0, 0),
        };
        out.repeat(fill, before)?;
        out.push(sign)?;
        out.repeat(fill, middle)?;
        out.push(body)?;
        out.repeat(fill, after)
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            (false, _) => "",
        }
    }
}

/// Writes `format(value, spec)`.
fn write_value(value: &PyValue, spec: &str, out: &mut Writer) -> Result<()> {
    if spec.is_empty() {
        return print::write(value, out);
    }
    let parsed = Spec::parse(spec)?;
    let unknown = |kind: char| {
        Error::new(format!("Unknown format code '{kind}' for object of type '{}'", value.type_name()))
    };
    match (value, Number::of(value)) {
        (PyValue::Text(text), _) => {
            if parsed.sign.is_some() || parsed.align == Some('=') || parsed.grouping.is_some() {
                return Err(Error::unsupported(format!("the format '{spec}' of a string")));
            }
            match parsed.kind {
                None | Some('s') => {}
                Some(kind) => return Err(unknown(kind)),
            }
            let cut = parsed.precision.and_then(|precision| text.text.char_indices().nth(precision));
            parsed.write("", cut.map_or(&text.text, |(at, _)| &text.text[..at]), '<', out)
        }
        (PyValue::Bool(_), _) if parsed.kind.is_none() => {
            Err(Error::unsupported(format!("the format '{spec}' of a bool")))
        }
        (_, Some(Number::Int(int)))
            if matches!(parsed.kind, None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'n')) =>
        {
            if parsed.precision.is_some() {
                return Err(Error::new("Precision not allowed in integer format specifier"));
            }
            let size = int.unsigned_abs();
            let (prefix, digits) = match parsed.kind {
                Some('x') => ("0x", format!("{size:x}")),
                Some('X') => ("0X", format!("{size:X}")),
                Some('o') => ("0o", format!("{size:o}")),
                Some('b') => ("0b", format!("{size:b}")),
                Some('n') => return Err(Error::unsupported("the format 'n'")),
                _ => ("", size.to_string()),
            };
            let prefix = if parsed.alternate { prefix } else { "" };
            let body = parsed.grouped(&digits)?;
            parsed.write(&format!("{}{prefix}", parsed.sign(int < 0)), &body, '>', out)
        }
        (_, Some(number)) => {
            let kind = match parsed.kind {
                Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) => kind,
                None if parsed.precision.is_none() => 'r',
                Some(kind) => return Err(unknown(kind)),
                None => return Err(Error::unsupported(format!("the format '{spec}' of a float"))),
            };
            let number = number.to_f64();
            let size = number.abs();
            let digits = match kind {
                'r' => float::repr(size),
                '%' => float::digits(size * 100.0, 'f', parsed.precision, parsed.alternate)? + "%",
                _ => float::digits(size, kind, parsed.precision, parsed.alternate)?,
            };
            let body = parsed.grouped(&digits)?;
            parsed.write(parsed.sign(number.is_sign_negative() && !number.is_nan()), &body, '>', out)
        }
        _ => Err(Error::new(format!("unsupported format string passed to {}.__format__", value.type_name()))),
    }
}

impl Spec {
    /// The digits before the decimal point in groups.
    fn grouped(&self, digits: &str) -> Result<String> {
        let Some(separator) = self.grouping else { return Ok(digits.to_owned()) };
        let whole = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let whole = if digits.contains(['e', 'E', 'n', 'i']) { digits.len() } else { whole };
        let zero_filled = self.fill == Some('0') && self.align == Some('=') && self.width > digits.len();
        if zero_filled || whole == digits.len() && digits.contains(['.', 'e', 'E', 'n', 'i']) {
            return Err(Error::unsupported("grouped digits with these options"));
        }
        let size = if matches!(self.kind, Some('x' | 'X' | 'o' | 'b')) { 4 } else { 3 };
        let mut out = String::new();
        for (at, c) in digits[..whole].chars().enumerate() {
            if at > 0 && (whole - at) % size == 0 {
                out.push(separator);
            }
            out.push(c);
        }
        out.push_str(&digits[whole..]);
        Ok(out)
    }
}
