//! Shardings and groups of devices.

use super::{
    metadata::metadata_or_list,
    parts::{between, field, int, list, one_of, string},
};
use crate::hlo::raw::cursor::{Cursor, Parsed, SyntaxError};

/// `{devices=[2,1]<=[2]}`, `{replicated}`, `{mesh['x'=2], [{'x'}]}`, or one for each array of a tuple: `{{replicated}, {manual}}`
pub(super) fn sharding(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut next = *cursor;
    next.expect(b'{')?;
    next.skip_blank()?;
    match next.peek() {
        b'{' | b'}' => list(cursor, single).map(drop),
        _ => single(cursor),
    }
}

fn single(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'{')?;
    cursor.skip_blank()?;
    match cursor.peek_word() {
        word @ (b"mesh" | b"maximal_mesh") => {
            cursor.advance(word.len());
            if word == b"mesh" { by_mesh(cursor) } else { maximal_mesh(cursor) }
        }
        _ => by_tiles(cursor),
    }
}

/// What the parts of a sharding without a mesh are.
#[derive(Default)]
struct Parts {
    /// `replicated`, `manual`, `maximal` and the like.
    kinds: Vec<&'static str>,
    /// Devices that are listed one by one.
    devices: usize,
    has_tiles: bool,
    is_iota: bool,
}

/// `devices=[2,2]<=[4] last_tile_dims={manual}}` and so on, after `{`
fn by_tiles(cursor: &mut Cursor<'_>) -> Parsed<()> {
    const KINDS: &[&str] = &["replicated", "maximal", "manual", "unknown", "unreduced"];
    let start = cursor.at();
    let mut parts = Parts::default();
    while !cursor.accept(b'}')? {
        let word = cursor.peek_word();
        if let Some(kind) = KINDS.iter().find(|kind| kind.as_bytes() == word) {
            cursor.advance(word.len());
            parts.kinds.push(kind);
            continue;
        }
        match word {
            b"last_tile_dim_replicate" => cursor.advance(word.len()),
            b"shard_as" | b"shard_like" => {
                cursor.advance(word.len());
                int(cursor)?;
            }
            _ => match field(cursor, &["devices", "device", "last_tile_dims", "metadata"])? {
                "devices" => tiles(cursor, &mut parts)?,
                "device" => {
                    int(cursor)?;
                    parts.devices = 1;
                }
                "metadata" => metadata_or_list(cursor)?,
                _ => {
                    list(cursor, |cursor| one_of(cursor, &["manual", "replicated", "unreduced", "maximal"]))?;
                }
            },
        }
    }
    parts.check().map_err(|message| SyntaxError::new(start, message))
}

impl Parts {
    fn check(&self) -> Result<(), &'static str> {
        match self.kinds.first() {
            None if !self.has_tiles => Err("expected `devices=` with the tiles of a sharding, found none"),
            None if !self.is_iota && self.devices < 2 => {
                Err("expected a tiled sharding of two or more devices, found fewer")
            }
            None => Ok(()),
            Some(_) if self.kinds.contains(&"replicated") && self.devices > 0 => {
                Err("expected no devices in a replicated sharding, found some")
            }
            Some(_) if self.kinds.contains(&"replicated") => Ok(()),
            Some(_) if self.kinds.contains(&"maximal") => {
                if self.devices == 1 {
                    Ok(())
                } else {
                    Err("expected `device=` once in a maximal sharding")
                }
            }
            Some(_) if self.devices > 0 => {
                Err("expected no devices in a manual, unknown or unreduced sharding, found some")
            }
            Some(_) => Ok(()),
        }
    }
}

/// `[2,2]0,1,2,3` or `[2,2]<=[4]`
fn tiles(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Parsed<()> {
    parts.has_tiles = true;
    dims(cursor)?;
    cursor.skip_blank()?;
    if cursor.peek() == b'<' {
        parts.is_iota = true;
        return iota(cursor);
    }
    loop {
        int(cursor)?;
        parts.devices += 1;
        if !cursor.accept(b',')? {
            return Ok(());
        }
    }
}

/// `[2,4]`. Returns the number of dimensions.
fn dims(cursor: &mut Cursor<'_>) -> Parsed<usize> {
    cursor.skip_blank()?;
    let at = *cursor;
    match between(cursor, [b'[', b']'], int)? {
        0 => Err(at.unexpected("one dimension or more")),
        count => Ok(count),
    }
}

/// `<=[4,2]T(1,0)`
fn iota(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'<')?;
    cursor.expect(b'=')?;
    numbering(cursor)
}

