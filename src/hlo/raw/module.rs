//! A module as its text says it: names, opcodes, shapes with layouts, attributes in order.

use std::ops::Range;

use super::{
    access::{self, ConvolutionDims, WindowDim},
    attr::AttrName,
    groups::{self, ReplicaGroups},
    opcode::Opcode,
    shape::{ShapeId, ShapeTable},
    span::Span,
};
use crate::base::{LineIndex, Location};

/// A computation of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompId(u32);

/// An instruction of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstrId(u32);

macro_rules! index {
    ($id:ident) => {
        impl $id {
            /// The id of the element at this index.
            pub(super) fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("a text has fewer elements than bytes"))
            }

            /// The index among its kind.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(CompId);
index!(InstrId);

/// A module: the text it was read from, and where its parts are in it.
#[derive(Clone, Debug)]
pub struct Module {
    pub(super) text: String,
    /// Where the text comes from, for errors.
    pub(super) file: String,
    pub(super) name: Box<str>,
    pub(super) attrs: Vec<Attr>,
    pub(super) frames: StackFrames,
    pub(super) shapes: ShapeTable,
    pub(super) computations: Vec<Computation>,
    pub(super) entry: CompId,
}

/// A computation. Callees are earlier computations, operands earlier instructions.
#[derive(Clone, Debug, Default)]
pub(super) struct Computation {
    pub(super) name: Span,
    pub(super) instrs: Vec<Instr>,
    pub(super) operands: Vec<InstrId>,
    pub(super) attrs: Vec<Attr>,
    /// Called computations, by the attributes that name them, in order.
    pub(super) callees: Vec<(u32, CompId)>,
    /// Control predecessors, by the attributes that name them, in order.
    pub(super) predecessors: Vec<(u32, InstrId)>,
    pub(super) root: usize,
    pub(super) thread: Option<Span>,
    /// Text of this computation that is not in the module's: names of what has none, numbers of parameters.
    pub(super) added: String,
}

/// An instruction, in 40 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instr {
    pub name: Span,
    /// The number of a parameter, the literal of a constant.
    pub payload: Span,
    pub shape: ShapeId,
    pub opcode: Opcode,
    /// The opcode that an `async-start`, `-update` or `-done` wraps where its spelling names it: `fusion-start`.
    pub wrapped: Option<Opcode>,
    pub num_attrs: u16,
    pub first_operand: u32,
    pub num_operands: u32,
    pub first_attr: u32,
}

/// An attribute in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attr {
    /// `None` for an attribute that the table does not have.
    pub name: Option<AttrName>,
    pub spelling: Span,
    pub value: Span,
}

/// The tables of source locations at the top of a module, to which `stack_frame_id` of metadata refers.
#[derive(Clone, Debug, Default)]
pub(super) struct StackFrames {
    /// All tables as they are in the text; empty if there are none.
    pub text: Span,
    pub files: Vec<Span>,
    pub functions: Vec<Span>,
    pub locations: Vec<FileLocation>,
    /// Index of a location, and the frame that called this one; both count from one, 0 is none.
    pub frames: Vec<(u32, u32)>,
}

/// A line of a source file. Indices count from one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLocation {
    pub file: u32,
    pub function: u32,
    pub line: u32,
}

/// A frame of the stack under which an instruction was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame<'m> {
    /// Source file.
    pub file: &'m str,
    /// Function in it.
    pub function: &'m str,
    /// Line, counted from one.
    pub line: u32,
}

/// An instruction of a module, with access to its parts.
#[derive(Clone, Copy)]
pub struct InstrRef<'m> {
    module: &'m Module,
    computation: &'m Computation,
    instr: &'m Instr,
}

