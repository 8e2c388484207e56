//! Windows, padding and the dimension labels of convolutions.

use super::parts::one_of;
use crate::hlo::raw::cursor::{Cursor, Parsed, SyntaxError};

/// Dimensions with `x` between them, each of so many integers with `_` between them. Returns their number.
pub(super) fn dashed(cursor: &mut Cursor<'_>, what: &str, counts: &[usize]) -> Parsed<usize> {
    let start = cursor.at();
    let mut end = *cursor;
    while end.peek().is_ascii_digit() || matches!(end.peek(), b'_' | b'x' | b'-') {
        end.advance(1);
    }
    let text = std::str::from_utf8(cursor.bytes(start..end.at())).unwrap_or_default();
    let is_dim = |dim: &str| {
        let parts: Vec<&str> = dim.split('_').collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.parse::<i64>().is_ok())
    };
    if !text.split('x').all(is_dim) {
        return Err(cursor.unexpected(what));
    }
    *cursor = end;
    Ok(text.split('x').count())
}

/// `{size=2x2 stride=1x2 pad=0_1x1_1}`
pub(super) fn window(cursor: &mut Cursor<'_>) -> Parsed<()> {
    const PARTS: &[&str] = &["size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"];
    cursor.expect(b'{')?;
    let mut seen: Vec<(&[u8], usize, usize)> = Vec::new();
    while !cursor.accept(b'}')? {
        let at = cursor.at();
        let word = cursor.peek_word();
        if seen.iter().any(|&(name, ..)| name == word) {
            return Err(cursor.unexpected("each part of a window once"));
        }
        one_of(cursor, PARTS)?;
        cursor.expect(b'=')?;
        cursor.skip_blank()?;
        let rank = match word {
            b"pad" => dashed(cursor, "padding such as `0_1x1_1`", &[2])?,
            _ => dashed(cursor, "sizes such as `2x2`", &[1])?,
        };
        seen.push((word, rank, at));
    }
    let size = seen.iter().find(|(name, ..)| *name == b"size").map_or(0, |&(_, rank, _)| rank);
    match seen.iter().find(|&&(_, rank, _)| rank != size) {
        Some(&(name, rank, at)) => {
            let name = String::from_utf8_lossy(name);
            let message = format!("expected `{name}` of {size} dimensions, as `size` has, found {rank}");
            Err(SyntaxError::new(at, message))
        }
        None => Ok(()),
    }
}

/// `b01f_01io->b01f`
pub(super) fn dim_labels(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let label = |cursor: &mut Cursor<'_>, features: &[u8]| -> Option<usize> {
        let start = cursor.at();
        while cursor.peek().is_ascii_digit() || cursor.peek() == b'?' || features.contains(&cursor.peek()) {
            cursor.advance(1);
        }
        let text = cursor.bytes(start..cursor.at());
        let has_each = |wanted: &[u8]| {
            wanted.iter().all(|label| text.iter().filter(|found| *found == label).count() == 1)
        };
        let spatial = text.iter().filter(|byte| byte.is_ascii_digit()).count();
        let numbers: Vec<u8> = (b'0'..=b'9').take(spatial).collect();
        (has_each(features) && has_each(&numbers)).then_some(spatial)
    };
    let start = *cursor;
    let mut counts = || {
        let input = label(cursor, b"bf").filter(|_| cursor.peek() == b'_')?;
        cursor.advance(1);
        let kernel = label(cursor, b"io").filter(|_| cursor.peek() == b'-' && cursor.peek_at(1) == b'>')?;
        cursor.advance(2);
        Some((input, kernel, label(cursor, b"bf")?))
    };
    match counts() {
        Some((input, kernel, output)) if input == kernel && kernel == output => Ok(()),
        Some((input, kernel, output)) => {
            let message = format!(
                "expected as many spatial dimensions everywhere, found {input}, {kernel} and {output}"
            );
            Err(SyntaxError::new(start.at(), message))
        }
        None => Err(start.unexpected("labels such as `b01f_01io->b01f`")),
    }
}
