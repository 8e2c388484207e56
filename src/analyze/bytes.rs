//! Bytes that instructions read and write.

use rustc_hash::FxHashMap;

use super::{executions::Executions, memory::padded_bytes};
use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode, Shape, ShapeId};

/// Bytes of arrays that are read from memory and written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BytesMoved {
    /// Bytes of operands.
    pub read: f64,
    /// Bytes of results.
    pub written: f64,
}

impl BytesMoved {
    /// Bytes read and written.
    pub fn total(self) -> f64 {
        self.read + self.written
    }
}

/// The bytes that the instructions of a module move, by the rules of XLA's cost analysis: each operand is read and each result
/// written once; of an operand that is sliced, and of one that is updated in place, the slice counts; what happens inside of a
/// fusion stays inside.
pub struct Traffic<'m> {
    module: &'m Module,
    fused: FxHashMap<CompId, Fused>,
}

/// What a fused computation moves.
#[derive(Clone, Debug, Default)]
struct Fused {
    /// Bytes read of each parameter.
    read: Vec<f64>,
    written: f64,
}

impl<'m> Traffic<'m> {
    /// Finds the fused computations of a module, and what each moves.
    pub fn of(module: &'m Module) -> Self {
        let mut fused: FxHashMap<CompId, Fused> = FxHashMap::default();
        for id in module.ids() {
            let fusions = module.instructions(id).filter(|instr| effective(*instr) == Opcode::Fusion);
            fused.extend(fusions.flat_map(InstrRef::callees).map(|(_, callee)| (callee, Fused::default())));
        }
        let mut traffic = Self { module, fused };
        // Callees come before their callers.
        for id in module.ids() {
            if traffic.fused.contains_key(&id) {
                let moved = traffic.fused(id);
                traffic.fused.insert(id, moved);
            }
        }
        traffic
    }

    /// The bytes that one execution of an instruction moves, without those of computations that it calls unless they are fused.
    pub fn instruction(&self, instr: InstrRef<'m>) -> BytesMoved {
        use Opcode as O;
        let operand =
            |position: usize| instr.operand(position).map_or(0.0, |operand| self.bytes(operand.shape()));
        let operands = |from: usize| (from..instr.operands().len()).map(operand).sum::<f64>();
        let result = self.result(instr);
        match effective(instr) {
            O::Parameter
            | O::Constant
            | O::GetTupleElement
            | O::Bitcast
            | O::OptBarrier
            | O::AddDependency => BytesMoved::default(),
            O::Domain | O::AfterAll | O::While | O::Call | O::Conditional | O::AsyncStart => {
                BytesMoved::default()
            }
            O::AsyncDone | O::AsyncUpdate | O::AllGatherDone | O::AllReduceDone => BytesMoved::default(),
            O::CollectivePermuteDone | O::CopyDone | O::SendDone | O::RecvDone => BytesMoved::default(),
            O::Tuple => BytesMoved { read: 0.0, written: 8.0 * instr.operands().len() as f64 },
            O::Slice => BytesMoved { read: result, written: result },
            O::DynamicSlice | O::Gather => BytesMoved { read: result + operands(1), written: result },
            O::DynamicUpdateSlice => BytesMoved { read: operands(1), written: operand(1) },
            O::Scatter => {
                let inputs = instr.operands().len() / 2;
                let updates = operands(inputs + 1);
                // The elements that are updated are read too.
                BytesMoved { read: operand(inputs) + 2.0 * updates, written: updates }
            }
            O::Fusion => {
                match instr.called(AttrName::Calls).next().and_then(|callee| self.fused.get(&callee)) {
                    Some(fused) => BytesMoved { read: fused.read.iter().sum(), written: fused.written },
                    None => BytesMoved { read: operands(0), written: result },
                }
            }
            _ => BytesMoved { read: operands(0), written: result },
        }
    }

    /// The bytes that one run of the module moves on one device.
    pub fn total(&self, executions: &Executions<'_>) -> BytesMoved {
        let mut total = BytesMoved::default();
        for id in self.module.ids().filter(|id| !self.fused.contains_key(id)) {
            let count = executions.count(id);
            if count > 0.0 {
                for instr in self.module.instructions(id) {
                    let one = self.instruction(instr);
                    total.read += count * one.read;
                    total.written += count * one.written;
                }
            }
        }
        total
    }

