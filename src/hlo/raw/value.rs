//! The forms of attribute values: each is recognized and skipped.

use super::{
    cursor::{Cursor, Parsed},
    shape::ShapeReader,
};

/// The form of an attribute's value. Each is checked when it is read, and kept as its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `true`
    Bool,
    /// `{true,false}` or `true`
    Bools,
    /// `3`
    Int,
    /// `1e-05`
    Float,
    /// `"text"`
    Text,
    /// `"text"` or a JSON object
    TextOrJson,
    /// `{0,1}`
    Ints,
    /// `{{0,1},{2,3}}`
    IntLists,
    /// `{{0,1},{2,3}}` or `[2,4]<=[8]`
    ReplicaGroups,
    /// `%name`, or `{...}` with instructions
    Computation,
    /// `{%a, %b}`
    Computations,
    /// `{%a, %b}`, instructions of the same computation
    Instructions,
    /// A word, one of these
    OneOf(&'static [&'static str]),
    /// `{default,highest}`
    Precisions,
    /// A word such as `dot_bf16_bf16_f32` or `rng_three_fry`
    Word,
    /// `{[0:4], [2:8:2]}`
    SliceRanges,
    /// `0_1x-2_0_1`
    Padding,
    /// `{size=2x2 stride=1x2 pad=0_1x1_1}`
    Window,
    /// `b01f_01io->b01f`
    DimLabels,
    /// `f32[2]`
    Shape,
    /// `{f32[2]{0}, s32[]}`
    Shapes,
    /// `f32[2] {1, 2}`
    Literal,
    /// `{devices=[2,1]<=[2]}`
    Sharding,
    /// `{key="value",other={...}}`
    Dictionary,
    /// `{0, {}: (1, {})}`
    Aliasing,
    /// `{(f32[2]{0})->f32[2]{0}}`
    Signature,
    /// `{...}`, whose content only other tools need
    Group,
}

/// Skips a value of this form.
pub(super) fn skip(form: Form, cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    match form {
        Form::Bool => boolean(cursor),
        Form::Bools if cursor.peek() == b'{' => list(cursor, boolean),
        Form::Bools => boolean(cursor),
        Form::Int => int(cursor),
        Form::Float => float(cursor),
        Form::Text => cursor.string().map(drop),
        Form::TextOrJson if cursor.peek() == b'{' => cursor.skip_group(),
        Form::TextOrJson => cursor.string().map(drop),
        Form::Ints => list(cursor, int),
        // `slice_sizes` of a gather is one list, that of a collective-permute a list of lists.
        Form::IntLists => {
            list(cursor, |cursor| if cursor.peek() == b'{' { list(cursor, int) } else { int(cursor) })
        }
        Form::ReplicaGroups if cursor.peek() == b'{' => list(cursor, |cursor| list(cursor, int)),
        Form::ReplicaGroups if cursor.accept_word(b"mesh")? => mesh_axes(cursor),
        Form::ReplicaGroups => tiles(cursor),
        Form::OneOf(words) => one_of(cursor, words),
        Form::Precisions => {
            list(cursor, |cursor| one_of(cursor, &["default", "high", "highest", "packed_nibble"]))
        }
        Form::Word => cursor.word("a word").map(drop),
        Form::SliceRanges => list(cursor, range),
        Form::Padding => dashed(cursor, "padding such as `0_1x-2_0`", &[2, 3]),
        Form::Window => window(cursor),
        Form::DimLabels => dim_labels(cursor),
        Form::Shape => shape(cursor),
        Form::Shapes => list(cursor, shape),
        Form::Literal => literal(cursor),
        Form::Sharding | Form::Dictionary | Form::Aliasing | Form::Signature | Form::Group => group(cursor),
        Form::Computation | Form::Computations | Form::Instructions => group(cursor),
    }
}

fn boolean(cursor: &mut Cursor<'_>) -> Parsed<()> {
    one_of(cursor, &["true", "false"])
}

fn int(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.int("an integer").map(drop)
}

fn float(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = *cursor;
    let is_number = element(cursor).is_ok()
        && std::str::from_utf8(start.bytes(start.at()..cursor.at()))
            .is_ok_and(|text| text.parse::<f32>().is_ok());
    if is_number { Ok(()) } else { Err(start.unexpected("a number")) }
}

fn one_of(cursor: &mut Cursor<'_>, words: &[&str]) -> Parsed<()> {
    cursor.skip_blank()?;
    let word = cursor.peek_word();
    if !words.iter().any(|known| known.as_bytes() == word) {
        return Err(cursor.unexpected(&format!("one of {}", words.join(", "))));
    }
    cursor.advance(word.len());
    Ok(())
}

/// `{` items with commas between them `}`
fn list<'t>(cursor: &mut Cursor<'t>, mut item: impl FnMut(&mut Cursor<'t>) -> Parsed<()>) -> Parsed<()> {
    cursor.expect(b'{')?;
    if cursor.accept(b'}')? {
        return Ok(());
    }
    loop {
        cursor.skip_blank()?;
        item(cursor)?;
        if !cursor.accept(b',')? {
            return cursor.expect(b'}');
        }
    }
}

