//! Builds modules from Rust. A [`Value`] is a cheap handle, so that graph code reads like the formula it computes.
//!
//! An error, such as an addition of unequal shapes, does not stop the code that builds: the first error is recorded with
//! the line of Rust that caused it, and [`ModuleBuilder::define`] returns it.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    panic,
    sync::Arc,
};

use super::{
    Alias, Annotation, Annotations, Attrs, CompId, Computation, CustomCall, Instr, InstrId, MetadataTable,
    Module, OpMetadata, Opcode, Sharding, infer, origin::Origin, text::LocatedModule,
};
use crate::base::{ArrayShape, DType, Diagnostic, Diagnostics, Literal, Location, Shape};

/// Collects the computations of a module.
#[derive(Default)]
pub struct ModuleBuilder {
    computations: RefCell<Vec<Computation>>,
    sources: RefCell<BTreeMap<CompId, SourceLines>>,
    annotations: RefCell<Annotations>,
    metadata: RefCell<MetadataTable>,
}

/// The text that a computation was parsed from.
struct SourceLines {
    file: String,
    /// The line of each instruction, counted from one.
    lines: Vec<usize>,
}

impl ModuleBuilder {
    /// Creates an empty module.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the computation whose root `define` returns. Its name is made unique in the module.
    ///
    /// # Errors
    /// The first error of shape inference while building, with the line of Rust that caused it.
    pub fn define(
        &self,
        name: &str,
        define: impl for<'b> FnOnce(&'b Builder<'b>) -> Value<'b>,
    ) -> Result<CompId, Diagnostics> {
        self.try_define(name, |b| Ok(define(b)))
    }

    /// As [`ModuleBuilder::define`], for a `define` that can fail itself.
    ///
    /// # Errors
    /// The error of `define`, else the first error of shape inference while building.
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
            scope: RefCell::default(),
            origins: RefCell::default(),
            first_error: RefCell::default(),
        };
        let root = define(&builder)?.id;
        let Builder { name, instrs, annotations, origins, first_error, .. } = builder;
        if let Some(error) = first_error.into_inner() {
            return Err(Diagnostics::from(error).into());
        }
        let instrs = instrs.into_inner();
        let origins = origins.into_inner().into_iter().zip(&instrs);
        let metadata: Vec<OpMetadata> = origins.map(|(origin, instr)| origin.metadata(instr)).collect();
        let id = self.push(Computation { name, instrs, root });
        for (instr, metadata) in metadata.into_iter().enumerate() {
            self.metadata.borrow_mut().set(id, InstrId::new(instr), metadata);
        }
        for (instr, annotation) in annotations.into_inner() {
            self.annotations.borrow_mut().push(id, instr, annotation);
        }
        Ok(id)
    }

    /// Adds a computation that calls only earlier ones. Its name is made unique.
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

    /// The metadata of an instruction.
    pub fn metadata(&self, computation: CompId, instr: InstrId) -> OpMetadata {
        self.metadata.borrow().get(computation, instr).cloned().unwrap_or_default()
    }

    /// Sets the metadata of an instruction.
    pub fn set_metadata(&self, computation: CompId, instr: InstrId, metadata: OpMetadata) {
        self.metadata.borrow_mut().set(computation, instr, metadata);
    }

    /// Copies annotations and metadata of the instructions of `from` to the instructions of `to` with the same ids.
    pub fn copy_side_tables(&self, from: CompId, to: CompId) {
        self.annotations.borrow_mut().copy(from, to);
        self.metadata.borrow_mut().copy(from, to);
    }

    /// Returns a copy of a computation.
    pub fn get(&self, id: CompId) -> Computation {
        self.computations.borrow()[id.index()].clone()
    }

    /// Returns the reducer that applies `opcode` to two scalars of `dtype`. It is added on first use.
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
        let root = Instr::new("reduced".to_owned(), opcode, scalar(), operands, Attrs::Plain);
        let instrs = vec![parameter(0, "x"), parameter(1, "y"), root];
        self.push(Computation { name, instrs, root: InstrId::new(2) })
    }

    /// Adds every computation of a module that was parsed from `file`, and returns the id of its entry. A computation
    /// that is already there is not added again. Instructions without metadata get their name, `source_file` and the line.
    pub fn import(&self, located: &LocatedModule, file: &str, source_file: &str) -> CompId {
        let module = &located.module;
        let mut ids: Vec<CompId> = Vec::with_capacity(module.computations.len());
        for (index, computation) in module.computations.iter().enumerate() {
            let mut copy = computation.clone();
            for instr in &mut copy.instrs {
                instr.attrs.callees_mut().into_iter().for_each(|callee| *callee = ids[callee.index()]);
            }
            let found = self.computations.borrow().iter().position(|c| *c == copy);
            let id = found.map_or_else(|| self.push(copy), CompId::new);
            let lines = located.lines(CompId::new(index)).to_vec();
            if found.is_none() {
                self.import_metadata(located, (CompId::new(index), id), source_file);
            }
            self.sources
                .borrow_mut()
                .entry(id)
                .or_insert_with(|| SourceLines { file: file.to_owned(), lines });
            ids.push(id);
        }
        ids[module.entry.index()]
    }

    fn import_metadata(&self, located: &LocatedModule, (from, to): (CompId, CompId), source_file: &str) {
        let source_file: Arc<str> = source_file.into();
        let lines = located.lines(from);
        for ((id, instr), &line) in located.module.computation(from).iter().zip(lines) {
            let source_line = u32::try_from(line).unwrap_or_default();
            let scope = OpMetadata { source_file: source_file.clone(), source_line, ..OpMetadata::default() };
            let own = located.module.metadata.get(from, id).cloned();
            let metadata = own.unwrap_or_else(|| Origin::Scope(scope).metadata(instr));
            self.metadata.borrow_mut().set(to, id, metadata);
        }
    }

    /// Returns the location of an instruction: the file and line that it was parsed from, else its computation.
    pub fn location(&self, computation: CompId, instr: InstrId) -> Location {
        let sources = self.sources.borrow();
        let source = sources.get(&computation);
        let line = source.and_then(|source| {
            let line = source.lines.get(instr.index())?;
            Some(Location::line(&source.file, *line))
        });
        let computations = self.computations.borrow();
        let computation = &computations[computation.index()];
        line.unwrap_or_else(|| Location::file(&computation.name)).at(&computation.instr(instr).name)
    }

    /// Returns the module with the given entry computation.
    pub fn finish(self, name: &str, entry: CompId, aliases: Vec<Alias>) -> Module {
        Module {
            name: name.to_owned(),
            computations: self.computations.into_inner(),
            entry,
            aliases,
            host_parameters: BTreeSet::new(),
            frontend_attributes: BTreeMap::new(),
            metadata: self.metadata.into_inner(),
            annotations: self.annotations.into_inner(),
        }
    }
}

