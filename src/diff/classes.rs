//! Numbers of instructions and computations: equal for what computes the same values.

use std::{borrow::Cow, fmt::Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    attributes::{self, Attribute},
    ignore::{Ignore, IgnoreSet},
    literal,
    numbers::{Number, Numbers},
};
use crate::hlo::raw::{
    AttrName, CompId, InstrRef, Module, Opcode, ReplicaGroups, Shape, ShapeId, ShapeTable,
};

/// What a sequence of numbers is of.
#[repr(u32)]
enum Kind {
    Label,
    Value,
    Parameter,
    Computation,
    Use,
}

/// Ends a list in a sequence; no number that is given out reaches it.
const END: Number = Number::MAX;

/// Whether an instruction only annotates its operand with a sharding, and whether that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    None,
    Compared,
    Ignored,
}

/// An instruction in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstrClass {
    /// Spelling of the opcode.
    pub opcode: Number,
    /// Shape, without what is ignored of it.
    pub shape: Number,
    /// The instruction without its operands and the number of a parameter.
    pub label: Number,
    /// The value: label and values of the operands. That of an annotation which is ignored is its operand's.
    pub value: Number,
    pub annotation: Annotation,
}

/// A computation in numbers.
#[derive(Debug)]
pub(super) struct ComputationClass {
    /// The computation as a whole: the value of its root, and the values of all instructions.
    pub number: Number,
    pub instrs: Vec<InstrClass>,
}

/// The computations of a module in numbers.
pub(super) struct ModuleClasses(Vec<ComputationClass>);

impl ModuleClasses {
    pub(super) fn of(&self, id: CompId) -> &ComputationClass {
        &self.0[id.index()]
    }
}

/// Gives numbers to the instructions of both modules.
pub(super) struct Classifier<'m> {
    pub ignored: IgnoreSet,
    pub numbers: Numbers<'m>,
    /// Shapes of constants whose value some text leaves out.
    elided: FxHashSet<Number>,
    /// Numbers of the groups of collectives, by their texts.
    groups: FxHashMap<&'m str, Number>,
}

