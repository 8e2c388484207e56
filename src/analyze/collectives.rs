//! The collectives of a module.

use std::fmt;

use super::executions::Executions;
use crate::hlo::raw::{CompId, InstrRef, Module, Opcode, ReplicaGroups, Shape, ShapeId};

/// What a collective does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Each device of a group receives the shards of all.
    AllGather,
    /// Each device of a group receives the sum of all values.
    AllReduce,
    /// Each device of a group sends a shard to each other one.
    AllToAll,
    /// One device of a group sends to all others.
    Broadcast,
    /// Devices send to others in pairs.
    Permute,
    /// Each device of a group sends and receives shards of different sizes.
    RaggedAllToAll,
    /// Each device of a group receives a shard of the sum.
    ReduceScatter,
}

impl CollectiveKind {
    /// The kind of an opcode, synchronous or asynchronous; of the latter, `-start` is the collective.
    fn of(opcode: Opcode) -> Option<Self> {
        match opcode {
            Opcode::AllGather | Opcode::AllGatherStart => Some(Self::AllGather),
            Opcode::AllReduce | Opcode::AllReduceStart => Some(Self::AllReduce),
            Opcode::AllToAll => Some(Self::AllToAll),
            Opcode::CollectiveBroadcast => Some(Self::Broadcast),
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart => Some(Self::Permute),
            Opcode::RaggedAllToAll => Some(Self::RaggedAllToAll),
            Opcode::ReduceScatter => Some(Self::ReduceScatter),
            _ => None,
        }
    }

    /// The name of the synchronous opcode.
    pub const fn name(self) -> &'static str {
        let opcode = match self {
            Self::AllGather => Opcode::AllGather,
            Self::AllReduce => Opcode::AllReduce,
            Self::AllToAll => Opcode::AllToAll,
            Self::Broadcast => Opcode::CollectiveBroadcast,
            Self::Permute => Opcode::CollectivePermute,
            Self::RaggedAllToAll => Opcode::RaggedAllToAll,
            Self::ReduceScatter => Opcode::ReduceScatter,
        };
        opcode.name()
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A collective.
#[derive(Clone)]
pub struct Collective<'m> {
    /// The computation that it is in.
    pub computation: CompId,
    /// The instruction; the `-start` of an asynchronous one.
    pub instr: InstrRef<'m>,
    /// What it does.
    pub kind: CollectiveKind,
    /// Between which devices; `None` where the attribute has a form that is unknown.
    pub groups: Option<ReplicaGroups>,
    /// Bytes of the full array on one device: what an all-gather returns, what any other takes.
    pub bytes: u64,
    /// How often it runs in one run of the module.
    pub count: f64,
}

/// The collectives of the computations that run, in order.
pub fn collectives<'m>(module: &'m Module, executions: &Executions<'_>) -> Vec<Collective<'m>> {
    let mut found = Vec::new();
    for computation in module.ids().filter(|&id| executions.count(id) > 0.0) {
        for instr in module.instructions(computation) {
            let Some(kind) = kind(instr) else { continue };
            let operands = (0..instr.operands().len()).filter_map(|position| instr.operand(position));
            let operands: u64 = operands.map(|operand| bytes(module, operand.shape())).sum();
            let bytes = match kind {
                CollectiveKind::AllGather => gathered(module, instr, operands),
                _ => operands,
            };
            let count = executions.count(computation);
            found.push(Collective { computation, instr, kind, groups: instr.replica_groups(), bytes, count });
        }
    }
    found
}

/// The kind of a collective; of an `async-start`, that of the opcode which its spelling names.
fn kind(instr: InstrRef<'_>) -> Option<CollectiveKind> {
    match (instr.opcode(), instr.wrapped()) {
        (Opcode::AsyncStart, Some(wrapped)) => CollectiveKind::of(wrapped),
        (Opcode::AsyncUpdate | Opcode::AsyncDone, _) => None,
        (opcode, _) => CollectiveKind::of(opcode),
    }
}

/// Bytes of what an all-gather returns. The result of a `-start` is a tuple of the operands and that.
fn gathered(module: &Module, instr: InstrRef<'_>, operands: u64) -> u64 {
    let result = bytes(module, instr.shape());
    let is_start = matches!(instr.opcode(), Opcode::AllGatherStart | Opcode::AsyncStart);
    if is_start { result.saturating_sub(operands) } else { result }
}

/// Bytes of the elements of all arrays of a shape; dimensions without a bound count as empty.
fn bytes(module: &Module, shape: ShapeId) -> u64 {
    match module.shapes().get(shape) {
        Shape::Array(array) => array.dense_bytes().unwrap_or(0),
        Shape::Tuple(elements) => elements.iter().map(|&element| bytes(module, element)).sum(),
        &Shape::Buffer(inner) => bytes(module, inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    #[test]
    fn collectives_of_a_loop_count_its_iterations() {
        let text = r#"
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
condition { t = (s32[], bf16[8,4]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT }
body {
  t = (s32[], bf16[8,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = bf16[8,4] get-tuple-element(t), index=1
  start = (bf16[8,4], bf16[32,4]) all-gather-start(x), replica_groups=[1,4]<=[4], dimensions={0}
  whole = bf16[32,4] all-gather-done(start)
  scatter = ((bf16[32,4]), bf16[8,4], s32[]) reduce-scatter-start(whole), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add
  shard = bf16[8,4] reduce-scatter-done(scatter)
  ROOT r = (s32[], bf16[8,4]) tuple(next, shard)
}
ENTRY e {
  x = bf16[8,4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], bf16[8,4]) tuple(zero, x)
  w = (s32[], bf16[8,4]) while(init), condition=condition, body=body
  y = bf16[8,4] get-tuple-element(w), index=1
  ROOT s = bf16[8,4] all-reduce(y), replica_groups={}, to_apply=add
}"#;
        let module = parse(text, "loop.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let executions = Executions::of(&module);
        assert_eq!(executions.unknown_loops, Vec::<&str>::new());
        let found = collectives(&module, &executions);
        let found: Vec<_> = found
            .iter()
            .map(|c| (c.kind.name(), c.bytes, c.count, c.groups.as_ref().and_then(ReplicaGroups::group_size)))
            .collect();
        assert_eq!(
            found,
            [
                ("all-gather", 256, 6.0, Some(4)),
                ("reduce-scatter", 256, 6.0, Some(4)),
                ("all-reduce", 64, 1.0, None)
            ]
        );
    }
}
