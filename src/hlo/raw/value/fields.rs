//! Values that consist of named fields: accuracy, statistics, origins.

use super::{
    parts::{between, field, float, int, list, one_of, one_of_any_case, string},
    sharding::sharding,
    window::dashed,
};
use crate::hlo::{
    limits::MAX_TUPLE_NESTING,
    raw::cursor::{Cursor, Parsed, SyntaxError},
};

/// `{mode=highest}` or `{tolerance={atol=0.5,rtol=0.25,ulps=3}}`
pub(super) fn result_accuracy(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    match field(cursor, &["mode", "tolerance"])? {
        "mode" => one_of_any_case(cursor, &["default", "highest"])?,
        _ => {
            list(cursor, |cursor| match field(cursor, &["atol", "rtol", "ulps"])? {
                "ulps" => int(cursor),
                _ => float(cursor),
            })?;
        }
    }
    cursor.expect(b'}')
}

/// `{kind="sharding", entry={manual}, exit={replicated}}`
pub(super) fn domain(cursor: &mut Cursor<'_>) -> Parsed<()> {
    const FIELDS: &[&str] = &["kind", "entry", "exit"];
    let start = cursor.at();
    let mut seen = Vec::new();
    cursor.expect(b'{')?;
    while !cursor.accept(b'}')? {
        cursor.accept(b',')?;
        let name = field(cursor, FIELDS)?;
        seen.push(name);
        if name != "kind" {
            sharding(cursor)?;
            continue;
        }
        cursor.skip_blank()?;
        let at = cursor.at();
        let kind = cursor.string()?;
        if cursor.bytes(kind.range()) != b"sharding" {
            return Err(SyntaxError::new(at, "expected the kind `sharding`, found another"));
        }
    }
    match FIELDS.iter().find(|name| !seen.contains(name)) {
        Some(missing) => Err(SyntaxError::new(start, format!("missing field `{missing}` of the domain"))),
        None => Ok(()),
    }
}

/// `{lhs={sparsity=2x4 dimension=1 stride=2} rhs={}}`
pub(super) fn sparsity(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    while !cursor.accept(b'}')? {
        field(cursor, &["lhs", "rhs"])?;
        cursor.expect(b'{')?;
        while !cursor.accept(b'}')? {
            match field(cursor, &["sparsity", "dimension", "stride"])? {
                "sparsity" => {
                    cursor.skip_blank()?;
                    let at = *cursor;
                    if dashed(cursor, "sparsity such as `2x4`", &[1])? != 2 {
                        return Err(at.unexpected("sparsity such as `2x4`"));
                    }
                }
                _ => int(cursor)?,
            }
        }
    }
    Ok(())
}

/// `{visualizing_index=1,flops=0.75}` or `{}`
pub(super) fn statistics(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut is_first = true;
    list(cursor, |cursor| {
        cursor.attribute_name("`visualizing_index`, or the name of a statistic")?;
        if std::mem::take(&mut is_first) { int(cursor) } else { float(cursor) }
    })
    .map(drop)
}

/// `{key="value",other={json}}`
pub(super) fn dictionary(cursor: &mut Cursor<'_>) -> Parsed<()> {
    list(cursor, |cursor| {
        cursor.attribute_name("a key")?;
        cursor.skip_blank()?;
        match cursor.peek() {
            b'{' => cursor.skip_group(),
            _ => string(cursor),
        }
    })
    .map(drop)
}

/// `{({"x"}, {"y" {1,0}})}` or `{[synthetic_call]}`
pub(super) fn origin(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    origin_tree(cursor, 0)?;
    cursor.expect(b'}')
}

fn origin_tree(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<()> {
    if depth > MAX_TUPLE_NESTING {
        let message = format!("expected at most {MAX_TUPLE_NESTING} nested origins, found more");
        return Err(SyntaxError::new(cursor.at(), message));
    }
    cursor.skip_blank()?;
    match cursor.peek() {
        b'(' => between(cursor, [b'(', b')'], |cursor| origin_tree(cursor, depth + 1)).map(drop),
        b'[' => {
            cursor.advance(1);
            one_of(cursor, &["synthetic_call"])?;
            cursor.expect(b']')
        }
        _ => origin_array(cursor),
    }
}

/// `{"name" {1,0}}` or `{}`
fn origin_array(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    if cursor.accept(b'}')? {
        return Ok(());
    }
    string(cursor)?;
    cursor.skip_blank()?;
    if cursor.peek() == b'{' {
        list(cursor, int)?;
    }
    cursor.expect(b'}')
}
