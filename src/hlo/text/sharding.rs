//! Shardings and frontend attributes.

use std::collections::BTreeMap;

use super::{cursor::TokenCursor, lex::HloTokenKind};
use crate::base::Diagnostic;
use crate::hlo::{Sharding, TileAssignment};

impl TokenCursor<'_> {
    /// `{replicated}`, `{devices=[2,4]<=[8]}`, or several in another pair of braces.
    pub(super) fn sharding(&mut self) -> Result<Sharding, Diagnostic> {
        self.expect('{')?;
        if self.kind() != HloTokenKind::Mark('{') {
            return self.array_sharding();
        }
        let mut elements = Vec::new();
        loop {
            self.expect('{')?;
            elements.push(self.array_sharding()?);
            if self.accept('}') {
                return Ok(Sharding::Tuple(elements));
            }
            self.expect(',')?;
        }
    }

    /// The text of a sharding after the opening brace, and the closing brace.
    fn array_sharding(&mut self) -> Result<Sharding, Diagnostic> {
        let sharding = if self.accept_word("replicated") {
            Sharding::Replicated
        } else if self.accept_word("maximal") {
            self.keyword("device")?;
            self.expect('=')?;
            Sharding::Maximal(self.int()?)
        } else if self.kind() == HloTokenKind::Word("devices") {
            self.tiling()?
        } else {
            return Err(self.unexpected("`replicated`, `maximal` or `devices`"));
        };
        self.expect('}')?;
        Ok(sharding)
    }

    /// `devices=[4,1,2]<=[4,2]T(1,0) last_tile_dim_replicate`
    fn tiling(&mut self) -> Result<Sharding, Diagnostic> {
        let at = self.at();
        self.keyword("devices")?;
        self.expect('=')?;
        let mut tiles = self.ints_in('[', ']')?;
        let devices = if self.accept('<') { self.iota()? } else { self.listed()? };
        let replicates = self.accept_word("last_tile_dim_replicate");
        let replicas = if replicates { tiles.pop().unwrap_or(1) } else { 1 };
        Sharding::tiled(tiles, replicas, devices).map_err(|error| error.located(at.location()))
    }

    /// `=[4,2]T(1,0)`
    fn iota(&mut self) -> Result<TileAssignment, Diagnostic> {
        self.expect('=')?;
        let reshape = self.ints_in('[', ']')?;
        let transposed = self.accept_word("T");
        let perm = if transposed { self.ints_in('(', ')')? } else { (0..reshape.len()).collect() };
        Ok(TileAssignment::Iota { reshape, perm })
    }

    /// `0,2,1,3`
    fn listed(&mut self) -> Result<TileAssignment, Diagnostic> {
        let mut devices = vec![self.int()?];
        while self.accept(',') {
            devices.push(self.int()?);
        }
        Ok(TileAssignment::Listed(devices))
    }

    /// `{name="value",name={value}}`
    pub(super) fn frontend_attributes(&mut self) -> Result<BTreeMap<String, String>, Diagnostic> {
        let mut attributes = BTreeMap::new();
        self.list('{', '}', |cursor| {
            let at = cursor.at();
            let key = cursor.attr_name()?;
            let value = match cursor.kind() {
                HloTokenKind::Str(_) => cursor.string()?,
                _ => cursor.dict()?.to_owned(),
            };
            match attributes.insert(key.to_owned(), value) {
                None => Ok(()),
                Some(_) => Err(at.error(format!("duplicate frontend attribute `{key}`"))),
            }
        })?;
        Ok(attributes)
    }
}