impl Module {
    /// The name after `HloModule`; `module_` and the name of the entry computation where the text has no header.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file or other source that the module was read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The distinct shapes of the instructions.
    pub fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    /// The ids of the computations; callees come before their callers.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = CompId> + ExactSizeIterator + use<> {
        (0..self.computations.len()).map(CompId::new)
    }

    /// The entry computation.
    pub fn entry(&self) -> CompId {
        self.entry
    }

    /// The name of a computation, without `%`.
    pub fn computation_name(&self, id: CompId) -> &str {
        let computation = &self.computations[id.index()];
        self.str_in(computation, computation.name)
    }

    /// The instructions of a computation, in the order of the text, which is the schedule where the module has one.
    pub fn instructions(
        &self,
        id: CompId,
    ) -> impl DoubleEndedIterator<Item = InstrRef<'_>> + ExactSizeIterator {
        let computation = &self.computations[id.index()];
        computation.instrs.iter().map(move |instr| InstrRef { module: self, computation, instr })
    }

    /// An instruction of a computation.
    pub fn instruction(&self, id: CompId, instr: InstrId) -> InstrRef<'_> {
        let computation = &self.computations[id.index()];
        InstrRef { module: self, computation, instr: &computation.instrs[instr.index()] }
    }

    /// The instruction whose value a computation returns.
    pub fn root(&self, id: CompId) -> InstrId {
        InstrId::new(self.computations[id.index()].root)
    }

    /// The value of an attribute of the module, as it is in the text.
    pub fn attr(&self, name: AttrName) -> Option<&str> {
        self.attrs.iter().find(|attr| attr.name == Some(name)).map(|attr| self.str(attr.value))
    }

    /// The attributes of the module in order: the name as it is spelled, and the value as it is in the text.
    pub fn attrs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attrs.iter().map(|attr| (self.spelling(attr), self.str(attr.value)))
    }

    /// Whether the order of the instructions is a schedule: where the header says so, and in a text of one instruction.
    pub fn is_scheduled(&self) -> bool {
        self.is_single() || self.attr(AttrName::IsScheduled) == Some("true")
    }

    /// Whether the text was one instruction, without module and computation.
    pub(super) fn is_single(&self) -> bool {
        self.computations[self.entry.index()].name.is_added()
    }

    /// The number of instructions as XLA counts them: those of all computations, and those of the computations that async
    /// opcodes such as `fusion-start` wrap.
    pub fn num_instructions(&self) -> usize {
        let instrs = self.computations.iter().flat_map(|computation| &computation.instrs);
        instrs.map(|instr| if instr.wraps_here() { instr.num_operands as usize + 2 } else { 1 }).sum()
    }

    /// The number of computations, those included that async opcodes such as `fusion-start` wrap.
    pub fn num_computations(&self) -> usize {
        let instrs = self.computations.iter().flat_map(|computation| &computation.instrs);
        self.computations.len() + instrs.filter(|instr| instr.wraps_here()).count()
    }

    /// The frames of a `stack_frame_id`, innermost first.
    pub fn stack(&self, frame: u32) -> impl Iterator<Item = StackFrame<'_>> {
        let tables = &self.frames;
        let at = |list: &[Span], id: u32| {
            (id as usize).checked_sub(1).and_then(|index| list.get(index)).map_or("", |&span| self.str(span))
        };
        let mut next = frame;
        // A frame that calls itself ends the walk.
        let mut left = tables.frames.len();
        std::iter::from_fn(move || {
            let &(location, parent) = tables.frames.get((next as usize).checked_sub(1)?)?;
            let location = tables.locations.get((location as usize).checked_sub(1)?)?;
            left = left.checked_sub(1)?;
            next = parent;
            let (file, function) =
                (at(&tables.files, location.file), at(&tables.functions, location.function));
            Some(StackFrame { file, function, line: location.line })
        })
    }

    /// The name of an attribute as the text spells it.
    pub(super) fn spelling(&self, attr: &Attr) -> &str {
        match attr.name {
            Some(name) => name.name(),
            None => self.str(attr.spelling),
        }
    }

    pub(super) fn str(&self, span: Span) -> &str {
        &self.text[span.range()]
    }

    pub(super) fn str_in<'m>(&'m self, computation: &'m Computation, span: Span) -> &'m str {
        if span.is_added() { &computation.added[span.range()] } else { self.str(span) }
    }

    /// The line and column of a byte of the text.
    pub(super) fn location(&self, at: usize) -> Location {
        location(&self.file, &self.text, &LineIndex::new(&self.text), at)
    }
}

/// The line and column of a byte of a text.
pub(super) fn location(file: &str, text: &str, lines: &LineIndex, at: usize) -> Location {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Location {
        file: file.to_owned(),
        line: Some(lines.line(at)),
        column: Some(column),
        ..Location::default()
    }
}

impl Computation {
    /// The shape of the root.
    pub(super) fn result(&self) -> ShapeId {
        self.instrs[self.root].shape
    }

    /// Adds a text that is not in the module's.
    pub(super) fn add_text(&mut self, text: &str) -> Span {
        let span = Span::added(self.added.len(), text.len());
        self.added.push_str(text);
        span
    }
}

/// What some attributes refer to, of a list in the order of the attributes.
pub(super) fn references<T: Copy>(list: &[(u32, T)], attrs: Range<usize>) -> impl Iterator<Item = (u32, T)> {
    let first = list.partition_point(|&(attr, _)| (attr as usize) < attrs.start);
    list[first..].iter().copied().take_while(move |&(attr, _)| (attr as usize) < attrs.end)
}

/// The spelling of an opcode in two parts: `async-start` with the wrapped opcode in place of `async`.
pub(super) fn opcode_parts(opcode: Opcode, wrapped: Option<Opcode>) -> [&'static str; 2] {
    let name = opcode.name();
    match wrapped {
        Some(wrapped) => [wrapped.name(), &name["async".len()..]],
        None => [name, ""],
    }
}

impl Instr {
    /// Whether the instruction stands for a computation that is not in the text.
    pub(super) fn wraps_here(&self) -> bool {
        self.opcode == Opcode::AsyncStart && self.wrapped.is_some()
    }

