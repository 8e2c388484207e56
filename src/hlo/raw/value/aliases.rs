//! Which results share memory with which arguments, and the layouts of both.

use super::parts::{int, list_with_last_comma, one_of};
use crate::hlo::raw::{
    cursor::{Cursor, Parsed, SyntaxError},
    shape::ShapeReader,
};

/// `{ {0}: (1, {}, may-alias), {}: (0, {}) }`
pub(super) fn aliases(cursor: &mut Cursor<'_>) -> Parsed<()> {
    list_with_last_comma(cursor, |cursor| {
        index(cursor)?;
        cursor.expect(b':')?;
        argument(cursor, |cursor| {
            if cursor.accept(b',')? { one_of(cursor, &["may-alias", "must-alias"]) } else { Ok(()) }
        })
    })
}

/// `{ (0, {}), (1, {0}) }`
pub(super) fn donors(cursor: &mut Cursor<'_>) -> Parsed<()> {
    list_with_last_comma(cursor, |cursor| argument(cursor, |_| Ok(())))
}

/// `(0, {1,0}` rest `)`: the number of an argument, and the index of a part of it.
fn argument<'t>(cursor: &mut Cursor<'t>, rest: impl Fn(&mut Cursor<'t>) -> Parsed<()>) -> Parsed<()> {
    cursor.expect(b'(')?;
    int(cursor)?;
    cursor.expect(b',')?;
    index(cursor)?;
    rest(cursor)?;
    cursor.expect(b')')
}

/// `{1,0}`: an index of a nested tuple.
fn index(cursor: &mut Cursor<'_>) -> Parsed<()> {
    list_with_last_comma(cursor, int)
}

/// `{(f32[4]{0}, s32[])->f32[4]{0}}`
pub(super) fn signature(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut shapes = ShapeReader::new();
    cursor.expect(b'{')?;
    cursor.expect(b'(')?;
    if !cursor.accept(b')')? {
        loop {
            shapes.read(cursor)?;
            if !cursor.accept(b',')? {
                break;
            }
        }
        cursor.expect(b')')?;
    }
    cursor.expect_arrow()?;
    cursor.skip_blank()?;
    if cursor.peek() == b'}' {
        return Err(SyntaxError::new(cursor.at(), "expected the shape of the result, found `}`"));
    }
    shapes.read(cursor)?;
    cursor.expect(b'}')
}
