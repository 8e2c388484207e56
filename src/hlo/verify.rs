use std::collections::HashSet;

use super::{
    Attrs, CompId, Computation, Instr, InstrId, Module, infer, infer::shape_error, limits,
    memory::ARG_MEMORY_SPACES, names::is_name,
};
use crate::base::{Diagnostic, Diagnostics, Location, Shape};

/// A module that passed every check of [`verify`], which is the only way to get one.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified(Module);

impl Verified {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }

    /// Returns the module for changes, after which it must be verified again.
    pub fn into_module(self) -> Module {
        self.0
    }

    /// The computation that is executed.
    pub fn entry(&self) -> &Computation {
        self.0.entry()
    }

    /// Every computation with its id, in topological order.
    pub fn computations(&self) -> impl Iterator<Item = (CompId, &Computation)> {
        self.0.computations.iter().enumerate().map(|(i, c)| (CompId::new(i), c))
    }
}

/// Maximum size of a value in bytes. XLA counts bytes in a signed 64-bit integer, and some passes double them.
const MAX_BYTES: usize = 1 << 60;

/// Verifies a module, so that printers, encoders and plugins need not check it.
///
/// - Each name is valid in HLO text: `[A-Za-z_][A-Za-z0-9_.-]*`, and no element type.
/// - Each computation has unique instruction names, a root, and parameters numbered from zero.
/// - Calls nest at most 64 deep.
/// - Each instruction has earlier operands, calls earlier computations, has the attributes of its opcode and the
///   shape that follows from its operands.
/// - Each sharding fits the shape of its value, and each frontend attribute has a name that is valid in HLO text.
/// - The entry exists, and each alias pairs an array parameter with an output of the same shape, each at most once.
/// - Only array parameters are in host memory, and none of them is donated, since results are in device memory.
///
/// # Errors
/// Every error, each with the computation and the instruction.
pub fn verify(module: Module) -> Result<Verified, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    for computation in module.computations.iter().filter(|c| c.root.index() >= c.instrs.len()) {
        diagnostics.push(Diagnostic::error(Location::file(&computation.name), "missing root instruction"));
    }
    // The shape of a call is that of a root, so that nothing else can be checked without roots.
    diagnostics.into_result(())?;
    let mut diagnostics = Diagnostics::default();
    let mut names = HashSet::new();
    for (index, computation) in module.computations.iter().enumerate() {
        let location = Location::file(&computation.name);
        if !names.insert(&computation.name) {
            diagnostics.push(Diagnostic::error(location.clone(), "duplicate computation name"));
        }
        check_name(&computation.name, location, &mut diagnostics);
        check_computation(computation, &module.computations[..index], &mut diagnostics);
    }
    if let Some((id, error)) = limits::call_depth_error(&module.computations) {
        diagnostics.push(error.located(Location::file(&module.computation(id).name)));
    }
    check_header(&module, &mut diagnostics);
    check_entry(&module, &mut diagnostics);
    diagnostics.into_result(()).map(|()| Verified(module))
}

fn check_name(name: &str, location: Location, diagnostics: &mut Diagnostics) {
    if !is_name(name) {
        let message =
            "invalid name: expected a letter or `_`, then letters, digits and `_.-`, and no element type";
        diagnostics.push(Diagnostic::error(location, message));
    }
}

fn check_attribute_names<'a>(
    names: impl IntoIterator<Item = &'a String>,
    location: &Location,
    diagnostics: &mut Diagnostics,
) {
    for name in names.into_iter().filter(|name| !is_name(name)) {
        let message = format!("invalid name of a frontend attribute: {name:?}");
        diagnostics.push(Diagnostic::error(location.clone(), message));
    }
}

fn check_computation(computation: &Computation, earlier: &[Computation], diagnostics: &mut Diagnostics) {
    let mut names = HashSet::new();
    let mut numbers = Vec::new();
    for (id, instr) in computation.iter() {
        let location = Location::file(&computation.name).at(&instr.name);
        check_name(&instr.name, location.clone(), diagnostics);
        if !names.insert(&instr.name) {
            diagnostics.push(Diagnostic::error(location.clone(), "duplicate instruction name"));
        }
        check_attribute_names(instr.frontend_attributes.keys(), &location, diagnostics);
        if let Attrs::Parameter(number) = instr.attrs {
            numbers.push(number);
        }
        let sharding = instr.sharding.as_ref().map_or(Ok(()), |sharding| sharding.check(&instr.shape));
        let results = [sharding, check_shape(computation, id, instr, earlier)];
        let errors = results.into_iter().filter_map(Result::err);
        errors.for_each(|error| diagnostics.push(error.located(location.clone())));
    }
    numbers.sort_unstable();
    if numbers.iter().enumerate().any(|(i, &number)| i != number) {
        let message = format!("expected parameters numbered from 0, found {numbers:?}");
        diagnostics.push(Diagnostic::error(Location::file(&computation.name), message));
    }
}

