//! The smallest phrases of attribute values.

use crate::hlo::raw::cursor::{Cursor, Parsed};

pub(super) fn boolean(cursor: &mut Cursor<'_>) -> Parsed<()> {
    one_of(cursor, &["true", "false"])
}

pub(super) fn int(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.int("an integer").map(drop)
}

/// An integer of 32 bits.
pub(super) fn small_int(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let at = *cursor;
    let value = cursor.int("an integer")?;
    if i32::try_from(value).is_ok() { Ok(()) } else { Err(at.unexpected("an integer of 32 bits")) }
}

pub(super) fn string(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.string().map(drop)
}

/// One number or word.
pub(crate) fn element(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = cursor.at();
    while cursor.peek().is_ascii_alphanumeric() || matches!(cursor.peek(), b'.' | b'-' | b'+') {
        cursor.advance(1);
    }
    if cursor.at() == start { Err(cursor.unexpected("a number, `true` or `false`")) } else { Ok(()) }
}

/// A number in the range of `f32`.
pub(super) fn float(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = *cursor;
    let is_number = element(cursor).is_ok()
        && std::str::from_utf8(start.bytes(start.at()..cursor.at())).is_ok_and(|text| {
            let is_word = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
            text.parse::<f32>().is_ok_and(|value| value.is_finite() || is_word)
        });
    if is_number { Ok(()) } else { Err(start.unexpected("a number in the range of f32")) }
}

pub(super) fn one_of(cursor: &mut Cursor<'_>, words: &[&str]) -> Parsed<()> {
    word_that(cursor, words, |known, word| known.as_bytes() == word)
}

/// One of the words, in letters of any case.
pub(super) fn one_of_any_case(cursor: &mut Cursor<'_>, words: &[&str]) -> Parsed<()> {
    word_that(cursor, words, |known, word| known.as_bytes().eq_ignore_ascii_case(word))
}

fn choice(words: &[&str]) -> String {
    match words {
        [word] => format!("`{word}`"),
        words => format!("one of {}", words.join(", ")),
    }
}

fn word_that(cursor: &mut Cursor<'_>, words: &[&str], is: impl Fn(&str, &[u8]) -> bool) -> Parsed<()> {
    cursor.skip_blank()?;
    let word = cursor.peek_word();
    if !words.iter().any(|known| is(known, word)) {
        return Err(cursor.unexpected(&choice(words)));
    }
    cursor.advance(word.len());
    Ok(())
}

/// `{` items with commas between them `}`. Returns the number of items.
pub(super) fn list<'t>(
    cursor: &mut Cursor<'t>,
    item: impl FnMut(&mut Cursor<'t>) -> Parsed<()>,
) -> Parsed<usize> {
    between(cursor, [b'{', b'}'], item)
}

/// Items with commas between them, in brackets. Returns their number.
pub(super) fn between<'t>(
    cursor: &mut Cursor<'t>,
    [open, close]: [u8; 2],
    mut item: impl FnMut(&mut Cursor<'t>) -> Parsed<()>,
) -> Parsed<usize> {
    cursor.expect(open)?;
    let mut count = 0;
    if cursor.accept(close)? {
        return Ok(count);
    }
    loop {
        cursor.skip_blank()?;
        item(cursor)?;
        count += 1;
        if !cursor.accept(b',')? {
            cursor.expect(close)?;
            return Ok(count);
        }
    }
}

/// As [`between`]; a comma may also follow the last item.
pub(super) fn list_with_last_comma<'t>(
    cursor: &mut Cursor<'t>,
    mut item: impl FnMut(&mut Cursor<'t>) -> Parsed<()>,
) -> Parsed<()> {
    cursor.expect(b'{')?;
    loop {
        if cursor.accept(b'}')? {
            return Ok(());
        }
        item(cursor)?;
        if !cursor.accept(b',')? {
            return cursor.expect(b'}');
        }
    }
}

/// Takes `name=` of one of these names, and returns which.
pub(super) fn field(cursor: &mut Cursor<'_>, names: &[&'static str]) -> Parsed<&'static str> {
    cursor.skip_blank()?;
    let at = *cursor;
    let span = cursor.attribute_name("a field")?;
    let name = cursor.bytes(span.range());
    names.iter().copied().find(|known| known.as_bytes() == name).ok_or_else(|| at.unexpected(&choice(names)))
}

/// Skips the value of an attribute whose form is unknown: a string, a group, or words and groups without blanks.
pub(crate) fn skip_unknown(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = cursor.at();
    loop {
        match cursor.peek() {
            b'"' | b'\'' => cursor.skip_string()?,
            b'{' | b'[' | b'(' => cursor.skip_group()?,
            byte if byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'.' | b'-' | b'%' | b'<' | b'=' | b'>' | b'+') =>
            {
                cursor.advance(1);
            }
            _ if cursor.at() == start => return Err(cursor.unexpected("a value")),
            _ => return Ok(()),
        }
    }
}
