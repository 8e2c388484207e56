//! What chat templates expect of the Python around them.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use minijinja::{
    Environment, Error, ErrorKind,
    value::{Kwargs, Value},
};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::Value as Json;

/// Adds the methods of Python's types, and the functions and the filter that transformers defines for chat
/// templates.
pub(super) fn install(environment: &mut Environment<'static>, now: SystemTime) {
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", move |format: String| {
        strftime(&format, now).map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
    });
}

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "expected two separators")),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let style = JsonStyle {
        indent,
        item,
        key,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or_default(),
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or_default(),
    };
    options.assert_all_used()?;
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("not JSON: {error}")))?;
    let mut text = String::new();
    style.write(&value, 0, &mut text);
    Ok(Value::from(text))
}

struct JsonStyle {
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

impl JsonStyle {
    fn write(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Array(items) => {
                self.write_items(['[', ']'], items, depth, out, |item, out| self.write(item, depth + 1, out));
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if self.sort_keys {
                    members.sort_by_key(|&(key, _)| key);
                }
                self.write_items(['{', '}'], &members, depth, out, |(key, value), out| {
                    self.write_string(key, out);
                    out.push_str(&self.key);
                    self.write(value, depth + 1, out);
                });
            }
            Json::String(text) => self.write_string(text, out),
            Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&value.to_string()),
        }
    }

    fn write_items<T>(
        &self,
        [open, close]: [char; 2],
        items: &[T],
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(&T, &mut String),
    ) {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item);
            }
            self.break_line(depth + 1, out);
            write(item, out);
        }
        if !items.is_empty() {
            self.break_line(depth, out);
        }
        out.push(close);
    }

    fn break_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth)));
        }
    }

    fn write_string(&self, text: &str, out: &mut String) {
        let quoted = Json::from(text).to_string();
        if !self.ensure_ascii {
            return out.push_str(&quoted);
        }
        for c in quoted.chars() {
            match c {
                ' '..='~' => out.push(c),
                _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                    let _ = write!(out, "\\u{unit:04x}");
                }),
            }
        }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// `datetime.strftime` in the C locale, for the fields of a date and a time of day in UTC.
fn strftime(format: &str, time: SystemTime) -> Result<String, String> {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let (year, month, day) = civil(days);
    let month_name = MONTHS[(month as usize - 1) % 12];
    let day_name = DAYS[(days % 7) as usize];
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let field = chars.next().ok_or("unfinished date field: %")?;
        text += &match field {
            'd' => format!("{day:02}"),
            'm' => format!("{month:02}"),
            'y' => format!("{:02}", year % 100),
            'Y' => year.to_string(),
            'b' => month_name[..3].to_owned(),
            'B' => month_name.to_owned(),
            'a' => day_name[..3].to_owned(),
            'A' => day_name.to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'M' => format!("{minute:02}"),
            'S' => format!("{:02}", second % 60),
            '%' => "%".to_owned(),
            _ => return Err(format!("unknown date field: %{field}")),
        };
    }
    Ok(text)
}

/// Year, month and day of the days since 1970-01-01, by Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(expression: &str, expect: &str) {
        let mut environment = Environment::new();
        install(&mut environment, UNIX_EPOCH);
        let list: Value = [Value::from(1), Value::from(2.5), Value::from("é\"\n<")].into_iter().collect();
        let empty = Value::from_pairs([("", ""); 0]);
        let value = Value::from_pairs([("b", list), ("a", empty), ("c", Value::from(()))]);
        let text = environment.render_str(expression, minijinja::context! { value }).unwrap();
        assert_eq!(text, expect, "{expression}");
    }

    /// The right-hand sides are what Python's `json.dumps` prints.
    #[test]
    fn tojson_is_json_dumps() {
        check("{{ value | tojson }}", r#"{"b": [1, 2.5, "é\"\n<"], "a": {}, "c": null}"#);
        check(
            "{{ value | tojson(sort_keys=true, ensure_ascii=true) }}",
            r#"{"a": {}, "b": [1, 2.5, "\u00e9\"\n<"], "c": null}"#,
        );
        check("{{ value.b | tojson(separators=(',', ':')) }}", r#"[1,2.5,"é\"\n<"]"#);
        check(
            "{{ value | tojson(indent=2) }}",
            "{\n  \"b\": [\n    1,\n    2.5,\n    \"é\\\"\\n<\"\n  ],\n  \"a\": {},\n  \"c\": null\n}",
        );
    }

    #[test]
    fn methods_of_python_are_known() {
        check("{{ ' x '.strip() + 'a-b'.split('-')[-1] }}", "xb");
        check("{{ value.get('d', 'none') }}", "none");
    }

    #[test]
    fn dates_print_as_strftime_prints_them() {
        let check = |seconds, format: &str, expect: &str| {
            assert_eq!(strftime(format, UNIX_EPOCH + Duration::from_secs(seconds)).as_deref(), Ok(expect));
        };
        check(0, "%A %d %B %Y %H:%M:%S", "Thursday 01 January 1970 00:00:00");
        check(951_827_696, "%a %d %b %y %I:%M %p", "Tue 29 Feb 00 12:34 PM");
        check(1_735_689_599, "%Y-%m-%d %H:%M:%S%%", "2024-12-31 23:59:59%");
        assert_eq!(strftime("%", UNIX_EPOCH), Err("unfinished date field: %".into()));
    }
}