/// Checks that the operands are earlier instructions, and that the shape follows from them.
fn check_shape(
    computation: &Computation,
    id: InstrId,
    instr: &Instr,
    earlier: &[Computation],
) -> Result<(), Diagnostic> {
    if let Some(&operand) = instr.operands.iter().find(|&&operand| operand >= id) {
        return Err(format!("operand {operand:?} is not defined before its use").into());
    }
    if exceeds_max_bytes(&instr.shape) {
        return Err(format!("expected at most 2^60 bytes, found {}", instr.shape).into());
    }
    let operands: Vec<&Shape> = instr.operands.iter().map(|&o| &computation.instr(o).shape).collect();
    let shape = infer(instr.opcode, &operands, &instr.attrs, Some(&instr.shape), earlier)?;
    if shape == instr.shape { Ok(()) } else { Err(shape_error(&shape, &instr.shape)) }
}

/// Whether a shape is too large. Sizes of zero are ignored, since XLA multiplies the sizes before them.
fn exceeds_max_bytes(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => {
            let sizes = array.dims.iter().filter(|&&size| size != 0);
            sizes.fold(array.dtype.bytes(), |bytes, &size| bytes.saturating_mul(size)) > MAX_BYTES
        }
        Shape::Tuple(elements) => shape.bytes() > MAX_BYTES || elements.iter().any(exceeds_max_bytes),
    }
}

fn check_header(module: &Module, diagnostics: &mut Diagnostics) {
    let location = Location::file(&module.name);
    check_name(&module.name, location.clone(), diagnostics);
    check_attribute_names(module.frontend_attributes.keys(), &location, diagnostics);
    if module.frontend_attributes.contains_key(ARG_MEMORY_SPACES) {
        let message =
            format!("unexpected frontend attribute {ARG_MEMORY_SPACES}: expected host_parameters instead");
        diagnostics.push(Diagnostic::error(location, message));
    }
}

fn check_entry(module: &Module, diagnostics: &mut Diagnostics) {
    let location = Location::file(&module.name);
    let Some(entry) = module.computations.get(module.entry.index()) else {
        let message = format!("missing entry computation {:?}", module.entry);
        return diagnostics.push(Diagnostic::error(location, message));
    };
    let parameters = entry.parameter_shapes();
    // PJRT plugins take one tuple of arrays in place of the arguments, and abort on any other tuple.
    let is_array = |shape: &Shape| shape.as_array().is_some();
    let one_tuple = parameters.len() == 1
        && parameters[0].as_tuple().is_some_and(|elements| elements.iter().all(is_array));
    if let Some(shape) = parameters.iter().find(|shape| !is_array(shape) && !one_tuple) {
        let message =
            format!("expected arrays or one tuple of arrays as parameters of the entry, found {shape}");
        diagnostics.push(Diagnostic::error(location.clone(), message));
    }
    check_aliases(module, entry, &parameters, diagnostics);
    for &number in &module.host_parameters {
        let found = parameters.get(number).map_or("none".to_owned(), ToString::to_string);
        if parameters.get(number).is_none_or(|shape| !is_array(shape)) {
            let message = format!("expected an array as host parameter {number}, found {found}");
            diagnostics.push(Diagnostic::error(location.clone(), message));
        }
    }
}

fn check_aliases(module: &Module, entry: &Computation, parameters: &[&Shape], diagnostics: &mut Diagnostics) {
    let mut report = |message: String| {
        diagnostics.push(Diagnostic::error(Location::file(&module.name), message));
    };
    // A result that is not a tuple has no output that an alias can refer to.
    let outputs = entry.result().as_tuple().unwrap_or(&[]);
    let (mut seen_outputs, mut seen_parameters) = (HashSet::new(), HashSet::new());
    for alias in &module.aliases {
        let found = (outputs.get(alias.output), parameters.get(alias.parameter));
        let (Some(output), Some(&parameter)) = found else {
            let (outputs, parameters) = (outputs.len(), parameters.len());
            report(format!("{alias}: expected one of {outputs} outputs and {parameters} parameters"));
            continue;
        };
        if output != parameter || output.as_array().is_none() {
            report(format!("{alias}: expected two arrays of one shape, found {output} and {parameter}"));
        }
        if !seen_outputs.insert(alias.output) || !seen_parameters.insert(alias.parameter) {
            report(format!("{alias}: the output or the parameter already has an alias"));
        }
        if module.host_parameters.contains(&alias.parameter) {
            report(format!("{alias} donates a parameter in host memory to a result in device memory"));
        }
    }
}
