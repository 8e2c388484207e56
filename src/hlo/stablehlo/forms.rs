//! Operations with a form of their own: those with regions or dimension numbers, and calls.

use std::rc::Rc;

use super::{
    StablehloError,
    body::{Body, Site, Value},
    operations::commutative,
    syntax::{Quoted, attributes, commas, list, result_types, symbol, tensor_or_tuple, tensors},
};
use crate::{
    base::Shape,
    hlo::{Attrs, CompId, CustomCall, GatherDims, ScatterDims, SideEffect},
};

impl<'m> Body<'m, '_> {
    /// Prints an operation with a form of its own.
    pub(super) fn own(&mut self, site: &Site<'m>) -> Result<Value, StablehloError> {
        match &site.instr.attrs {
            Attrs::Reduce { dims, to_apply } => self.reduce(site, dims, *to_apply),
            Attrs::Gather(dims) => self.gather(site, dims),
            Attrs::Scatter { dims, to_apply } => self.scatter(site, dims, *to_apply),
            Attrs::Call(callee) => self.call(site, *callee),
            Attrs::While { condition, body } => self.while_loop(site, *condition, *body),
            Attrs::CustomCall(call) => self.custom_call(site, call),
            Attrs::Plain
            | Attrs::Parameter(_)
            | Attrs::Constant(_)
            | Attrs::Iota(_)
            | Attrs::Dims(_)
            | Attrs::Compare(_)
            | Attrs::Dot(_)
            | Attrs::Slice(_)
            | Attrs::DynamicSlice(_)
            | Attrs::Pad(_)
            | Attrs::TupleIndex(_) => self.barrier(site),
        }
    }

    /// `(operand types) -> result types`
    fn signature(&self, site: &Site<'m>) -> String {
        format!("({}) -> {}", commas(site.types()), result_types(&tensors(&site.instr.shape)))
    }

    fn call(&mut self, site: &Site<'m>, callee: CompId) -> Result<Value, StablehloError> {
        let function = symbol(self.functions.symbol(callee).unwrap_or_default());
        let (attributes, signature) = (self.attributes(site)?, self.signature(site));
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let operands = commas(site.names());
        self.end(site, &format!("{prefix}func.call {function}({operands}){attributes} : {signature}"));
        Ok(value)
    }

    fn barrier(&mut self, site: &Site<'m>) -> Result<Value, StablehloError> {
        let (names, types, attributes) = (site.names(), site.types(), self.attributes(site)?);
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        if !names.is_empty() {
            let (names, types) = (commas(names), commas(types));
            self.end(site, &format!("{prefix}stablehlo.optimization_barrier{attributes} {names} : {types}"));
        }
        Ok(value)
    }

    fn while_loop(
        &mut self,
        site: &Site<'m>,
        condition: CompId,
        body: CompId,
    ) -> Result<Value, StablehloError> {
        let parameter = self.module.computation(body).parameters()[0];
        let parameter = self.module.computation(body).instr(parameter);
        let attributes = self.attributes(site)?;
        let carry = self.argument(&parameter.name, &parameter.shape);
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let (types, initial) = (site.types(), site.names());
        let arguments = carry.arrays();
        let pairs =
            arguments.iter().zip(initial).map(|(argument, initial)| format!("{argument} = {initial}"));
        let types = if types.is_empty() { String::new() } else { format!(" : {}", commas(types)) };
        self.line(&format!("{prefix}stablehlo.while({}){types}", commas(pairs)));
        if !attributes.is_empty() {
            self.line(&format!("attributes{attributes}"));
        }
        self.line("cond {");
        self.region(condition, std::slice::from_ref(&carry))?;
        self.line("} do {");
        self.region(body, std::slice::from_ref(&carry))?;
        self.end(site, "}");
        Ok(value)
    }

    fn reduce(&mut self, site: &Site<'m>, dims: &[usize], to_apply: CompId) -> Result<Value, StablehloError> {
        let reducer = self.module.computation(to_apply);
        let root = reducer.instr(reducer.root);
        let annotated = root.sharding.is_some() || !root.frontend_attributes.is_empty();
        let compact = reducer.reducer_opcode().and_then(commutative).filter(|_| !annotated);
        let (attributes, signature) = (self.attributes(site)?, self.signature(site));
        let names = site.names();
        let operands = format!("{} init: {}", names[0], names[1]);
        let across = format!("across dimensions = {}{attributes} : {signature}", list(dims));
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let start = format!("{prefix}stablehlo.reduce({operands})");
        match compact {
            Some(operation) => {
                self.end(site, &format!("{start} applies stablehlo.{operation} {across}"));
            }
            None => {
                self.line(&format!("{start} {across}"));
                let (arguments, declared) = self.scalars(to_apply);
                self.line(&format!(" reducer({}) {{", commas(declared)));
                self.region(to_apply, &arguments)?;
                self.end(site, "}");
            }
        }
        Ok(value)
    }

    /// The arguments of a reducer, and their declarations.
    fn scalars(&mut self, reducer: CompId) -> (Vec<Value>, Vec<String>) {
        let reducer = self.module.computation(reducer);
        let (mut arguments, mut declared) = (Vec::new(), Vec::new());
        for parameter in reducer.parameters() {
            let parameter = reducer.instr(parameter);
            let argument = self.argument(&parameter.name, &parameter.shape);
            declared.push(format!("{}: {}", commas(argument.arrays()), commas(tensors(&parameter.shape))));
            arguments.push(argument);
        }
        (arguments, declared)
    }

    fn gather(&mut self, site: &Site<'m>, dims: &GatherDims) -> Result<Value, StablehloError> {
        let GatherDims { offset_dims, collapsed_slice_dims, start_index_map, index_vector_dim, slice_sizes } =
            dims;
        let mut numbers = fields(&[
            ("offset_dims", offset_dims),
            ("collapsed_slice_dims", collapsed_slice_dims),
            ("start_index_map", start_index_map),
        ]);
        numbers.push(format!("index_vector_dim = {index_vector_dim}"));
        let sizes = match slice_sizes.as_slice() {
            [] => "array<i64>".to_owned(),
            sizes => format!("array<i64: {}>", commas(sizes)),
        };
        let numbers = numbers.join(", ");
        let properties =
            format!("<{{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {sizes}}}>");
        let (attributes, signature) = (self.attributes(site)?, self.signature(site));
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let operands = commas(site.names());
        self.end(
            site,
            &format!("{prefix}\"stablehlo.gather\"({operands}) {properties}{attributes} : {signature}"),
        );
        Ok(value)
    }

    fn scatter(
        &mut self,
        site: &Site<'m>,
        dims: &ScatterDims,
        to_apply: CompId,
    ) -> Result<Value, StablehloError> {
        let ScatterDims {
            update_window_dims,
            inserted_window_dims,
            scatter_dims_to_operand_dims,
            index_vector_dim,
        } = dims;
        let mut numbers = fields(&[
            ("update_window_dims", update_window_dims),
            ("inserted_window_dims", inserted_window_dims),
            ("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims),
        ]);
        numbers.push(format!("index_vector_dim = {index_vector_dim}"));
        let properties =
            format!("<{{scatter_dimension_numbers = #stablehlo.scatter<{}>}}>", numbers.join(", "));
        let (attributes, signature) = (self.attributes(site)?, self.signature(site));
        let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
        let operands = commas(site.names());
        self.line(&format!("{prefix}\"stablehlo.scatter\"({operands}) {properties} ({{"));
        let (arguments, declared) = self.scalars(to_apply);
        self.line(&format!("^bb0({}):", commas(declared)));
        self.region(to_apply, &arguments)?;
        self.end(site, &format!("}}){attributes} : {signature}"));
        Ok(value)
    }

    fn custom_call(&mut self, site: &Site<'m>, call: &CustomCall) -> Result<Value, StablehloError> {
        let CustomCall { target, side_effect, backend_config } = call;
        if let Some(sharding) = self.annotator.constraint(site.computation, site.instr)? {
            let (prefix, value) = self.results(&site.instr.name, &site.instr.shape);
            let (names, types) = (commas(site.names()), commas(site.types()));
            self.end(site, &format!("{prefix}sdy.sharding_constraint {names} {sharding} : {types}"));
            return Ok(value);
        }
        let mut entries = Vec::new();
        if !backend_config.is_empty() {
            entries.push(format!("backend_config = {}", Quoted(backend_config)));
        }
        if *side_effect == SideEffect::Present {
            entries.push("has_side_effect = true".to_owned());
        }
        let count = tensors(&site.instr.shape).len();
        entries.extend(self.annotator.operation(site.computation, site.instr, count)?);
        let operands: Vec<Rc<str>> = site
            .operands
            .iter()
            .zip(&site.shapes)
            .map(|(value, shape)| self.packed(site, value, shape))
            .collect();
        let types = commas(site.shapes.iter().map(|shape| tensor_or_tuple(shape)));
        let result = tensor_or_tuple(&site.instr.shape);
        let packed: Rc<str> = Rc::from(format!("%{}", self.unique(&site.instr.name)));
        let (target, operands, attributes) = (symbol(target), commas(operands), attributes(&entries));
        self.end(
            site,
            &format!(
                "{packed} = stablehlo.custom_call {target}({operands}){attributes} : ({types}) -> {result}"
            ),
        );
        let value = self.unpacked(site, packed, &site.instr.shape);
        if self.annotator.constrains_arrays(site.instr) { self.constrained(site, value) } else { Ok(value) }
    }

    /// One value, a tuple of MLIR where HLO has one: the platform sees the shapes of a custom call.
    fn packed(&mut self, site: &Site<'m>, value: &Value, shape: &Shape) -> Rc<str> {
        let (elements, shapes) = match (value, shape) {
            (Value::Array(name), _) => return Rc::clone(name),
            (Value::Tuple(elements), shape) => (elements, shape.as_tuple().unwrap_or(&[])),
        };
        let elements: Vec<Rc<str>> =
            elements.iter().zip(shapes).map(|(element, shape)| self.packed(site, element, shape)).collect();
        let name = format!("%{}", self.unique("tuple"));
        let of = tensor_or_tuple(shape);
        self.end(site, &format!("{name} = stablehlo.tuple {} : {of}", commas(elements)));
        Rc::from(name)
    }

    /// The arrays of a value that is a tuple of MLIR where HLO has one.
    fn unpacked(&mut self, site: &Site<'m>, packed: Rc<str>, shape: &Shape) -> Value {
        let Shape::Tuple(elements) = shape else { return Value::Array(packed) };
        let of = tensor_or_tuple(shape);
        let elements = elements.iter().enumerate().map(|(index, element)| {
            let name: Rc<str> = Rc::from(format!("%{}", self.unique(&site.instr.name)));
            let result = tensor_or_tuple(element);
            let text = format!("{name} = stablehlo.get_tuple_element {packed}[{index}] : ({of}) -> {result}");
            self.end(site, &text);
            self.unpacked(site, name, element)
        });
        Value::Tuple(elements.collect::<Vec<_>>().into())
    }
}

/// `name = [0, 1]` of the dimensions that are not empty, which is what MLIR prints.
fn fields(lists: &[(&str, &Vec<usize>)]) -> Vec<String> {
    let present = lists.iter().filter(|(_, dims)| !dims.is_empty());
    present.map(|(name, dims)| format!("{name} = {}", list(*dims))).collect()
}
