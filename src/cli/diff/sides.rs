//! The two modules of a comparison.

use crate::{
    diff::{ChangedComputation, IgnoreSet, ModuleDiff},
    hlo::raw::{CompId, Module},
};

/// Both modules, and what was ignored.
pub(super) struct Sides<'m> {
    pub before: &'m Module,
    pub after: &'m Module,
    pub ignored: IgnoreSet,
}

impl Sides<'_> {
    /// Number of instructions that changed, were removed and were added, those of whole computations included.
    pub(super) fn counts(&self, diff: &ModuleDiff<'_>) -> [usize; 3] {
        let sum = |part: fn(&ChangedComputation<'_>) -> usize| -> usize {
            diff.computations.iter().map(part).sum()
        };
        [
            sum(|one| one.changed.len()),
            sum(|one| one.removed.len()) + instructions_of(self.before, &diff.removed),
            sum(|one| one.added.len()) + instructions_of(self.after, &diff.added),
        ]
    }
}

/// Number of instructions of some computations.
pub(super) fn instructions_of(module: &Module, computations: &[CompId]) -> usize {
    computations.iter().map(|&id| module.instructions(id).len()).sum()
}