/// `[8]`, or several dimensions and their order: `[4,2]T(1,0)`
fn numbering(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let rank = dims(cursor)?;
    if rank == 1 {
        return Ok(());
    }
    if !cursor.accept_word(b"T")? {
        return Err(cursor.unexpected("the order of the dimensions, such as `T(1,0)`"));
    }
    let at = cursor.at();
    let found = between(cursor, [b'(', b')'], |cursor| {
        let at = *cursor;
        let dim = cursor.int("a dimension")?;
        let is_dim = usize::try_from(dim).is_ok_and(|dim| dim < rank);
        if is_dim { Ok(()) } else { Err(at.unexpected(&format!("a dimension below {rank}"))) }
    })?;
    if found == rank {
        return Ok(());
    }
    Err(SyntaxError::new(at, format!("expected the order of {rank} dimensions, found {found}")))
}

/// `['x'=2,'y'=4]` with `, device_ids=(...)`, after `mesh`
fn mesh(cursor: &mut Cursor<'_>) -> Parsed<()> {
    between(cursor, [b'[', b']'], |cursor| {
        string(cursor)?;
        cursor.expect(b'=')?;
        int(cursor)
    })?;
    let mut next = *cursor;
    if !next.accept(b',')? || !next.accept_word(b"device_ids")? {
        return Ok(());
    }
    next.expect(b'=')?;
    next.expect(b'(')?;
    next.skip_blank()?;
    if next.peek() == b'[' {
        numbering(&mut next)?;
    } else {
        while !matches!(next.peek(), b')') {
            int(&mut next)?;
            if !next.accept(b',')? {
                break;
            }
            next.skip_blank()?;
        }
    }
    next.expect(b')')?;
    *cursor = next;
    Ok(())
}

/// `'x'`, or a part of an axis: `'x':(2)4`
fn axis(cursor: &mut Cursor<'_>) -> Parsed<()> {
    string(cursor)?;
    if cursor.accept(b':')? {
        cursor.expect(b'(')?;
        int(cursor)?;
        cursor.expect(b')')?;
        int(cursor)?;
    }
    Ok(())
}

/// `{'x', ?}`: the axes of one dimension; after `?` nothing follows.
fn dim_axes(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut is_open = false;
    list(cursor, |cursor| {
        if is_open {
            return Err(cursor.unexpected("`}` after `?`"));
        }
        is_open = cursor.accept(b'?')?;
        if is_open { Ok(()) } else { axis(cursor) }
    })
    .map(drop)
}

/// `['x'=4,'y'=2], [{'x'}, {'y', ?}], replicated={'z'}}` after `{mesh`
fn by_mesh(cursor: &mut Cursor<'_>) -> Parsed<()> {
    mesh(cursor)?;
    cursor.accept(b',')?;
    cursor.skip_blank()?;
    if let word @ (b"replicated" | b"unreduced" | b"manual") = cursor.peek_word() {
        cursor.advance(word.len());
        return rest(cursor, &["metadata"]);
    }
    between(cursor, [b'[', b']'], dim_axes)?;
    rest(cursor, &["replicated", "unreduced", "manual", "metadata"])
}

/// `[device_id=3]}` after `{maximal_mesh`
fn maximal_mesh(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'[')?;
    field(cursor, &["device_id"])?;
    int(cursor)?;
    cursor.expect(b']')?;
    rest(cursor, &["metadata"])
}

/// The fields at the end of a sharding by a mesh, and `}`
fn rest(cursor: &mut Cursor<'_>, names: &[&'static str]) -> Parsed<()> {
    while !cursor.accept(b'}')? {
        cursor.expect(b',')?;
        match field(cursor, names)? {
            "metadata" => metadata_or_list(cursor)?,
            _ => list(cursor, axis).map(drop)?,
        }
    }
    Ok(())
}

/// `{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)` or `mesh['x'=2,'y'=4] {'y'}`
pub(super) fn replica_groups(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() == b'{' {
        return list(cursor, |cursor| list(cursor, int).map(drop)).map(drop);
    }
    if cursor.accept_word(b"mesh")? {
        mesh(cursor)?;
        cursor.skip_blank()?;
        let at = *cursor;
        return match list(cursor, axis)? {
            0 => Err(at.unexpected("one axis or more, such as `{'y'}`")),
            _ => Ok(()),
        };
    }
    if cursor.peek() != b'[' {
        return Err(cursor.unexpected("groups such as `{{0,1},{2,3}}` or `[2,2]<=[4]`"));
    }
    let at = cursor.at();
    let rank = dims(cursor)?;
    if rank != 2 {
        let message = format!("expected the number of groups and their size, found {rank} dimensions");
        return Err(SyntaxError::new(at, message));
    }
    iota(cursor)
}