    /// The spelling of the opcode in two parts.
    pub(super) fn opcode_parts(&self) -> [&'static str; 2] {
        opcode_parts(self.opcode, self.wrapped)
    }

    pub(super) fn operands<'c>(&self, computation: &'c Computation) -> &'c [InstrId] {
        let first = self.first_operand as usize;
        &computation.operands[first..first + self.num_operands as usize]
    }

    pub(super) fn attr_range(&self) -> Range<usize> {
        let first = self.first_attr as usize;
        first..first + usize::from(self.num_attrs)
    }
}

impl<'m> InstrRef<'m> {
    /// The name, without `%`.
    pub fn name(self) -> &'m str {
        self.module.str_in(self.computation, self.instr.name)
    }

    /// The opcode; `async-start`, `-update` or `-done` for a spelling such as `fusion-start`.
    pub fn opcode(self) -> Opcode {
        self.instr.opcode
    }

    /// The opcode that an async one wraps where its spelling names it: `fusion` of `fusion-start`.
    pub fn wrapped(self) -> Option<Opcode> {
        self.instr.wrapped
    }

    /// The spelling of the opcode: `fusion-start`.
    pub fn opcode_text(self) -> String {
        self.instr.opcode_parts().concat()
    }

    /// The shape of the result.
    pub fn shape(self) -> ShapeId {
        self.instr.shape
    }

    /// The operands, instructions of the same computation.
    pub fn operands(self) -> &'m [InstrId] {
        self.instr.operands(self.computation)
    }

    /// The number of a parameter, the literal of a constant; empty otherwise.
    pub fn payload(self) -> &'m str {
        self.module.str_in(self.computation, self.instr.payload)
    }

    /// Where the payload is in the text.
    pub(super) fn payload_span(self) -> Span {
        self.instr.payload
    }

    /// The value of an attribute, as it is in the text.
    pub fn attr(self, name: AttrName) -> Option<&'m str> {
        let attrs = &self.computation.attrs[self.instr.attr_range()];
        attrs.iter().find(|attr| attr.name == Some(name)).map(|attr| self.module.str(attr.value))
    }

    /// The integers of an attribute: `{0,1}`. `None` if the instruction does not have it, or it has another form.
    pub fn ints(self, name: AttrName) -> Option<Vec<i64>> {
        access::ints(self.attr(name)?)
    }

    /// The integer of an attribute.
    pub fn int(self, name: AttrName) -> Option<i64> {
        self.attr(name)?.trim().parse().ok()
    }

    /// The dimensions of the window of a convolution or reduce-window.
    pub fn window(self) -> Option<Vec<WindowDim>> {
        access::window(self.attr(AttrName::Window)?)
    }

    /// The dimension labels of a convolution.
    pub fn convolution_dims(self) -> Option<ConvolutionDims> {
        access::dim_labels(self.attr(AttrName::DimLabels)?)
    }

    /// The groups of devices of a collective, or the pairs of a collective-permute.
    pub fn replica_groups(self) -> Option<ReplicaGroups> {
        let pairs = self.attr(AttrName::SourceTargetPairs);
        groups::parse(pairs.or_else(|| self.attr(AttrName::ReplicaGroups))?)
    }

    /// An operand.
    pub fn operand(self, position: usize) -> Option<InstrRef<'m>> {
        let id = self.operands().get(position)?;
        Some(InstrRef { instr: &self.computation.instrs[id.index()], ..self })
    }

    /// The text of one field of the metadata: `op_name`, `source_file`, `source_line`, `stack_frame_id`. Quotes are removed.
    pub fn metadata(self, field: &str) -> Option<&'m str> {
        access::field(self.attr(AttrName::Metadata)?, field)
    }

    /// The attributes in order: the name as it is spelled, and the value as it is in the text.
    pub fn attrs(self) -> impl Iterator<Item = (&'m str, &'m str)> {
        let attrs = self.computation.attrs[self.instr.attr_range()].iter();
        attrs.map(move |attr| (self.module.spelling(attr), self.module.str(attr.value)))
    }

    /// The computations that an attribute names.
    pub fn called(self, name: AttrName) -> impl Iterator<Item = CompId> {
        self.callees().filter(move |&(attr, _)| attr == name).map(|(_, callee)| callee)
    }

    /// The called computations, with the attributes that name them.
    pub fn callees(self) -> impl Iterator<Item = (AttrName, CompId)> {
        let callees = references(&self.computation.callees, self.instr.attr_range());
        callees.filter_map(|(attr, callee)| {
            self.computation.attrs[attr as usize].name.map(|name| (name, callee))
        })
    }

    /// The instructions that run before this one without being operands.
    pub fn control_predecessors(self) -> impl Iterator<Item = InstrId> {
        references(&self.computation.predecessors, self.instr.attr_range()).map(|(_, instr)| instr)
    }

    /// The line and column of the name in the text.
    pub fn location(self) -> Location {
        self.module.location(if self.instr.name.is_added() { 0 } else { self.instr.name.start() })
    }
}
