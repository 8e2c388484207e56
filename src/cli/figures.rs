//! Numbers and lines of tables for 80 columns.

/// Columns of a terminal.
pub(super) const WIDTH: usize = 80;

/// The first characters of a text, with `…` if there are more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// `12,345`
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        text.push_str(if index > 0 && (digits.len() - index).is_multiple_of(3) { "," } else { "" });
        text.push(digit);
    }
    text
}

/// `1.23 TFLOP`; a count below a hundred thousand as it is.
pub(super) fn scaled(amount: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if unit.is_empty() && amount < 1e5 {
        return grouped(amount as usize);
    }
    let (mut value, mut prefix) = (amount, 0);
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 || value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.digits$} {}{unit}", PREFIXES[prefix]).trim_end().to_owned()
}
