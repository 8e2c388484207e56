//! The collectives of a module.

use std::{fmt, ops::Range};

use super::{
    axes::{axes, permute_axes},
    executions::Executions,
    op_name::nearest_op_names,
};
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode, ReplicaGroups, Shape, ShapeId};

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
    /// The source operation: the `op_name` of its metadata, or of the nearest operand or user that has one.
    pub op_name: Option<&'m str>,
    /// The instructions between start and done, by index in the computation; `None` if it is synchronous.
    pub between: Option<Range<usize>>,
    /// The number of those that compute.
    pub num_computing: usize,
}

impl<'m> Collective<'m> {
    /// Whether nothing is computed while it communicates. The order of the instructions decides, so that this has no meaning in a
    /// module that is not scheduled.
    pub fn is_exposed(&self) -> bool {
        self.num_computing == 0
    }

    /// The instructions that compute while it communicates.
    pub fn overlapped(&self, module: &'m Module) -> impl Iterator<Item = InstrRef<'m>> + use<'m> {
        let Range { start, end } = self.between.clone().unwrap_or(0..0);
        let instrs = module.instructions(self.computation).skip(start).take(end - start);
        instrs.filter(|&instr| computes(module, instr))
    }

    /// The axes of a mesh along which it communicates: see [`axes`].
    pub fn axes<'n>(&self, mesh: &[(&'n str, usize)]) -> Option<Vec<&'n str>> {
        match self.kind {
            CollectiveKind::Permute => permute_axes(self.groups.as_ref()?, mesh),
            _ => axes(self.groups.as_ref().unwrap_or(&ReplicaGroups::All), mesh),
        }
    }
}

/// The collectives of the computations that run, in order.
pub fn collectives<'m>(module: &'m Module, executions: &Executions<'_>) -> Vec<Collective<'m>> {
    let mut found = Vec::new();
    let is_wrapped = wrapped_computations(module);
    for computation in module.ids().filter(|&id| executions.count(id) > 0.0 && !is_wrapped[id.index()]) {
        let first = found.len();
        for (index, instr) in module.instructions(computation).enumerate() {
            let Some(kind) = kind(module, instr) else { continue };
            let operands = (0..instr.operands().len()).filter_map(|position| instr.operand(position));
            let operands: u64 = operands.map(|operand| bytes(module, operand.shape())).sum();
            let bytes = match kind {
                CollectiveKind::AllGather => gathered(module, instr, operands),
                _ => operands,
            };
            let count = executions.count(computation);
            let groups = instr.replica_groups().or_else(|| wrapped(module, instr)?.replica_groups());
            let op_name = instr.metadata("op_name").filter(|name| !name.is_empty());
            let one = Collective {
                computation,
                instr,
                kind,
                groups,
                bytes,
                count,
                op_name,
                between: None,
                num_computing: 0,
            };
            found.push((index, one));
        }
        if found.len() > first {
            complete(module, computation, &mut found[first..]);
        }
    }
    found.into_iter().map(|(_, collective)| collective).collect()
}

