//! The structural comparison of two modules: what changed, and where.
//!
//! Computations are compared by what they compute. Every instruction gets a number that depends on its opcode, shape,
//! attributes, called computations and operands, and is the same for the same value in both modules; so two computations are
//! equal whose roots have one number, and whose instructions have the same numbers. Nothing else counts that [`IgnoreSet`]
//! has; by default neither names nor order nor layouts nor metadata do. Operands of commutative opcodes are not reordered.
//!
//! In computations that are not equal, instructions are matched from their operands and from their users, then by the names of
//! their sources, then by opcode and shape. So a match is a guess where the surroundings changed too, and a change of one
//! instruction may be shown as one removed and one added.
//!
//! A custom call that annotates its operand with a sharding is compared like any instruction, but what uses it is compared as
//! if it used the operand where only one module has the annotation; where shardings are ignored, so are annotations. Elements
//! of a constant that a text leaves out, `{...}`, are unknown: constants of that shape count as equal, and are counted.
//!
//! ```
//! use hloom::{
//!     diff::{ChangedPart, IgnoreSet, diff},
//!     hlo::raw,
//! };
//!
//! let before = raw::parse("ENTRY main { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }", "before.hlo")?;
//! let after = raw::parse("ENTRY main { x = f32[9] parameter(0) ROOT y = f32[9] negate(x) }", "after.hlo")?;
//! let found = diff(&before, &after, IgnoreSet::default());
//! assert!(!found.equal);
//! let groups = found.computations[0].groups();
//! assert_eq!(groups[0].change.part, ChangedPart::Shape);
//! assert_eq!((groups[0].change.after.as_deref(), groups[0].instrs.len()), (Some("f32[9]"), 2));
//! # Ok::<(), hloom::base::Diagnostics>(())
//! ```

mod align;
mod attributes;
mod body;
mod change;
mod classes;
mod compare;
mod describe;
mod ignore;
mod literal;
mod numbers;
mod pairs;
#[cfg(test)]
mod tests;
mod totals;

pub use change::{AlignedInstr, Change, ChangeGroup, ChangedComputation, ChangedInstr, ChangedPart};
pub use describe::describe;
pub use ignore::{Ignore, IgnoreSet};
pub use totals::{CollectiveClass, Counted, SideBySide, Totals};

use crate::{
    analyze::Executions,
    hlo::raw::{CompId, Module},
};
use classes::Classifier;
use compare::Comparison;
use pairs::{Numbered, pair};

/// The differences of two modules.
#[derive(Clone)]
pub struct ModuleDiff<'m> {
    /// Whether the entry computations and the attributes of the modules are equal in all that is not ignored.
    pub equal: bool,
    /// Number of constants of each module whose values were not compared: the text of one of the modules leaves out the values
    /// of that shape, as in `{...}`.
    pub unknown_constants: [usize; 2],
    /// Changes of the attributes of the modules.
    pub module: Vec<Change<'m>>,
    /// Number of computations that are equal.
    pub equal_computations: usize,
    /// Computations in both modules that differ: the entry first, callers before their callees. Those that differ only by
    /// what they call have no changes of their own.
    pub computations: Vec<ChangedComputation<'m>>,
    /// Equal computations that correspond, in the order of the first module.
    pub equal_pairs: Vec<(CompId, CompId)>,
    /// Computations that only the first module has.
    pub removed: Vec<CompId>,
    /// Computations that only the second module has.
    pub added: Vec<CompId>,
    /// Both modules in numbers.
    pub side_by_side: SideBySide,
}

/// Compares two modules. The time is proportional to their sizes, apart from sorting.
pub fn diff<'m>(before: &'m Module, after: &'m Module, ignored: IgnoreSet) -> ModuleDiff<'m> {
    let mut classifier = Classifier::new(ignored, [before, after]);
    let (of_a, of_b) = (classifier.module(before), classifier.module(after));
    let a = Numbered { module: before, classes: &of_a };
    let b = Numbered { module: after, classes: &of_b };
    let pairs = pair(a, b, &mut classifier);
    let runs = [Executions::of(before), Executions::of(after)];
    let changes = |matched| {
        let mut changes = Comparison { a, b, pairs: &pairs, matched }.changes(&mut classifier);
        changes.runs = [runs[0].count(changes.before), runs[1].count(changes.after)];
        changes
    };
    let computations: Vec<_> = pairs.unequal.iter().map(changes).collect();
    let module = compare::module_changes(before, after, ignored);
    let left = |ids: &[Option<CompId>], module: &Module| {
        module.ids().filter(|id| ids[id.index()].is_none()).collect::<Vec<_>>()
    };
    let (removed, added) = (left(&pairs.to_b, before), left(&pairs.to_a, after));
    let is_unequal = |id: &CompId| pairs.matched.contains_key(id);
    let equal_pairs = before.ids().filter(|id| !is_unequal(id));
    let equal_pairs = equal_pairs.filter_map(|id| Some((id, pairs.to_b[id.index()]?))).collect();
    ModuleDiff {
        equal: module.is_empty() && a.number(before.entry()) == b.number(after.entry()),
        unknown_constants: [(before, &of_a), (after, &of_b)]
            .map(|(module, classes)| classifier.unknown_constants(module, classes)),
        module,
        equal_computations: before.ids().len() - removed.len() - computations.len(),
        computations,
        equal_pairs,
        removed,
        added,
        side_by_side: SideBySide::of([before, after], &runs),
    }
}
