//! Modules from Rust. A [`Value`] is a cheap handle, so that graph code reads like the formula it stands for.
//!
//! A mistake (an addition of unequal shapes, say) does not stop the code that builds: the first one is kept with the
//! line of Rust that made it, and [`ModuleBuilder::define`] returns it.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    panic,
};

use super::{
    Alias, Annotation, Annotations, Attrs, CompId, Computation, CustomCall, Instr, InstrId, Module, Opcode,
    Sharding, Value, infer, text::LocatedModule,
};
use crate::base::{ArrayShape, DType, Diagnostic, Diagnostics, Literal, Location, Shape};

/// Collects the computations of a module.
#[derive(Default)]
pub struct ModuleBuilder {
    computations: RefCell<Vec<Computation>>,
    gradients: RefCell<BTreeMap<CompId, CompId>>,
    derived: RefCell<BTreeMap<(CompId, Vec<usize>), CompId>>,
    sources: RefCell<BTreeMap<CompId, (String, Vec<usize>)>>,
    annotations: RefCell<Annotations>,
}

impl ModuleBuilder {
    /// An empty module.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the computation whose root `define` returns. Its name is made unique in the module.
    ///
    /// # Errors
    /// The first mistake made while building, with the line of Rust that made it.
    pub fn define(
        &self,
        name: &str,
        define: impl for<'b> FnOnce(&'b Builder<'b>) -> Value<'b>,
    ) -> Result<CompId, Diagnostics> {
        self.try_define(name, |b| Ok(define(b)))
    }

    /// As [`ModuleBuilder::define`], where `define` itself can fail.
    ///
    /// # Errors
    /// What `define` returns, else the first mistake made while building.
    pub fn try_define<E: From<Diagnostics>>(
        &self,
        name: &str,
        define: impl for<'b> FnOnce(&'b Builder<'b>) -> Result<Value<'b>, E>,
    ) -> Result<CompId, E> {
        let builder = Builder {
            module: self,
            name: name.to_owned(),
            instrs: RefCell::default(),
            parameters: Cell::new(0),
            annotations: RefCell::default(),
            diagnostics: RefCell::default(),
        };
        let root = define(&builder)?.id;
        let Builder { module: _, name, instrs, parameters: _, annotations, diagnostics } = builder;
        diagnostics.into_inner().into_result(())?;
        let id = self.push(Computation { name, instrs: instrs.into_inner(), root });
        for (instr, annotation) in annotations.into_inner() {
            self.annotations.borrow_mut().push(id, instr, annotation);
        }
        Ok(id)
    }

    /// Adds a computation that calls only those already here. Its name is made unique.
    pub fn push(&self, mut computation: Computation) -> CompId {
        let mut computations = self.computations.borrow_mut();
        let taken = |name: &str| computations.iter().any(|c| c.name == name);
        if taken(&computation.name) {
            let base = computation.name;
            let free = (1..).map(|n| format!("{base}.{n}")).find(|name| !taken(name));
            computation.name = free.unwrap_or(base);
        }
        computations.push(computation);
        CompId::new(computations.len() - 1)
    }

    /// The annotations of an instruction.
    pub fn annotations(&self, computation: CompId, instr: InstrId) -> Vec<Annotation> {
        self.annotations.borrow().get(computation, instr).to_vec()
    }

    /// Attaches to the instructions of `to` the annotations of those with the same ids in `from`.
    pub fn copy_annotations(&self, from: CompId, to: CompId) {
        self.annotations.borrow_mut().copy(from, to);
    }

    /// A copy of one of the computations.
    pub fn get(&self, id: CompId) -> Computation {
        self.computations.borrow()[id.index()].clone()
    }

