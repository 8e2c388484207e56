//! How often each computation runs.

use super::loops::trip_count;
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode};

/// How often each computation runs in one run of the module, and the loops whose trip count is unknown.
#[derive(Clone, Debug)]
pub struct Executions<'m> {
    counts: Vec<f64>,
    /// Names of `while` instructions whose body is counted once, since the number of iterations depends on data.
    pub unknown_loops: Vec<&'m str>,
}

impl<'m> Executions<'m> {
    /// Counts from the entry downward. The branches of a conditional count as if each ran; computations that are applied to
    /// elements, such as that of a reduce, do not run by themselves.
    pub fn of(module: &'m Module) -> Self {
        let mut counts = vec![0.0; module.ids().len()];
        let mut unknown_loops = Vec::new();
        counts[module.entry().index()] = 1.0;
        // Callees come before their callers.
        for id in module.ids().rev() {
            let count = counts[id.index()];
            if count == 0.0 {
                continue;
            }
            for instr in module.instructions(id) {
                let trips = (instr.opcode() == Opcode::While).then(|| trip_count(module, instr));
                if trips == Some(None) {
                    unknown_loops.push(instr.name());
                }
                let trips = trips.flatten();
                for (attr, callee) in instr.callees() {
                    counts[callee.index()] += count * runs(instr, attr, trips);
                }
            }
        }
        Self { counts, unknown_loops }
    }

    /// How often a computation runs.
    pub fn count(&self, id: CompId) -> f64 {
        self.counts[id.index()]
    }
}

/// The computations that an instruction calls, with the attributes that name them, and how often each runs when the instruction
/// runs once, by the rules of [`Executions::of`].
pub fn callee_runs<'m>(
    module: &'m Module,
    instr: InstrRef<'m>,
) -> impl Iterator<Item = (AttrName, CompId, f64)> {
    let trips = trip_count(module, instr);
    instr.callees().map(move |(attr, callee)| (attr, callee, runs(instr, attr, trips)))
}

/// How often a computation runs that an attribute names, in one run of the instruction, which is a loop of so many iterations.
fn runs(instr: InstrRef<'_>, attr: AttrName, trips: Option<u64>) -> f64 {
    let trips = trips.map_or(1.0, |trips| trips as f64);
    match (instr.opcode(), attr) {
        (Opcode::While, AttrName::Body) => trips,
        (Opcode::While, AttrName::Condition) => trips + 1.0,
        // The start runs it; the others name it.
        (Opcode::AsyncUpdate | Opcode::AsyncDone, _) => 0.0,
        (Opcode::Call, _) | (_, AttrName::Calls | AttrName::CalledComputations) => 1.0,
        (Opcode::Conditional, _) => 1.0,
        _ => 0.0,
    }
}