/// The value of one instruction of a computation under construction.
#[derive(Clone, Copy)]
pub struct Value<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) id: InstrId,
}

impl<'b> Value<'b> {
    /// The id of the instruction.
    pub fn id(self) -> InstrId {
        self.id
    }

    /// The computation under construction.
    pub fn builder(self) -> &'b Builder<'b> {
        self.builder
    }
}

/// A computation under construction.
pub struct Builder<'m> {
    module: &'m ModuleBuilder,
    name: String,
    instrs: RefCell<Vec<Instr>>,
    parameters: Cell<usize>,
    annotations: RefCell<Vec<(InstrId, Annotation)>>,
    /// The scope of new instructions: the path is its `op_name`.
    scope: RefCell<OpMetadata>,
    /// Of each instruction.
    origins: RefCell<Vec<Origin>>,
    first_error: RefCell<Option<Diagnostic>>,
}

impl<'m> Builder<'m> {
    /// The module that the computation will be part of.
    pub fn module(&self) -> &'m ModuleBuilder {
        self.module
    }

    /// Adds the next parameter of the computation.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>) -> Value<'_> {
        let number = self.parameters.replace(self.parameters.get() + 1);
        let value = self.push(Opcode::Parameter, &[], Attrs::Parameter(number), Some(shape.into()));
        value.named(name)
    }

    /// Adds a constant.
    #[track_caller]
    pub fn constant(&self, literal: Literal) -> Value<'_> {
        self.push(Opcode::Constant, &[], Attrs::Constant(literal), None)
    }

    /// Adds a scalar constant, rounded to `dtype`.
    #[track_caller]
    pub fn scalar(&self, dtype: DType, value: f64) -> Value<'_> {
        self.constant(Literal::scalar(dtype, value))
    }

    /// Adds an array whose elements are all `value`.
    #[track_caller]
    pub fn full(&self, shape: ArrayShape, value: f64) -> Value<'_> {
        self.scalar(shape.dtype, value).broadcast(&shape.dims, &[])
    }

    /// Adds an array that counts up from zero along `dim`.
    #[track_caller]
    pub fn iota(&self, shape: ArrayShape, dim: usize) -> Value<'_> {
        self.push(Opcode::Iota, &[], Attrs::Iota(dim), Some(shape.into()))
    }

    /// Adds a tuple.
    #[track_caller]
    pub fn tuple(&self, elements: &[Value<'_>]) -> Value<'_> {
        self.push(Opcode::Tuple, elements, Attrs::Plain, None)
    }

    /// Adds a call of another computation of the module.
    #[track_caller]
    pub fn call(&self, callee: CompId, arguments: &[Value<'_>]) -> Value<'_> {
        self.push(Opcode::Call, arguments, Attrs::Call(callee), None)
    }

    /// Adds a loop that applies `body` to the carry as long as `condition` of it is true.
    #[track_caller]
    pub fn while_loop(&self, condition: CompId, body: CompId, init: Value<'_>) -> Value<'_> {
        self.push(Opcode::While, &[init], Attrs::While { condition, body }, None)
    }

    /// Adds a custom call with a result of the given shape.
    #[track_caller]
    pub fn custom_call(&self, call: CustomCall, operands: &[Value<'_>], shape: Shape) -> Value<'_> {
        self.push(Opcode::CustomCall, operands, Attrs::CustomCall(call), Some(shape))
    }

    /// Adds an instruction. `declared` is the result shape where it does not follow from the operands.
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
            infer(opcode, &shapes, &attrs, declared.as_ref(), &computations).unwrap_or_else(|error| {
                self.report(opcode, &shapes, &error, caller);
                let fallback = declared.as_ref().or(shapes.first().copied());
                fallback.cloned().unwrap_or(Shape::Tuple(Vec::new()))
            })
        };
        let id = InstrId::new(instrs.len());
        self.origins.borrow_mut().push(Origin::Scope(self.current_scope()));
        instrs.push(Instr::new(format!("{opcode}.{}", id.index()), opcode, shape, operands, attrs));
        Value { builder: self, id }
    }

    /// The scope of new instructions; its `op_name` is the path.
    pub fn current_scope(&self) -> OpMetadata {
        self.scope.borrow().clone()
    }

    /// Runs `build` in the scope `name` of the current scope: the `op_name` of the instructions that it adds starts with the
    /// path of scopes ([`metadata`](super::metadata)). A name may have several components.
    pub fn named_scope<T>(&self, name: &str, build: impl FnOnce() -> T) -> T {
        self.in_scope(self.current_scope().nested(name), build)
    }

    /// Runs `build` in the scope `path` instead of the current scope.
    pub fn root_scope<T>(&self, path: &str, build: impl FnOnce() -> T) -> T {
        self.in_scope(OpMetadata::default().nested(path), build)
    }

    /// Runs `build` in `scope` instead of the current scope: its `op_name` is the path, and the instructions have its source.
    pub fn in_scope<T>(&self, scope: OpMetadata, build: impl FnOnce() -> T) -> T {
        let outer = self.scope.replace(scope);
        let built = build();
        self.scope.replace(outer);
        built
    }

    /// Sets the metadata of an instruction.
    pub(super) fn set_metadata(&self, id: InstrId, metadata: OpMetadata) {
        self.origins.borrow_mut()[id.index()] = Origin::Set(metadata);
    }

    /// The shape of an instruction.
    pub(super) fn shape_of(&self, id: InstrId) -> Shape {
        self.instrs.borrow()[id.index()].shape.clone()
    }

    /// Names an instruction. The number of the instruction keeps the name unique.
    pub(super) fn rename(&self, id: InstrId, name: &str) {
        self.instrs.borrow_mut()[id.index()].name = format!("{name}.{}", id.index());
    }

    /// Sets the sharding of an instruction.
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
        self.report(instr.opcode, &[&instr.shape], &message.into(), panic::Location::caller());
    }

    /// Records an error with its line of Rust, unless an error is recorded already.
    fn report(&self, opcode: Opcode, shapes: &[&Shape], error: &Diagnostic, at: &panic::Location<'_>) {
        self.first_error.borrow_mut().get_or_insert_with(|| {
            let shapes: Vec<String> = shapes.iter().map(ToString::to_string).collect();
            let location = Location::line(at.file(), at.line() as usize).at(&self.name);
            let message = format!("{opcode}({}): {}", shapes.join(", "), error.message);
            Diagnostic::error(location, message)
        });
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
    fn a_sharding_is_set_on_the_instruction_and_verified() {
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
    fn the_first_error_is_returned_with_its_line() {
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
