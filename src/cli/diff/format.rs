//! Differences, names and values as short texts.

use crate::cli::figures::{cut, grouped, scaled};

/// A string without its quotes; any other value as it is.
pub(super) fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\""),
        None => text.to_owned(),
    }
}

/// `%a`, or `%a -> %b`
pub(super) fn both(before: &str, after: &str) -> String {
    if before == after { format!("%{after}") } else { format!("%{before} -> %{after}") }
}

/// The first names, at least one of them, and how many more there are, in so many characters.
pub(super) fn list(names: impl Iterator<Item = String>, count: usize, width: usize) -> String {
    // More names than columns do not fit.
    let names: Vec<String> = names.take(width.max(1)).collect();
    let mut shown = names.len();
    loop {
        let more = match count - shown {
            0 => String::new(),
            more => format!(" and {} more", grouped(more)),
        };
        let text = names[..shown].join(", ") + &more;
        if shown <= 1 || text.chars().count() <= width {
            return text;
        }
        shown -= 1;
    }
}

/// The parts of two texts from shortly before their first difference on, at most so many characters.
pub(super) fn differing(before: &str, after: &str, width: usize) -> (String, String) {
    let equal = before.chars().zip(after.chars()).take_while(|(x, y)| x == y).count();
    let longest = before.chars().count().max(after.chars().count());
    if longest <= width {
        return (before.to_owned(), after.to_owned());
    }
    // Some of what is equal shows where the difference is.
    let start = equal.saturating_sub(width / 3).min(longest - width);
    let part = |text: &str| {
        let rest: String = text.chars().skip(start).collect();
        let rest = rest.replace('\n', " ");
        cut(&if start > 0 { format!("…{}", rest.chars().skip(1).collect::<String>()) } else { rest }, width)
    };
    (part(before), part(after))
}

/// `+1,234`, `-5`, or `=` for no difference.
pub(super) fn signed(difference: f64) -> String {
    let size = grouped(difference.abs() as usize);
    match difference {
        _ if difference > 0.0 => format!("+{size}"),
        _ if difference < 0.0 => format!("-{size}"),
        _ => "=".to_owned(),
    }
}

/// `+12.5 %`, `x 3.1`, or `=` for no difference.
pub(super) fn ratio(before: f64, after: f64) -> String {
    match after / before {
        _ if after == before => "=".to_owned(),
        ratio if !ratio.is_finite() => "new".to_owned(),
        ratio if ratio >= 2.0 => format!("x {ratio:.1}"),
        ratio if (ratio - 1.0).abs() < 0.0005 => {
            format!("{}{}", if ratio < 1.0 { "-" } else { "+" }, scaled((after - before).abs(), ""))
        }
        ratio => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shown_from_before_their_first_difference_on() {
        let check = |before: &str, after: &str, expect: (&str, &str)| {
            let (before, after) = differing(before, after, 12);
            assert_eq!((before.as_str(), after.as_str()), expect);
        };
        check("short", "shorts", ("short", "shorts"));
        check("0123456789abXdef", "0123456789abYdef", ("…56789abXdef", "…56789abYdef"));
        check("0123456789X", "0123456789abcdefgh", ("…789X", "…789abcdefgh"));
        check("Xé23456789abcdef", "Yé23456789abcdef", ("Xé23456789a…", "Yé23456789a…"));
    }

    #[test]
    fn lists_of_names_say_how_many_more_there_are() {
        let names = ["%first", "%second", "%third"];
        let check = |width, expect: &str| {
            assert_eq!(list(names.iter().map(|&name| name.to_owned()), names.len(), width), expect);
        };
        check(23, "%first, %second, %third");
        check(22, "%first and 2 more");
        check(4, "%first and 2 more");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(String::as_str)
        );
        assert_eq!(["=", "+1,000", "-3"], [0.0, 1000.0, -3.0].map(signed).each_ref().map(String::as_str));
        let check = |amount, unit, expect: &str| assert_eq!(scaled(amount, unit), expect);
        check(0.0, "B", "0 B");
        check(999.4, "B", "999 B");
        check(1000.0, "B", "1.00 kB");
        check(12_345.0, "FLOP", "12.3 kFLOP");
        check(123_456.0, "", "123 k");
        check(1.0, "", "1");
        check(1e30, "FLOP", "1000000000000 EFLOP");
        let check = |before, after, expect: &str| assert_eq!(ratio(before, after), expect);
        check(0.0, 0.0, "=");
        check(0.0, 3.0, "new");
        check(4.0, 0.0, "-100.0 %");
        check(4.0, 5.0, "+25.0 %");
        check(4.0, 10.0, "x 2.5");
        check(1e6, 1e6 + 2.0, "+2");
    }
}