    /// The computation that folds two scalars of `dtype` with `opcode`, made on first use.
    pub fn reducer(&self, opcode: Opcode, dtype: DType) -> CompId {
        let name = format!("{opcode}.{dtype}");
        let scalar = || Shape::scalar(dtype);
        let is_it =
            |c: &Computation| c.name == name && c.reducer_opcode() == Some(opcode) && *c.result() == scalar();
        if let Some(found) = self.computations.borrow().iter().position(is_it) {
            return CompId::new(found);
        }
        let parameter = |number: usize, name: &str| {
            Instr::new(name.to_owned(), Opcode::Parameter, scalar(), vec![], Attrs::Parameter(number))
        };
        let operands = vec![InstrId::new(0), InstrId::new(1)];
        let folded = Instr::new("folded".to_owned(), opcode, scalar(), operands, Attrs::Plain);
        let instrs = vec![parameter(0, "x"), parameter(1, "y"), folded];
        self.push(Computation { name, instrs, root: InstrId::new(2) })
    }

    /// Adds every computation that was read from `file` and returns where its entry now stands.
    pub fn import(&self, located: &LocatedModule, file: &str) -> CompId {
        let module = &located.module;
        let mut renamed: Vec<CompId> = Vec::with_capacity(module.computations.len());
        for (index, computation) in module.computations.iter().enumerate() {
            let mut copy = computation.clone();
            for instr in &mut copy.instrs {
                let attrs = std::mem::replace(&mut instr.attrs, Attrs::Plain);
                instr.attrs = attrs.with_called(|id| renamed[id.index()]);
            }
            let found = self.computations.borrow().iter().position(|c| *c == copy);
            let id = found.map_or_else(|| self.push(copy), CompId::new);
            let lines = || (file.to_owned(), located.lines(CompId::new(index)).to_vec());
            self.sources.borrow_mut().entry(id).or_insert_with(lines);
            renamed.push(id);
        }
        renamed[module.entry.index()]
    }

    /// The location of an instruction: its line of the file that its computation was read from, else its computation.
    pub fn location(&self, computation: CompId, instr: InstrId) -> Location {
        let sources = self.sources.borrow();
        let source = sources.get(&computation);
        let line = source.and_then(|(file, lines)| Some(Location::line(file, *lines.get(instr.index())?)));
        let computations = self.computations.borrow();
        let computation = &computations[computation.index()];
        line.unwrap_or_else(|| Location::file(&computation.name)).at(&computation.instr(instr).name)
    }

    /// Says that `gradient` differentiates `primal`: it takes the arguments of `primal`, its result and the
    /// cotangent of the result, and gives the tuple of the cotangents of its floating-point arguments.
    pub fn set_gradient(&self, primal: CompId, gradient: CompId) {
        self.gradients.borrow_mut().insert(primal, gradient);
    }

    /// The gradient computation of `primal`, if one was set.
    pub fn gradient(&self, primal: CompId) -> Option<CompId> {
        self.gradients.borrow().get(&primal).copied()
    }

    /// The computation that `derive` makes of `primal` for the parameters `wrt`; made when first asked for.
    ///
    /// # Errors
    /// What `derive` returns.
    pub fn cached_vjp<E>(
        &self,
        primal: CompId,
        wrt: Vec<usize>,
        derive: impl FnOnce(&[usize]) -> Result<CompId, E>,
    ) -> Result<CompId, E> {
        let known = self.derived.borrow().get(&(primal, wrt.clone())).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = derive(&wrt)?;
        self.derived.borrow_mut().insert((primal, wrt), made);
        Ok(made)
    }

    /// The module that starts at `entry`.
    pub fn finish(self, name: &str, entry: CompId, aliases: Vec<Alias>) -> Module {
        Module {
            name: name.to_owned(),
            computations: self.computations.into_inner(),
            entry,
            aliases,
            host_parameters: BTreeSet::new(),
            frontend_attributes: BTreeMap::new(),
            annotations: self.annotations.into_inner(),
        }
    }
}

/// A computation under construction.
pub struct Builder<'m> {
    module: &'m ModuleBuilder,
    name: String,
    instrs: RefCell<Vec<Instr>>,
    parameters: Cell<usize>,
    annotations: RefCell<Vec<(InstrId, Annotation)>>,
    diagnostics: RefCell<Diagnostics>,
}

