//! The instructions of a function, and of the regions in it.

use std::rc::Rc;

use super::{
    StablehloError,
    functions::Functions,
    operations::{Form, Line, Types, form},
    sharding::Annotator,
    syntax::{Names, Quoted, attributes, commas, result_types, symbol, tensors},
};
use crate::{
    base::Shape,
    hlo::{Attrs, CompId, Computation, Instr, Module, Opcode, Verified},
};

/// Whether operations have locations, which become the `op_name` of HLO metadata.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Locations {
    None,
    /// `computation/instruction`, as in protos.
    Instructions,
}

/// The names of a value of HLO in MLIR, which has no tuples.
#[derive(Clone)]
pub(super) enum Value {
    Array(Rc<str>),
    Tuple(Rc<[Value]>),
}

impl Value {
    /// A value of a shape whose arrays have these names.
    fn new(shape: &Shape, names: &mut impl Iterator<Item = Rc<str>>) -> Self {
        match shape {
            Shape::Array(_) => Self::Array(names.next().expect("one name for each array")),
            Shape::Tuple(elements) => {
                Self::Tuple(elements.iter().map(|element| Self::new(element, names)).collect())
            }
        }
    }

    /// The names of all arrays.
    pub(super) fn arrays(&self) -> Vec<Rc<str>> {
        match self {
            Self::Array(name) => vec![Rc::clone(name)],
            Self::Tuple(elements) => elements.iter().flat_map(Self::arrays).collect(),
        }
    }
}

/// An instruction and its operands.
pub(super) struct Site<'m> {
    pub computation: &'m Computation,
    /// The `op_name` of the instruction's metadata.
    pub op_name: Option<&'m str>,
    pub instr: &'m Instr,
    pub operands: Vec<Value>,
    pub shapes: Vec<&'m Shape>,
}

impl Site<'_> {
    /// The names of all operands, nested tuples flattened.
    pub(super) fn names(&self) -> Vec<Rc<str>> {
        self.operands.iter().flat_map(Value::arrays).collect()
    }

    /// Their types.
    pub(super) fn types(&self) -> Vec<String> {
        self.shapes.iter().flat_map(|shape| tensors(shape)).collect()
    }
}

/// Prints one function.
pub(super) struct Body<'m, 'p> {
    pub(super) module: &'m Module,
    pub(super) annotator: &'p Annotator<'m>,
    pub(super) functions: &'p Functions,
    locations: Locations,
    names: Names,
    depth: usize,
    out: &'p mut String,
}

impl<'m, 'p> Body<'m, 'p> {
    pub(super) fn new(
        module: &'m Verified,
        annotator: &'p Annotator<'m>,
        functions: &'p Functions,
        locations: Locations,
        out: &'p mut String,
    ) -> Self {
        Self {
            module: module.module(),
            annotator,
            functions,
            locations,
            names: Names::default(),
            depth: 1,
            out,
        }
    }

