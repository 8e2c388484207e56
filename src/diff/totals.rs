//! Both modules side by side: instructions by opcode, floating-point operations, collectives.

use std::collections::BTreeMap;

use crate::{
    analyze::{Collective, CollectiveKind, Executions, Flops, Memory, Traffic, collectives, flops},
    base::MemorySpace,
    hlo::raw::{Module, ReplicaGroups},
};

/// What a module amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Instructions of all computations.
    pub instructions: usize,
    /// Computations.
    pub computations: usize,
    /// Floating-point operations of one run on one device.
    pub flops: Flops,
    /// Collectives of one run.
    pub collectives: f64,
    /// Bytes of the full arrays of the collectives of one run, on one device.
    pub collective_bytes: f64,
    /// Bytes that instructions read and write.
    pub bytes: f64,
    /// Bytes in use on one device at the peak; `None` of a module without a schedule.
    pub peak_bytes: Option<u64>,
    /// Loops whose number of iterations is unknown, and which count as one.
    pub unknown_loops: usize,
}

/// Something that is counted in both modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<K, N> {
    /// What is counted.
    pub key: K,
    /// The number in the first module.
    pub before: N,
    /// The number in the second module.
    pub after: N,
}

/// Collectives of one kind and size between the same devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveClass {
    /// What they do.
    pub kind: CollectiveKind,
    /// Bytes of the full array on one device.
    pub bytes: u64,
    /// Between which devices; `None` if that is unknown.
    pub groups: Option<ReplicaGroups>,
}

/// Two modules side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// What each module amounts to.
    pub totals: [Totals; 2],
    /// Instructions by opcode, in alphabetical order.
    pub opcodes: Vec<Counted<String, usize>>,
    /// Collectives of one run, by kind, size and devices.
    pub collectives: Vec<Counted<CollectiveClass, f64>>,
}

impl SideBySide {
    pub(super) fn of([a, b]: [&Module; 2], [of_a, of_b]: &[Executions<'_>; 2]) -> Self {
        let (found_a, found_b) = (collectives(a, of_a), collectives(b, of_b));
        let mut opcodes: BTreeMap<String, [usize; 2]> = BTreeMap::new();
        for (side, module) in [a, b].into_iter().enumerate() {
            for instr in module.ids().flat_map(|id| module.instructions(id)) {
                match (instr.wrapped(), opcodes.get_mut(instr.opcode().name())) {
                    (None, Some(counts)) => counts[side] += 1,
                    _ => opcodes.entry(instr.opcode_text()).or_default()[side] += 1,
                }
            }
        }
        let opcodes = opcodes.into_iter().map(|(key, [before, after])| Counted { key, before, after });
        Self {
            totals: [totals(a, of_a, &found_a), totals(b, of_b, &found_b)],
            opcodes: opcodes.collect(),
            collectives: classes(&found_a, &found_b),
        }
    }
}

fn totals(module: &Module, executions: &Executions<'_>, found: &[Collective<'_>]) -> Totals {
    Totals {
        instructions: module.num_instructions(),
        computations: module.num_computations(),
        flops: flops(module, executions),
        collectives: found.iter().fold(0.0, |sum, one| sum + one.count),
        collective_bytes: found.iter().fold(0.0, |sum, one| sum + one.count * one.bytes as f64),
        bytes: Traffic::of(module).total(executions).total(),
        peak_bytes: module.is_scheduled().then(|| Memory::of(module).peak(MemorySpace::Device.space()).bytes),
        unknown_loops: executions.unknown_loops.len(),
    }
}

fn classes(a: &[Collective<'_>], b: &[Collective<'_>]) -> Vec<Counted<CollectiveClass, f64>> {
    // The devices of all collectives of a module are few distinct lists.
    let mut groups: Vec<&Option<ReplicaGroups>> = Vec::new();
    let mut counts: BTreeMap<(CollectiveKind, u64, usize), [f64; 2]> = BTreeMap::new();
    for (side, found) in [a, b].into_iter().enumerate() {
        for one in found {
            let index = groups.iter().position(|groups| **groups == one.groups).unwrap_or_else(|| {
                groups.push(&one.groups);
                groups.len() - 1
            });
            counts.entry((one.kind, one.bytes, index)).or_default()[side] += one.count;
        }
    }
    let class = |((kind, bytes, index), [before, after]): ((_, _, usize), [f64; 2])| {
        let groups: &Option<ReplicaGroups> = groups[index];
        Counted { key: CollectiveClass { kind, bytes, groups: groups.clone() }, before, after }
    };
    counts.into_iter().map(class).collect()
}