    /// Bytes of the arrays of a result; of the tuple that a start returns, those that it writes.
    fn result(&self, instr: InstrRef<'_>) -> f64 {
        let element = match instr.opcode() {
            Opcode::AsyncStart | Opcode::AllGatherStart | Opcode::CollectivePermuteStart => 1,
            Opcode::CopyStart => 0,
            _ => return self.bytes(instr.shape()),
        };
        match self.module.shapes().get(instr.shape()) {
            Shape::Tuple(elements) => elements.get(element).map_or(0.0, |&element| self.bytes(element)),
            _ => self.bytes(instr.shape()),
        }
    }

    fn bytes(&self, shape: ShapeId) -> f64 {
        match self.module.shapes().get(shape) {
            Shape::Array(array) => padded_bytes(array) as f64,
            Shape::Tuple(elements) => elements.iter().map(|&element| self.bytes(element)).sum(),
            &Shape::Buffer(inner) => self.bytes(inner),
        }
    }

    fn fused(&self, id: CompId) -> Fused {
        let instrs: Vec<InstrRef<'m>> = self.module.instructions(id).collect();
        // The parameter that each instruction is, also through bitcasts.
        let mut parameters: Vec<Option<usize>> = vec![None; instrs.len()];
        let mut moved = Fused::default();
        let mut reads: Vec<Reads> = Vec::new();
        for (index, instr) in instrs.iter().enumerate() {
            match instr.opcode() {
                Opcode::Parameter => {
                    let number =
                        instr.payload().parse::<usize>().ok().filter(|&number| number < instrs.len());
                    parameters[index] = number;
                    if let Some(number) = number.filter(|&number| number >= reads.len()) {
                        reads.resize_with(number + 1, Reads::default);
                    }
                    if let Some(number) = number {
                        reads[number].size = self.bytes(instr.shape());
                    }
                }
                Opcode::Bitcast => {
                    parameters[index] = instr.operands().first().and_then(|at| parameters[at.index()])
                }
                _ => {
                    for (position, operand) in instr.operands().iter().enumerate() {
                        if let Some(number) = parameters[operand.index()] {
                            reads[number].add(self, *instr, position);
                        }
                    }
                }
            }
        }
        let root = self.module.root(id).index();
        if let Some(number) = parameters[root] {
            reads[number].whole = true;
        }
        moved.read =
            reads.iter().map(|read| read.slices + if read.whole { read.size } else { 0.0 }).collect();
        moved.written = self.written(instrs[root]);
        moved
    }

    /// Bytes that the root of a fused computation writes.
    fn written(&self, root: InstrRef<'m>) -> f64 {
        match root.opcode() {
            Opcode::Tuple => {
                let elements = (0..root.operands().len()).filter_map(|position| root.operand(position));
                elements.map(|element| self.one_written(element)).sum()
            }
            _ => self.one_written(root),
        }
    }

    fn one_written(&self, instr: InstrRef<'m>) -> f64 {
        let mut source = instr;
        while source.opcode() == Opcode::Bitcast
            && let Some(operand) = source.operand(0)
        {
            source = operand;
        }
        match source.opcode() {
            Opcode::DynamicUpdateSlice => source.operand(1).map_or(0.0, |update| self.bytes(update.shape())),
            _ => self.bytes(instr.shape()),
        }
    }
}

/// What a fused computation reads of a parameter.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    size: f64,
    /// Bytes of the slices that are read.
    slices: f64,
    /// Whether another instruction reads it as a whole.
    whole: bool,
}

impl Reads {
    /// Adds what an instruction reads of the operand at a position.
    fn add(&mut self, traffic: &Traffic<'_>, user: InstrRef<'_>, position: usize) {
        match (user.opcode(), position) {
            (Opcode::Slice | Opcode::DynamicSlice | Opcode::Gather, 0) => {
                self.slices += traffic.bytes(user.shape());
            }
            // It is overwritten in place.
            (Opcode::DynamicUpdateSlice, 0) => {}
            (Opcode::Fusion, _) => {
                let callee = user.called(AttrName::Calls).next();
                let read = callee.and_then(|callee| traffic.fused.get(&callee)?.read.get(position));
                self.slices += read.copied().unwrap_or(self.size);
            }
            _ => self.whole = true,
        }
    }
}