/// Adds the names of neighbours, and what is between start and done, to the collectives of a computation.
fn complete<'m>(module: &'m Module, computation: CompId, found: &mut [(usize, Collective<'m>)]) {
    let count = module.instructions(computation).len();
    let mut done_of = vec![None; count];
    // The start that each instruction of an asynchronous operation belongs to.
    let mut start_of: Vec<usize> = (0..count).collect();
    let mut computing_before = vec![0; count + 1];
    for (index, instr) in module.instructions(computation).enumerate() {
        computing_before[index + 1] = computing_before[index] + usize::from(computes(module, instr));
        let Some(&operand) = instr.operands().first() else { continue };
        match instr.opcode() {
            Opcode::AsyncUpdate => start_of[index] = start_of[operand.index()],
            Opcode::AsyncDone
            | Opcode::AllGatherDone
            | Opcode::AllReduceDone
            | Opcode::CollectivePermuteDone => {
                done_of[start_of[operand.index()]] = Some(index);
            }
            _ => {}
        }
    }
    let is_named = found.iter().all(|(_, collective)| collective.op_name.is_some());
    let names = if is_named { vec![] } else { nearest_op_names(module, computation) };
    for (index, collective) in found {
        if collective.op_name.is_none() {
            collective.op_name = names.get(*index).copied().flatten();
        }
        if let Some(done) = done_of[*index] {
            collective.between = Some(*index + 1..done);
            collective.num_computing = computing_before[done] - computing_before[*index + 1];
        }
    }
}

/// Whether an instruction occupies the compute units of a device: not those that only name values, communicate, or wait.
fn computes(module: &Module, instr: InstrRef<'_>) -> bool {
    use Opcode as O;
    let opcode = instr.opcode();
    let waits =
        matches!(opcode, O::AsyncUpdate | O::AsyncDone | O::CopyStart | O::CopyDone | O::Send | O::SendDone);
    let waits = waits || matches!(opcode, O::Recv | O::RecvDone | O::Infeed | O::Outfeed);
    let waits = waits || matches!(opcode, O::AllGatherDone | O::AllReduceDone | O::CollectivePermuteDone);
    let names = matches!(opcode, O::Parameter | O::Constant | O::Tuple | O::GetTupleElement | O::Bitcast);
    let names = names || matches!(opcode, O::OptBarrier | O::AfterAll | O::AddDependency | O::Domain);
    let names = names || matches!(opcode, O::PartitionId | O::ReplicaId);
    !waits && !names && kind(module, instr).is_none()
}

/// The kind of a collective; of an `async-start`, that of the instruction which it wraps.
fn kind(module: &Module, instr: InstrRef<'_>) -> Option<CollectiveKind> {
    match (instr.opcode(), instr.wrapped()) {
        (Opcode::AsyncStart, Some(wrapped)) => CollectiveKind::of(wrapped),
        (Opcode::AsyncStart, None) => CollectiveKind::of(wrapped(module, instr)?.opcode()),
        (Opcode::AsyncUpdate | Opcode::AsyncDone, _) => None,
        (opcode, _) => CollectiveKind::of(opcode),
    }
}

/// The instruction that an `async-start` wraps in a computation of the text.
fn wrapped<'m>(module: &'m Module, instr: InstrRef<'m>) -> Option<InstrRef<'m>> {
    let is_explicit = instr.opcode() == Opcode::AsyncStart && instr.wrapped().is_none();
    let callee = instr.called(AttrName::Calls).next().filter(|_| is_explicit)?;
    Some(module.instruction(callee, module.root(callee)))
}

/// Whether each computation, by index, is wrapped by an asynchronous collective, which counts in its stead.
fn wrapped_computations(module: &Module) -> Vec<bool> {
    let mut found = vec![false; module.ids().len()];
    for instr in module.ids().flat_map(|id| module.instructions(id)) {
        if matches!(instr.opcode(), Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone)
            && let Some(callee) = instr.called(AttrName::Calls).next()
        {
            let root = module.instruction(callee, module.root(callee));
            found[callee.index()] |= CollectiveKind::of(root.opcode()).is_some();
        }
    }
    found
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

    #[test]
    fn a_collective_is_exposed_if_nothing_computes_until_it_is_done() {
        let text = r#"
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
f { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }
ENTRY e {
  x = f32[4] parameter(0), metadata={op_name="x"}
  s = (f32[4], f32[8]) all-gather-start(x), dimensions={0}, metadata={op_name="layers/q_proj/dot"}
  n = f32[4] negate(x)
  c = f32[4] fusion(n), kind=kLoop, calls=f
  g = f32[8] all-gather-done(s)
  t = ((f32[4]), f32[1], s32[]) reduce-scatter-start(c), dimensions={0}, to_apply=add
  b = f32[2,2] bitcast(c)
  d = f32[1] reduce-scatter-done(t)
  r = f32[8] all-reduce(g), to_apply=add, replica_groups={{0,1},{2,3}}
  ROOT p = f32[8] collective-permute(r), source_target_pairs={{0,2},{1,3}}
}"#;
        let module = parse(text, "overlap.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let found = collectives(&module, &Executions::of(&module));
        let mesh = [("data", 2), ("tensor", 2)];
        let found = found.iter().map(|collective| {
            let overlapped: Vec<&str> = collective.overlapped(&module).map(InstrRef::name).collect();
            assert_eq!(overlapped.is_empty(), collective.is_exposed());
            assert_eq!(overlapped.len(), collective.num_computing);
            (overlapped.join(" "), collective.axes(&mesh).unwrap().join(" "), collective.op_name.unwrap())
        });
        let expect = [
            ("n c", "data tensor", "layers/q_proj/dot"),
            ("", "data tensor", "x"),
            ("", "tensor", "layers/q_proj/dot"),
            ("", "data", "layers/q_proj/dot"),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expect.map(|(a, b, name)| (a.to_owned(), b.to_owned(), name)));
    }

    #[test]
    fn an_asynchronous_collective_that_is_spelled_out_counts_once() {
        let text = r#"
wrapped { x = f32[4] parameter(0)
  ROOT g = f32[8] all-gather(x), dimensions={0}, replica_groups={{0,1}} }
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[8]) async-start(x), calls=wrapped
  u = ((f32[4]), f32[8]) async-update(s), calls=wrapped
  n = f32[4] negate(x)
  ROOT g = f32[8] async-done(u), calls=wrapped
}"#;
        let module = parse(text, "async.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let executions = Executions::of(&module);
        assert_eq!(module.ids().map(|id| executions.count(id)).collect::<Vec<_>>(), [1.0, 1.0]);
        let found = collectives(&module, &executions);
        let [gather] = &*found else { panic!("{} collectives", found.len()) };
        assert_eq!((gather.kind, gather.bytes, gather.num_computing), (CollectiveKind::AllGather, 32, 1));
        assert_eq!(gather.axes(&[("x", 2)]).unwrap(), ["x"]);
        assert_eq!(gather.overlapped(&module).map(InstrRef::name).collect::<Vec<_>>(), ["n"]);
    }
}