impl<'m> Classifier<'m> {
    pub(super) fn new(ignored: IgnoreSet, modules: [&'m Module; 2]) -> Self {
        let (numbers, elided, groups) = Default::default();
        let mut classifier = Self { ignored, numbers, elided, groups };
        for module in modules {
            for instr in module.ids().flat_map(|id| module.instructions(id)) {
                if instr.opcode() == Opcode::Constant && literal::is_elided(instr.payload()) {
                    let shape = classifier.shape(module.shapes(), instr.shape());
                    classifier.elided.insert(shape);
                }
            }
        }
        classifier
    }

    /// Number of constants of a module whose values are not compared, since one of the texts leaves out values of that shape.
    pub(super) fn unknown_constants(&self, module: &Module, classes: &ModuleClasses) -> usize {
        let constants = module.ids().flat_map(|id| module.instructions(id).zip(&classes.of(id).instrs));
        let unknown = constants.filter(|(instr, class)| {
            instr.opcode() == Opcode::Constant && self.elided.contains(&class.shape)
        });
        unknown.count()
    }

    pub(super) fn module(&mut self, module: &'m Module) -> ModuleClasses {
        let mut shapes = FxHashMap::default();
        let mut classes = ModuleClasses(Vec::with_capacity(module.ids().len()));
        // Callees come before their callers.
        for id in module.ids() {
            let computation = self.computation(module, id, &classes, &mut shapes);
            classes.0.push(computation);
        }
        classes
    }

    fn computation(
        &mut self,
        module: &'m Module,
        id: CompId,
        callees: &ModuleClasses,
        shapes: &mut FxHashMap<ShapeId, Number>,
    ) -> ComputationClass {
        let mut instrs: Vec<InstrClass> = Vec::with_capacity(module.instructions(id).len());
        let (mut words, mut attributes) = (Vec::new(), Vec::new());
        for instr in module.instructions(id) {
            let opcode = self.numbers.text(match instr.wrapped() {
                Some(_) => Cow::Owned(instr.opcode_text()),
                None => Cow::Borrowed(instr.opcode().name()),
            });
            let shape =
                *shapes.entry(instr.shape()).or_insert_with(|| self.shape(module.shapes(), instr.shape()));
            words.clear();
            words.extend([Kind::Label as u32, opcode, shape]);
            attributes::of_instruction(instr, self.ignored, &mut attributes);
            self.label(module, instr, &attributes, callees, &mut words);
            let label = self.numbers.sequence(&words);
            let annotation = self.annotation(instr, shape, &instrs);
            let value = match annotation {
                Annotation::Ignored => instrs[instr.operands()[0].index()].value,
                Annotation::None | Annotation::Compared => self.value(instr, label, &instrs, &mut words),
            };
            instrs.push(InstrClass { opcode, shape, label, value, annotation });
        }
        words.clear();
        words.extend([Kind::Computation as u32, instrs[module.root(id).index()].value]);
        if !self.ignored.has(Ignore::Names) {
            words.push(self.numbers.text(module.computation_name(id).into()));
        }
        let first = words.len();
        let counted = instrs.iter().filter(|instr| instr.annotation != Annotation::Ignored);
        words.extend(counted.map(|instr| instr.value));
        if self.ignored.has(Ignore::Order) {
            words[first..].sort_unstable();
        }
        ComputationClass { number: self.numbers.sequence(&words), instrs }
    }

    /// Whether an instruction is a custom call that names the sharding of its operand and returns it.
    fn annotation(&self, instr: InstrRef<'_>, shape: Number, earlier: &[InstrClass]) -> Annotation {
        let &[operand] = instr.operands() else { return Annotation::None };
        let target = match instr.opcode() {
            Opcode::CustomCall => instr.attr(AttrName::CustomCallTarget),
            _ => None,
        };
        let annotates = target.is_some_and(attributes::is_annotation);
        match annotates && earlier[operand.index()].shape == shape {
            false => Annotation::None,
            true if self.ignored.has(Ignore::Shardings) => Annotation::Ignored,
            true => Annotation::Compared,
        }
    }

    /// Adds what an instruction is besides opcode, shape and operands.
    fn label(
        &mut self,
        module: &'m Module,
        instr: InstrRef<'m>,
        attributes: &[Attribute<'m>],
        callees: &ModuleClasses,
        words: &mut Vec<Number>,
    ) {
        if instr.opcode() == Opcode::Constant {
            words.push(self.constant(instr, module.shapes(), words[2]));
        }
        if !self.ignored.has(Ignore::Names) {
            words.push(self.numbers.text(instr.name().into()));
        }
        for attribute in attributes {
            words.push(self.numbers.text(attribute.name.into()));
            words.push(self.attribute(instr, attribute));
        }
        words.push(END);
        for (attr, callee) in instr.callees() {
            words.extend([attr as u32, callees.of(callee).number]);
        }
    }

    /// The value of an instruction, after the values of its operands.
    fn value(
        &mut self,
        instr: InstrRef<'m>,
        label: Number,
        earlier: &[InstrClass],
        words: &mut Vec<Number>,
    ) -> Number {
        words.clear();
        if instr.opcode() == Opcode::Parameter {
            let number = self.numbers.text(instr.payload().into());
            words.extend([Kind::Parameter as u32, label, number]);
        } else {
            words.extend([Kind::Value as u32, label]);
            words.extend(instr.operands().iter().map(|operand| earlier[operand.index()].value));
        }
        if !self.ignored.has(Ignore::Order) {
            words.push(END);
            let first = words.len();
            let predecessors = instr.control_predecessors().filter_map(|id| earlier.get(id.index()));
            words.extend(predecessors.map(|class| class.value));
            words[first..].sort_unstable();
        }
        self.numbers.sequence(words)
    }

    /// The number of a constant's literal; one number for all of a shape whose literals some text leaves out.
    pub(super) fn constant(&mut self, instr: InstrRef<'m>, shapes: &'m ShapeTable, shape: Number) -> Number {
        let literal = match self.elided.contains(&shape) {
            true => "...".into(),
            false => literal::canonical(instr.payload(), shapes.get(instr.shape())),
        };
        self.numbers.text(literal)
    }

    /// The number of an attribute's value.
    pub(super) fn attribute(&mut self, instr: InstrRef<'m>, attribute: &Attribute<'m>) -> Number {
        let is_groups = attribute.name == AttrName::ReplicaGroups.name();
        // `[2,2]<=[4]` and `{{0,1},{2,3}}` are the same groups.
        if !(is_groups && attribute.value.starts_with('[')) {
            return self.numbers.text(attribute.canonical(self.ignored));
        }
        if let Some(&number) = self.groups.get(attribute.value) {
            return number;
        }
        let number = self.numbers.text(match instr.replica_groups() {
            Some(ReplicaGroups::Listed(groups)) => Cow::Owned(listed(&groups)),
            _ => attribute.canonical(self.ignored),
        });
        self.groups.insert(attribute.value, number);
        number
    }

    /// The number of how a value is used: the label of its instruction, and the uses of its users with the positions of the
    /// operand. Values of one number are used alike from here to the root.
    pub(super) fn used(&mut self, label: Number, is_root: bool, users: &mut [(Number, u32)]) -> Number {
        users.sort_unstable();
        let mut words = vec![Kind::Use as u32, label, u32::from(is_root)];
        words.extend(users.iter().flat_map(|&(user, position)| [user, position]));
        self.numbers.sequence(&words)
    }

    fn shape(&mut self, table: &ShapeTable, id: ShapeId) -> Number {
        let text = shape_text(table, id, self.ignored);
        self.numbers.text(Cow::Owned(text.into_owned()))
    }
}

/// The text of a shape, without layouts where they are ignored.
pub(super) fn shape_text(table: &ShapeTable, id: ShapeId, ignored: IgnoreSet) -> Cow<'_, str> {
    if !ignored.has(Ignore::Layouts) {
        return table.text(id).into();
    }
    match table.get(id) {
        Shape::Array(array) => {
            // The layout is the last part of the text.
            let text = table.text(id);
            let end = if array.layout.is_some() { text.find('{') } else { None };
            text[..end.unwrap_or(text.len())].into()
        }
        // Tuples nest only as deep as the reader allows.
        Shape::Tuple(elements) => {
            let elements: Vec<_> = elements.iter().map(|&id| shape_text(table, id, ignored)).collect();
            format!("({})", elements.join(", ")).into()
        }
        &Shape::Buffer(inner) => format!("b({})", shape_text(table, inner, ignored)).into(),
    }
}

/// `{{0,1},{2,3}}`
fn listed(groups: &[Vec<i64>]) -> String {
    let mut text = String::from("{");
    for (index, group) in groups.iter().enumerate() {
        text.push_str(if index == 0 { "{" } else { ",{" });
        for (index, device) in group.iter().enumerate() {
            let _ = write!(text, "{}{device}", if index == 0 { "" } else { "," });
        }
        text.push('}');
    }
    text + "}"
}
