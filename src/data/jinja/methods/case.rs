//! Upper, lower and title case.

use crate::data::jinja::{error::Result, meter, unicode};

/// `str.upper`.
pub(crate) fn upper(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    Ok(text.to_uppercase())
}

/// `str.lower`.
pub(crate) fn lower(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    Ok(text.to_lowercase())
}

/// `str.casefold`.
pub(super) fn casefold(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let mut upper = c.to_uppercase();
        match c {
            _ if c.is_ascii() => out.push(c.to_ascii_lowercase()),
            // Letters of Cherokee fold to upper case.
            'Ꭰ'..='Ᏽ' => out.push(c),
            'ꭰ'..='ꮿ' | 'ᏸ'..='ᏽ' => out.extend(upper),
            'ẞ' => out.push_str("ss"),
            'ı' => out.push(c),
            'İ' => out.push_str("i\u{307}"),
            _ if upper.len() > 1 || upper.next() != Some(c) => {
                out.extend(
                    c.to_uppercase().flat_map(char::to_lowercase).map(|c| if c == 'ς' { 'σ' } else { c }),
                );
            }
            _ => out.extend(c.to_lowercase()),
        }
    }
    Ok(out)
}

/// `str.capitalize`.
pub(crate) fn capitalize(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    if let Some(first) = chars.next() {
        unicode::push_title(first, &mut out);
        let lower = text.to_lowercase();
        let skipped: usize = first.to_lowercase().map(char::len_utf8).sum();
        out.push_str(lower.get(skipped..).unwrap_or(""));
    }
    Ok(out)
}

/// `str.title`.
pub(super) fn title(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    let mut out = String::with_capacity(text.len());
    let mut after_cased = false;
    for (at, c) in text.char_indices() {
        if !after_cased {
            unicode::push_title(c, &mut out);
        } else if c == 'Σ' {
            out.push(final_sigma(text, at));
        } else {
            out.extend(c.to_lowercase());
        }
        after_cased = unicode::is_cased(c);
    }
    Ok(out)
}

/// `str.swapcase`.
pub(super) fn swapcase(text: &str) -> Result<String> {
    meter::read(4 * text.len())?;
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if unicode::is_upper(c) {
            if c == 'Σ' { out.push(final_sigma(text, at)) } else { out.extend(c.to_lowercase()) }
        } else if unicode::is_lower(c) {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    Ok(out)
}

/// Lower case of the sigma at a position, which differs at the end of a word.
fn final_sigma(text: &str, at: usize) -> char {
    let sigma = 'Σ'.len_utf8();
    let letter = |c: &char| *c != '\'' && *c != '.' && *c != '\u{ad}';
    let before = text[..at].chars().rev().find(letter).is_some_and(unicode::is_cased);
    let after = text[at + sigma..].chars().find(letter).is_some_and(unicode::is_cased);
    if before && !after { 'ς' } else { 'σ' }
}

/// `str.islower`.
pub(crate) fn is_lower(text: &str) -> bool {
    let unlike = |c| unicode::is_upper(c) || unicode::is_title(c);
    !text.chars().any(unlike) && text.chars().any(unicode::is_lower)
}

/// `str.isupper`.
pub(crate) fn is_upper(text: &str) -> bool {
    let unlike = |c| unicode::is_lower(c) || unicode::is_title(c);
    !text.chars().any(unlike) && text.chars().any(unicode::is_upper)
}

/// `str.istitle`.
pub(super) fn is_title(text: &str) -> bool {
    let mut after_cased = false;
    let mut any = false;
    for c in text.chars() {
        let begins = unicode::is_upper(c) || unicode::is_title(c);
        if begins && after_cased || unicode::is_lower(c) && !after_cased {
            return false;
        }
        after_cased = unicode::is_cased(c);
        any |= after_cased;
    }
    any
}