impl<'m> Builder<'m> {
    /// The module this computation will be part of.
    pub fn module(&self) -> &'m ModuleBuilder {
        self.module
    }

    /// The next argument of the computation.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>) -> Value<'_> {
        let number = self.parameters.replace(self.parameters.get() + 1);
        let value = self.push(Opcode::Parameter, &[], Attrs::Parameter(number), Some(shape.into()));
        value.named(name)
    }

    /// A value known now.
    #[track_caller]
    pub fn constant(&self, literal: Literal) -> Value<'_> {
        self.push(Opcode::Constant, &[], Attrs::Constant(literal), None)
    }

    /// One number, rounded to `dtype`.
    #[track_caller]
    pub fn scalar(&self, dtype: DType, value: f64) -> Value<'_> {
        self.constant(Literal::scalar(dtype, value))
    }

    /// An array with the same number everywhere.
    #[track_caller]
    pub fn full(&self, shape: ArrayShape, value: f64) -> Value<'_> {
        self.scalar(shape.dtype, value).broadcast(&shape.dims, &[])
    }

    /// An array that counts up from zero along `dim`.
    #[track_caller]
    pub fn iota(&self, shape: ArrayShape, dim: usize) -> Value<'_> {
        self.push(Opcode::Iota, &[], Attrs::Iota(dim), Some(shape.into()))
    }

    /// Several values as one.
    #[track_caller]
    pub fn tuple(&self, elements: &[Value<'_>]) -> Value<'_> {
        self.push(Opcode::Tuple, elements, Attrs::Plain, None)
    }

    /// The result of another computation of the module.
    #[track_caller]
    pub fn call(&self, callee: CompId, arguments: &[Value<'_>]) -> Value<'_> {
        self.push(Opcode::Call, arguments, Attrs::Call(callee), None)
    }

    /// Runs `body` on the carried value as long as `condition` holds.
    #[track_caller]
    pub fn while_loop(&self, condition: CompId, body: CompId, init: Value<'_>) -> Value<'_> {
        self.push(Opcode::While, &[init], Attrs::While { condition, body }, None)
    }

    /// An operation of the platform's own.
    #[track_caller]
    pub fn custom_call(&self, call: CustomCall, operands: &[Value<'_>], shape: Shape) -> Value<'_> {
        self.push(Opcode::CustomCall, operands, Attrs::CustomCall(call), Some(shape))
    }

    /// Any instruction. `declared` is the shape of results that do not follow from the operands.
    #[track_caller]
    pub fn push(
        &self,
        opcode: Opcode,
        operands: &[Value<'_>],
        attrs: Attrs,
        declared: Option<Shape>,
    ) -> Value<'_> {
        let caller = panic::Location::caller();
        let operands: Vec<InstrId> = operands.iter().map(|value| value.id).collect();
        let mut instrs = self.instrs.borrow_mut();
        let shape = {
            let shapes: Vec<&Shape> = operands.iter().map(|id| &instrs[id.index()].shape).collect();
            let computations = self.module.computations.borrow();
            infer(opcode, &shapes, &attrs, declared.as_ref(), &computations).unwrap_or_else(|message| {
                self.report(opcode, &shapes, message, caller);
                let stand_in = declared.as_ref().or(shapes.first().copied());
                stand_in.cloned().unwrap_or(Shape::Tuple(Vec::new()))
            })
        };
        let id = InstrId::new(instrs.len());
        instrs.push(Instr::new(format!("{opcode}.{}", id.index()), opcode, shape, operands, attrs));
        Value { builder: self, id }
    }

    /// The shape of an instruction.
    pub(super) fn shape_of(&self, id: InstrId) -> Shape {
        self.instrs.borrow()[id.index()].shape.clone()
    }

    /// Names an instruction; its number keeps the name unique.
    pub(super) fn rename(&self, id: InstrId, name: &str) {
        self.instrs.borrow_mut()[id.index()].name = format!("{name}.{}", id.index());
    }

    /// Says where the value of an instruction shall lie.
    pub(super) fn set_sharding(&self, id: InstrId, sharding: Sharding) {
        self.instrs.borrow_mut()[id.index()].sharding = Some(sharding);
    }

    /// Sets a frontend attribute of an instruction.
    pub(super) fn set_frontend_attribute(&self, id: InstrId, key: &str, value: String) {
        self.instrs.borrow_mut()[id.index()].frontend_attributes.insert(key.to_owned(), value);
    }

    /// Attaches an annotation to an instruction, unless the last one there is equal.
    pub(super) fn annotate(&self, id: InstrId, annotation: Annotation) {
        let mut annotations = self.annotations.borrow_mut();
        let last = annotations.iter().rev().find(|(instr, _)| *instr == id);
        if last.is_none_or(|(_, last)| *last != annotation) {
            annotations.push((id, annotation));
        }
    }

    /// Reports an instruction as invalid.
    #[track_caller]
    pub(super) fn reject(&self, id: InstrId, message: String) {
        let instr = &self.instrs.borrow()[id.index()];
        self.report(instr.opcode, &[&instr.shape], message, panic::Location::caller());
    }

    fn report(&self, opcode: Opcode, shapes: &[&Shape], message: String, at: &panic::Location<'_>) {
        let mut diagnostics = self.diagnostics.borrow_mut();
        if diagnostics.0.is_empty() {
            let shapes: Vec<String> = shapes.iter().map(ToString::to_string).collect();
            let location = Location::line(at.file(), at.line() as usize).at(&self.name);
            diagnostics
                .push(Diagnostic::error(location, format!("{opcode}({}): {message}", shapes.join(", "))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::verify;

    #[test]
    fn a_formula_becomes_a_verified_module() {
        let module = ModuleBuilder::new();
        let entry = module.define("f", |b| {
            let x = b.parameter("x", ArrayShape::new(DType::F32, [2, 3]));
            (x * x + 1.0).sum(&[1]).sqrt()
        });
        let verified = verify(module.finish("m", entry.unwrap(), vec![])).unwrap();
        assert_eq!(verified.entry().result().to_string(), "f32[2]");
    }

    #[test]
    fn a_value_says_where_it_lies_and_verification_checks_it() {
        let verified = |sharding: Sharding| {
            let module = ModuleBuilder::new();
            let entry = module.define("f", |b| {
                let x = b.parameter("x", ArrayShape::new(DType::F32, [8]));
                x.with_sharding(sharding).with_frontend_attribute("key", "value")
            });
            verify(module.finish("m", entry.unwrap(), vec![]))
        };
        let module = verified(Sharding::on_mesh(&[4, 2], &[vec![0]])).unwrap();
        let text = crate::hlo::text::print(&module);
        let line =
            "sharding={devices=[4,2]<=[8] last_tile_dim_replicate}, frontend_attributes={key=\"value\"}";
        assert!(text.contains(line), "{text}");
        let diagnostics = verified(Sharding::on_mesh(&[4, 2], &[vec![0], vec![1]])).unwrap_err();
        let message = "f: `x.0`: expected a sharding for f32[8], found {devices=[4,2]<=[8]}";
        assert_eq!(diagnostics.to_string(), message);
    }

    #[test]
    fn the_first_mistake_is_returned_with_its_line() {
        let module = ModuleBuilder::new();
        let line = line!() + 4;
        let result = module.define("f", |b| {
            let x = b.parameter("x", ArrayShape::new(DType::F32, [2]));
            let y = b.parameter("y", ArrayShape::new(DType::F32, [3]));
            (x + y).exp() + x
        });
        let expected = format!(
            "src/hlo/builder.rs:{line}: `f`: add(f32[2], f32[3]): \
             expected the second operand to be f32[2], found f32[3]"
        );
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}