/// `[0:4]` or `[2:8:2]`
fn range(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'[')?;
    int(cursor)?;
    cursor.expect(b':')?;
    int(cursor)?;
    if cursor.accept(b':')? {
        int(cursor)?;
    }
    cursor.expect(b']')
}

/// `[2,4]<=[8]` or `[4,2]<=[2,4]T(1,0)`
fn tiles(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() != b'[' {
        return Err(cursor.unexpected("groups such as `{{0,1},{2,3}}` or `[2,2]<=[4]`"));
    }
    cursor.skip_group()?;
    cursor.expect(b'<')?;
    cursor.expect(b'=')?;
    cursor.skip_blank()?;
    if cursor.peek() != b'[' {
        return Err(cursor.unexpected("`[`"));
    }
    cursor.skip_group()?;
    let mut next = *cursor;
    if next.accept_word(b"T")? && next.peek() == b'(' {
        next.skip_group()?;
        *cursor = next;
    }
    Ok(())
}

/// `['x'=2,'y'=4] {'y'}` or `['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}` after `mesh`
fn mesh_axes(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() != b'[' {
        return Err(cursor.unexpected("mesh axes such as `['x'=2,'y'=4]`"));
    }
    cursor.skip_group()?;
    if cursor.accept(b',')? {
        let at = *cursor;
        if !cursor.accept_word(b"device_ids")? {
            return Err(at.unexpected("`device_ids`"));
        }
        cursor.expect(b'=')?;
        cursor.skip_blank()?;
        cursor.skip_group()?;
    }
    cursor.skip_blank()?;
    if cursor.peek() == b'{' { cursor.skip_group() } else { Err(cursor.unexpected("axes such as `{'y'}`")) }
}

/// Dimensions with `x` between them, each of so many integers with `_` between them.
fn dashed(cursor: &mut Cursor<'_>, what: &str, counts: &[usize]) -> Parsed<()> {
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
    Ok(())
}

/// `{size=2x2 stride=1x2 pad=0_1x1_1}`
fn window(cursor: &mut Cursor<'_>) -> Parsed<()> {
    const PARTS: &[&str] = &["size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"];
    cursor.expect(b'{')?;
    let mut seen: Vec<&[u8]> = Vec::new();
    while !cursor.accept(b'}')? {
        let word = cursor.peek_word();
        if seen.contains(&word) {
            return Err(cursor.unexpected("each part of a window once"));
        }
        one_of(cursor, PARTS)?;
        seen.push(word);
        cursor.expect(b'=')?;
        cursor.skip_blank()?;
        match word {
            b"pad" => dashed(cursor, "padding such as `0_1x1_1`", &[2])?,
            _ => dashed(cursor, "sizes such as `2x2`", &[1])?,
        }
    }
    Ok(())
}

/// `b01f_01io->b01f`
fn dim_labels(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let label = |cursor: &mut Cursor<'_>, features: &[u8]| {
        let start = cursor.at();
        while cursor.peek().is_ascii_digit() || cursor.peek() == b'?' || features.contains(&cursor.peek()) {
            cursor.advance(1);
        }
        let mut found: Vec<u8> =
            cursor.bytes(start..cursor.at()).iter().copied().filter(|&c| c != b'?').collect();
        found.sort_unstable();
        let unique = found.windows(2).all(|pair| pair[0] != pair[1]);
        unique && features.iter().all(|feature| found.contains(feature))
    };
    let start = *cursor;
    let mut valid = label(cursor, b"bf") && cursor.peek() == b'_';
    cursor.advance(usize::from(valid));
    valid = valid && label(cursor, b"io") && cursor.peek() == b'-' && cursor.peek_at(1) == b'>';
    cursor.advance(if valid { 2 } else { 0 });
    if valid && label(cursor, b"bf") {
        Ok(())
    } else {
        Err(start.unexpected("labels such as `b01f_01io->b01f`"))
    }
}

fn shape(cursor: &mut Cursor<'_>) -> Parsed<()> {
    ShapeReader::new().read(cursor).map(drop)
}

/// `f32[2] {1, 2}`, or several in parentheses
fn literal(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    if cursor.peek() == b'(' {
        return cursor.skip_group();
    }
    shape(cursor)?;
    cursor.skip_blank()?;
    match cursor.peek() {
        b'{' | b'(' => cursor.skip_group(),
        _ => element(cursor),
    }
}

/// One number or word.
pub(super) fn element(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = cursor.at();
    while cursor.peek().is_ascii_alphanumeric() || matches!(cursor.peek(), b'.' | b'-' | b'+') {
        cursor.advance(1);
    }
    if cursor.at() == start { Err(cursor.unexpected("a number, `true` or `false`")) } else { Ok(()) }
}

fn group(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() == b'{' { cursor.skip_group() } else { Err(cursor.unexpected("`{`")) }
}

/// Skips the value of an attribute whose form is unknown: a string, a group, or words and groups without blanks.
pub(super) fn skip_unknown(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    let start = cursor.at();
    loop {
        match cursor.peek() {
            b'"' => cursor.skip_string()?,
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