/// The opcode; of an asynchronous operation, the one that it wraps.
fn effective(instr: InstrRef<'_>) -> Opcode {
    match (instr.opcode(), instr.wrapped()) {
        (Opcode::AsyncStart, Some(wrapped)) => wrapped,
        (opcode, _) => opcode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    #[track_caller]
    fn check(body: &str, read: f64, written: f64) {
        let text = format!(
            "slices {{ a = f32[8,4] parameter(0) b = f32[4] parameter(1) i = s32[] parameter(2) f = f32[32] bitcast(a)\n\
               s = f32[1,4] dynamic-slice(a, i, i), dynamic_slice_sizes={{1,4}} t = f32[1,4] slice(a), slice={{[0:1],[0:4]}}\n\
               u = f32[1,4] add(s, t) v = f32[1,4] bitcast(b) ROOT w = f32[1,4] multiply(u, v) }}\n\
             update {{ a = f32[8,4] parameter(0) b = f32[1,4] parameter(1) i = s32[] parameter(2) n = f32[1,4] negate(b)\n\
               d = f32[8,4] dynamic-update-slice(a, n, i, i) ROOT f = f32[32] bitcast(d) }}\n\
             nested {{ a = f32[8,4] parameter(0) b = f32[1,4] parameter(1) i = s32[] parameter(2)\n\
               d = f32[32] fusion(a, b, i), kind=kLoop, calls=update ROOT t = (f32[32], f32[1,4]) tuple(d, b) }}\n\
             ENTRY e {{ a = f32[8,4] parameter(0) b = f32[4] parameter(1) i = s32[] parameter(2) c = f32[1,4] parameter(3)\n\
               {body} }}"
        );
        let module = parse(text, "bytes.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let traffic = Traffic::of(&module);
        assert_eq!(traffic.total(&Executions::of(&module)), BytesMoved { read, written }, "{body}");
    }

    #[test]
    fn operands_are_read_and_results_written() {
        check("ROOT r = f32[8,4] add(a, a)", 256.0, 128.0);
        check("ROOT r = f32[4,8] bitcast(a)", 0.0, 0.0);
        check("ROOT r = (f32[8,4], f32[4]) tuple(a, b)", 0.0, 16.0);
        check("ROOT r = f32[8,4]{1,0:T(8,128)} copy(a)", 128.0, 4096.0);
        check(
            "s = (f32[8,4], f32[16,4]) all-gather-start(a), dimensions={0} ROOT r = f32[16,4] all-gather-done(s)",
            128.0,
            256.0,
        );
        check("s = (f32[8,4], f32[8,4], u32[]) copy-start(a) ROOT r = f32[8,4] copy-done(s)", 128.0, 128.0);
    }

    #[test]
    fn of_sliced_and_updated_operands_the_slice_counts() {
        check("ROOT r = f32[1,4] dynamic-slice(a, i, i), dynamic_slice_sizes={1,4}", 24.0, 16.0);
        check("ROOT r = f32[8,4] dynamic-update-slice(a, c, i, i)", 24.0, 16.0);
        check("ROOT r = f32[1,4] fusion(a, b, i), kind=kLoop, calls=slices", 16.0 + 16.0 + 16.0 + 4.0, 16.0);
        check("ROOT r = f32[32] fusion(a, c, i), kind=kLoop, calls=update", 16.0 + 4.0, 16.0);
        check(
            "ROOT r = (f32[32], f32[1,4]) fusion(a, c, i), kind=kLoop, calls=nested",
            32.0 + 4.0,
            128.0 + 16.0,
        );
        check(
            "s = ((f32[8,4], f32[1,4], s32[]), f32[32], u32[]) fusion-start(a, c, i), kind=kLoop, calls=update\n\
             ROOT r = f32[32] fusion-done(s)",
            16.0 + 4.0,
            16.0,
        );
    }
}
