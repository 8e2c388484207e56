//! Tables beside a module: what some of its instructions have.

use std::collections::BTreeMap;

use super::ids::{CompId, InstrId};

/// Values by instruction.
pub(super) type SideTable<T> = BTreeMap<(CompId, InstrId), T>;

/// Gives the instructions of `to` what those of `from` with the same ids have.
pub(super) fn copy<T: Clone>(table: &mut SideTable<T>, from: CompId, to: CompId) {
    let all = (from, InstrId::new(0))..=(from, InstrId::new(u32::MAX as usize));
    let copies: Vec<_> = table.range(all).map(|(&(_, instr), found)| ((to, instr), found.clone())).collect();
    table.extend(copies);
}
