//! A module between parsing and name resolution.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lex::Position;
use crate::{
    base::Diagnostic,
    hlo::{Alias, CompId, Computation, InstrId, OpMetadata},
};

/// Maximum number of errors that are reported. Text after so many errors is rarely worth reading.
pub(super) const MAX_ERRORS: usize = 100;

/// A parsed module. Computation ids are in the order in which names are first mentioned.
#[derive(Default)]
pub(super) struct UnresolvedModule<'a> {
    pub name: String,
    pub aliases: Vec<Alias>,
    pub host_parameters: BTreeSet<usize>,
    pub frontend_attributes: BTreeMap<String, String>,
    pub entry: Option<CompId>,
    ids: HashMap<&'a str, CompId>,
    /// The name of each id, and where it is first mentioned.
    pub mentions: Vec<(&'a str, Position)>,
    pub definitions: HashMap<CompId, UnresolvedComputation>,
    /// The definitions in the order of the text.
    pub order: Vec<CompId>,
}

/// A parsed computation.
pub(super) struct UnresolvedComputation {
    pub computation: Computation,
    pub at: Position,
    /// The position of each instruction.
    pub positions: Vec<Position>,
    /// Of the instructions that have any.
    pub metadata: Vec<(InstrId, OpMetadata)>,
}

impl<'a> UnresolvedModule<'a> {
    /// The id of a computation that is defined or called at `at`.
    pub(super) fn mention(&mut self, name: &'a str, at: Position) -> CompId {
        *self.ids.entry(name).or_insert_with(|| {
            self.mentions.push((name, at));
            CompId::new(self.mentions.len() - 1)
        })
    }

    /// The name of a computation.
    pub(super) fn name_of(&self, id: CompId) -> &'a str {
        self.mentions[id.index()].0
    }

    /// Adds the definition of a computation.
    pub(super) fn define(&mut self, id: CompId, definition: UnresolvedComputation) -> Result<(), Diagnostic> {
        let at = definition.at;
        if let Some(first) = self.definitions.insert(id, definition) {
            let message = format!("duplicate computation name; first defined at line {}", first.at.line);
            return Err(at.error(message).on(self.name_of(id)));
        }
        self.order.push(id);
        Ok(())
    }

    /// The computations that a computation calls.
    pub(super) fn callees(&self, id: CompId) -> Vec<CompId> {
        let instrs = self.definitions.get(&id).into_iter().flat_map(|found| &found.computation.instrs);
        instrs.flat_map(|instr| instr.attrs.callees()).collect()
    }
}