    /// A line of text.
    pub(super) fn line(&mut self, text: &str) {
        (0..self.depth).for_each(|_| self.out.push_str("  "));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// The last line of an operation, after which its location follows.
    pub(super) fn end(&mut self, site: &Site<'m>, text: &str) {
        match self.locations {
            Locations::None => self.line(text),
            Locations::Instructions => {
                let path = || format!("{}/{}", site.computation.name, site.instr.name);
                let path = site.op_name.map_or_else(path, str::to_owned);
                self.line(&format!("{text} loc({})", Quoted(&path)));
            }
        }
    }

    /// `return %a, %b : types`
    pub(super) fn returns(&mut self, operation: &str, values: &[Rc<str>], types: &[String]) {
        self.depth += 1;
        match values {
            [] => self.line(operation),
            _ => self.line(&format!("{operation} {} : {}", commas(values), commas(types))),
        }
        self.depth -= 1;
    }

    /// A name that no other value of the function has.
    pub(super) fn unique(&mut self, name: &str) -> String {
        self.names.unique(name)
    }

    /// New names for an argument.
    pub(super) fn argument(&mut self, name: &str, shape: &Shape) -> Value {
        let count = tensors(shape).len();
        let names = &mut self.names;
        let mut unique = (0..count).map(|index| match shape {
            Shape::Array(_) => Rc::from(format!("%{}", names.unique(name))),
            Shape::Tuple(_) => Rc::from(format!("%{}", names.unique(&format!("{name}.{index}")))),
        });
        Value::new(shape, &mut unique)
    }

    /// A new name for the results of an operation, as the text before it, and the value.
    pub(super) fn results(&mut self, name: &str, shape: &Shape) -> (String, Value) {
        let count = tensors(shape).len();
        let name = if count == 0 { String::new() } else { self.names.unique(name) };
        let prefix = match count {
            0 => String::new(),
            1 => format!("%{name} = "),
            _ => format!("%{name}:{count} = "),
        };
        let mut names = (0..count).map(|index| match count {
            1 => Rc::from(format!("%{name}")),
            _ => Rc::from(format!("%{name}#{index}")),
        });
        (prefix, Value::new(shape, &mut names))
    }

    /// Prints the instructions of a computation with these arguments, and returns its result.
    pub(super) fn computation(&mut self, id: CompId, arguments: &[Value]) -> Result<Value, StablehloError> {
        let computation = self.module.computation(id);
        let is_entry = id == self.module.entry;
        let mut values: Vec<Value> = Vec::with_capacity(computation.instrs.len());
        self.depth += 1;
        for (number, instr) in computation.iter() {
            let operands = instr.operands.iter().map(|operand| values[operand.index()].clone()).collect();
            let shapes = instr.operands.iter().map(|&operand| &computation.instr(operand).shape).collect();
            let metadata = self.module.metadata.get(id, number);
            let op_name = metadata.map(|metadata| &*metadata.op_name).filter(|name| !name.is_empty());
            let site = Site { computation, op_name, instr, operands, shapes };
            // Arguments and results of the entry have their shardings in the signature.
            let in_signature = is_entry && (instr.opcode == Opcode::Parameter || number == computation.root);
            let value = match form(instr, &site.shapes) {
                Form::Value if in_signature => value_of(&site, arguments),
                Form::Value => self.constrained(&site, value_of(&site, arguments))?,
                Form::Line(line) => self.simple(&site, &line)?,
                Form::Constant(dense) => self.constant(&site, &dense)?,
                Form::Own => self.own(&site)?,
            };
            values.push(value);
        }
        self.depth -= 1;
        Ok(values.swap_remove(computation.root.index()))
    }

    /// Prints the lines of a region, up to its return.
    pub(super) fn region(&mut self, id: CompId, arguments: &[Value]) -> Result<(), StablehloError> {
        let computation = self.module.computation(id);
        let types = tensors(computation.result());
        let result = match self.functions.called_in_region(id) {
            None => self.computation(id, arguments)?,
            Some(function) => {
                let names: Vec<Rc<str>> = arguments.iter().flat_map(Value::arrays).collect();
                let parameters = computation.parameter_shapes().into_iter().flat_map(tensors);
                let signature = format!("({}) -> {}", commas(parameters), result_types(&types));
                let (prefix, value) = self.results(&computation.name, computation.result());
                self.depth += 1;
                self.line(&format!(
                    "{prefix}func.call {}({}) : {signature}",
                    symbol(function),
                    commas(names)
                ));
                self.depth -= 1;
                value
            }
        };
        self.returns("stablehlo.return", &result.arrays(), &types);
        Ok(())
    }

    /// The attributes of an operation, such as ` {mhlo.sharding = "{replicated}"}`, or nothing.
    pub(super) fn attributes(&self, site: &Site<'m>) -> Result<String, StablehloError> {
        let count = tensors(&site.instr.shape).len();
        Ok(attributes(&self.annotator.operation(site.computation, site.instr, count)?))
    }

    fn simple(&mut self, site: &Site<'m>, line: &Line) -> Result<Value, StablehloError> {
        let Line { name, before, after, types } = line;
        let operands = commas(site.names());
        let result = commas(tensors(&site.instr.shape));
        let types = match types {
            Types::Result => result,
            Types::Function => format!("({}) -> {result}", commas(site.types())),
            Types::Select => {
                format!("{}, {result}", commas(site.shapes.iter().take(1).flat_map(|shape| tensors(shape))))
            }
        };
        let attributes = self.attributes(site)?;
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        self.end(site, &format!("{prefix}stablehlo.{name} {before}{operands}{after}{attributes} : {types}"));
        Ok(value)
    }

    fn constant(&mut self, site: &Site<'m>, dense: &str) -> Result<Value, StablehloError> {
        let attributes = self.attributes(site)?;
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let of = commas(tensors(&site.instr.shape));
        self.end(site, &format!("{prefix}stablehlo.constant{attributes} {dense} : {of}"));
        Ok(value)
    }

    /// The value of an instruction without an operation, which cannot have its sharding.
    pub(super) fn constrained(&mut self, site: &Site<'m>, value: Value) -> Result<Value, StablehloError> {
        let types = tensors(&site.instr.shape);
        let shardings = self.annotator.constraints(site.computation, site.instr, types.len())?;
        if shardings.is_empty() {
            return Ok(value);
        }
        let mut names = Vec::with_capacity(types.len());
        for ((name, of), sharding) in value.arrays().iter().zip(&types).zip(&shardings) {
            let constraint = self.annotator.constrained(name, of, sharding);
            let unique = format!("%{}", self.names.unique(&site.instr.name));
            self.end(site, &format!("{unique} = {constraint}"));
            names.push(Rc::from(unique));
        }
        Ok(Value::new(&site.instr.shape, &mut names.into_iter()))
    }
}

/// The value of an instruction without an operation.
fn value_of(site: &Site<'_>, arguments: &[Value]) -> Value {
    match (&site.instr.attrs, site.operands.first()) {
        (Attrs::Parameter(number), _) => arguments[*number].clone(),
        (Attrs::TupleIndex(index), Some(Value::Tuple(elements))) => elements[*index].clone(),
        _ => Value::Tuple(site.operands.iter().cloned().collect()),
    }
}
