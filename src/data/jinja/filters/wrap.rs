//! Filters that lay text out in lines.

use crate::data::jinja::{
    args::{Args, int, int_or, is_true, not_none, text},
    error::{Error, Result},
    meter,
    meter::Writer,
    methods::{self, Ends},
    undefined::defined,
    unicode,
    value::PyValue,
};

/// The text of a value that must be one.
fn input(value: &PyValue, name: &str) -> Result<String> {
    defined(value)?;
    text(value, name)
}

pub(super) fn indent(value: PyValue, args: Args) -> Result<PyValue> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let source = input(&value, "indent")?;
    let indention = match width {
        None => " ".repeat(4),
        Some(PyValue::Text(text)) => text.text.clone(),
        Some(width) => {
            let mut indention = Writer::default();
            indention.repeat(" ", usize::try_from(int(&width)?.max(0)).unwrap_or(usize::MAX))?;
            indention.into_parts().0
        }
    };
    let source = source + "\n";
    let blank = is_true(blank);
    let mut out = Writer::default();
    for (i, line) in methods::lines(&source, Ends::Dropped).into_iter().enumerate() {
        if i > 0 {
            out.push("\n")?;
        }
        let indented = if i == 0 { is_true(first.clone()) } else { blank || !line.is_empty() };
        if indented {
            out.push(&indention)?;
        }
        out.push(line)?;
    }
    PyValue::written(out)
}

pub(super) fn truncate(value: PyValue, args: Args) -> Result<PyValue> {
    let [length, kill_words, end, leeway] =
        args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let source = input(&value, "truncate")?;
    let length = int_or(length, 255)?;
    let end = end.map_or(Ok("...".to_owned()), |end| text(&end, "truncate"))?;
    let leeway = not_none(leeway).map_or(Ok(5), |leeway| int(&leeway))?;
    let end_chars = end.chars().count() as i128;
    if length < end_chars {
        return Err(Error::new(format!("expected length >= {end_chars}, got {length}")));
    }
    if leeway < 0 {
        return Err(Error::new(format!("expected leeway >= 0, got {leeway}")));
    }
    if source.chars().count() as i128 <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let kept: String =
        source.chars().take(usize::try_from(length - end_chars).unwrap_or(usize::MAX)).collect();
    if is_true(kill_words) {
        return PyValue::text(kept + &end);
    }
    PyValue::text(kept.rsplit_once(' ').map_or(kept.as_str(), |(before, _)| before).to_owned() + &end)
}

pub(super) fn wordwrap(value: PyValue, args: Args) -> Result<PyValue> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, break_long_words, wrap_string, break_on_hyphens] = args.bind("wordwrap", names)?;
    let source = input(&value, "wordwrap")?;
    let width = int_or(width, 79)?;
    let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
        return Err(Error::new(format!("invalid width {width} (must be > 0)")));
    };
    let wrap_string = not_none(wrap_string).map_or(Ok("\n".to_owned()), |text_| text(&text_, "wordwrap"))?;
    let on_hyphens = break_on_hyphens.is_none_or(|value| value.is_true());
    let long_words = break_long_words.is_none_or(|value| value.is_true());
    if on_hyphens && source.contains('-') {
        return Err(Error::unsupported("'wordwrap' of text with hyphens; use break_on_hyphens=false"));
    }
    meter::read(8 * source.len())?;
    let mut out = Writer::default();
    for (i, line) in methods::lines(&source, Ends::Dropped).into_iter().enumerate() {
        if i > 0 {
            out.push(&wrap_string)?;
        }
        for (i, wrapped) in wrap(line, width, long_words).into_iter().enumerate() {
            if i > 0 {
                out.push(&wrap_string)?;
            }
            out.push(&wrapped)?;
        }
    }
    PyValue::written(out)
}

/// Words and the whitespace between them.
fn chunks(line: &str) -> Vec<Vec<char>> {
    let mut chunks: Vec<Vec<char>> = Vec::new();
    for c in line.chars() {
        match chunks.last_mut() {
            Some(chunk) if is_blank(chunk[0]) == is_blank(c) => chunk.push(c),
            _ => chunks.push(vec![c]),
        }
    }
    chunks
}

/// Whitespace at which Python's `textwrap` breaks lines.
fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

/// The lines that Python's `textwrap` makes of a line, without breaks at hyphens.
fn wrap(line: &str, width: usize, break_long_words: bool) -> Vec<String> {
    let mut rest = chunks(line);
    rest.reverse();
    let is_space = |chunk: &[char]| chunk.iter().all(|c| unicode::is_space(*c));
    let mut lines = Vec::new();
    while !rest.is_empty() {
        let mut current: Vec<Vec<char>> = Vec::new();
        let mut length = 0;
        if !lines.is_empty() && rest.last().is_some_and(|chunk| is_space(chunk)) {
            rest.pop();
        }
        while let Some(chunk) = rest.pop_if(|chunk| length + chunk.len() <= width) {
            length += chunk.len();
            current.push(chunk);
        }
        if let Some(long) = rest.last_mut()
            && long.len() > width
        {
            if break_long_words {
                let part: Vec<char> = long.drain(..(width - length).min(long.len())).collect();
                current.push(part);
            } else if current.is_empty() {
                current.extend(rest.pop());
            }
        }
        if current.last().is_some_and(|chunk| is_space(chunk)) {
            current.pop();
        }
        if !current.is_empty() {
            lines.push(current.concat().into_iter().collect());
        }
    }
    lines
}
