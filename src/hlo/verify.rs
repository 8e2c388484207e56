use std::collections::HashSet;

use super::{Attrs, CompId, Computation, Module, infer, limits, memory::ARG_MEMORY_SPACES, text::is_name};
use crate::base::{Diagnostic, Diagnostics, Location, Shape};

/// A module that passed every check; [`verify`] is the only way to get one.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified(Module);

impl Verified {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }

    /// Gives up the proof, for changing the module.
    pub fn into_module(self) -> Module {
        self.0
    }
}

/// XLA counts bytes in a signed 64-bit integer, and some passes double them.
const MAX_BYTES: usize = 1 << 60;

/// Checks the whole module, so that no printer, encoder or plugin has to.
///
/// - Every name is one that HLO text can hold: `[A-Za-z_][A-Za-z0-9_.-]*`,
///   and no element type.
/// - Every computation has distinct instruction names, a root, and parameters numbered from zero.
/// - Calls nest at most 64 deep.
/// - Every instruction names earlier operands and calls earlier computations, carries the attributes of its opcode,
///   and has the shape that its operands give.
/// - Every sharding fits the shape of its value, and every frontend attribute has a name that HLO text can hold.
/// - The entry exists, and each alias pairs an array parameter with an output of the same shape, each at most once.
/// - Only array parameters lie on the host, and none of them is donated: results lie on the device.
///
/// # Errors
/// All diagnostics, each with the computation and the instruction it is about.
pub fn verify(module: Module) -> Result<Verified, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let rootless = module.computations.iter().filter(|c| c.root.index() >= c.instrs.len());
    for computation in rootless {
        diagnostics.push(Diagnostic::error(Location::file(&computation.name), "has no root"));
    }
    // The shape of a call is that of a root, so nothing more can be said without them.
    diagnostics.into_result(())?;
    let mut diagnostics = Diagnostics::default();
    let mut names = HashSet::new();
    for (index, computation) in module.computations.iter().enumerate() {
        if !names.insert(&computation.name) {
            diagnostics.push(Diagnostic::error(
                Location::file(&computation.name),
                "two computations have this name",
            ));
        }
        check_name(&computation.name, &mut diagnostics);
        check_computation(computation, &module.computations[..index], &mut diagnostics);
    }
    if let Some((id, message)) = limits::too_deep(&module.computations) {
        let place = Location::file(&module.computation(id).name);
        diagnostics.push(Diagnostic::error(place, message).with_hint(limits::HINT));
    }
    check_name(&module.name, &mut diagnostics);
    if module.frontend_attributes.contains_key(ARG_MEMORY_SPACES) {
        let message = format!("expected parameters on the host to be listed, found {ARG_MEMORY_SPACES}");
        diagnostics.push(Diagnostic::error(Location::file(&module.name), message));
    }
    for key in module.frontend_attributes.keys().filter(|key| !is_name(key)) {
        let message = format!("expected the name of a frontend attribute, found {key:?}");
        diagnostics.push(Diagnostic::error(Location::file(&module.name), message));
    }
    check_entry(&module, &mut diagnostics);
    diagnostics.into_result(()).map(|()| Verified(module))
}

const NOT_A_NAME: &str =
    "expected a letter or `_`, then letters, digits and `_.-`, and no element type, as a name";

fn check_name(name: &str, diagnostics: &mut Diagnostics) {
    if !is_name(name) {
        diagnostics.push(Diagnostic::error(Location::file(name), NOT_A_NAME));
    }
}

fn check_computation(computation: &Computation, earlier: &[Computation], diagnostics: &mut Diagnostics) {
    let mut names = HashSet::new();
    let mut numbers = Vec::new();
    for (id, instr) in computation.iter() {
        let mut report = |message: String| {
            diagnostics.push(Diagnostic::error(Location::file(&computation.name).at(&instr.name), message));
        };
        if !is_name(&instr.name) {
            report(NOT_A_NAME.into());
        }
        if !names.insert(&instr.name) {
            report("two instructions have this name".into());
        }
        if let Some(Err(message)) = instr.sharding.as_ref().map(|sharding| sharding.check(&instr.shape)) {
            report(message);
        }
        for key in instr.frontend_attributes.keys().filter(|key| !is_name(key)) {
            report(format!("expected the name of a frontend attribute, found {key:?}"));
        }
        if let Attrs::Parameter(number) = instr.attrs {
            numbers.push(number);
        }
        if let Some(&operand) = instr.operands.iter().find(|&&operand| operand >= id) {
            report(format!("names operand {operand:?}, which does not come earlier"));
            continue;
        }
        if exceeds(&instr.shape) {
            report(format!("{} is too large to address", instr.shape));
            continue;
        }
        let operands: Vec<&Shape> = instr.operands.iter().map(|&o| &computation.instr(o).shape).collect();
        match infer(instr.opcode, &operands, &instr.attrs, Some(&instr.shape), earlier) {
            Ok(shape) if shape == instr.shape => {}
            Ok(shape) => report(format!("the operands give {shape}, found {}", instr.shape)),
            Err(message) => report(message),
        }
    }
    numbers.sort_unstable();
    if numbers.iter().enumerate().any(|(i, &number)| i != number) {
        let message = format!("expected parameters numbered from 0, found {numbers:?}");
        diagnostics.push(Diagnostic::error(Location::file(&computation.name), message));
    }
}

/// Whether a shape is too large, its empty dimensions aside: XLA multiplies those that come before them.
fn exceeds(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => {
            let sizes = array.dims.iter().filter(|&&size| size != 0);
            sizes.fold(array.dtype.bytes(), |bytes, &size| bytes.saturating_mul(size)) > MAX_BYTES
        }
        Shape::Tuple(elements) => shape.bytes() > MAX_BYTES || elements.iter().any(exceeds),
    }
}

fn check_entry(module: &Module, diagnostics: &mut Diagnostics) {
    let location = || Location::file(&module.name);
    let Some(entry) = module.computations.get(module.entry.index()) else {
        return diagnostics.push(Diagnostic::error(location(), format!("has no entry {:?}", module.entry)));
    };
    let parameters = entry.parameter_shapes();
    // PJRT plugins take one tuple of arrays in the location of the arguments, and abort on any other.
    let is_array = |shape: &Shape| shape.as_array().is_some();
    let one_tuple = parameters.len() == 1
        && parameters[0].as_tuple().is_some_and(|elements| elements.iter().all(is_array));
    if let Some(shape) = parameters.iter().find(|shape| !is_array(shape) && !one_tuple) {
        let message =
            format!("expected arrays or one tuple of arrays as parameters of the entry, found {shape}");
        diagnostics.push(Diagnostic::error(location(), message));
    }
    let outputs = entry.result().as_tuple().unwrap_or_default();
    let (mut seen_outputs, mut seen_parameters) = (HashSet::new(), HashSet::new());
    for alias in &module.aliases {
        let found = (outputs.get(alias.output), parameters.get(alias.parameter));
        let (Some(output), Some(&parameter)) = found else {
            diagnostics
                .push(Diagnostic::error(location(), format!("{alias:?} names no output or no parameter")));
            continue;
        };
        if output != parameter || output.as_array().is_none() {
            diagnostics
                .push(Diagnostic::error(location(), format!("{alias:?} pairs {output} with {parameter}")));
        }
        if !seen_outputs.insert(alias.output) || !seen_parameters.insert(alias.parameter) {
            diagnostics.push(Diagnostic::error(location(), format!("{alias:?} stands twice")));
        }
        if module.host_parameters.contains(&alias.parameter) {
            let message =
                format!("{alias:?} donates a parameter that lies on the host to a result on the device");
            diagnostics.push(Diagnostic::error(location(), message));
        }
    }
    for &number in &module.host_parameters {
        if parameters.get(number).is_none_or(|shape| shape.as_array().is_none()) {
            let message = format!("expected an array as the parameter {number}, which lies on the host");
            diagnostics.push(Diagnostic::error(location(), message));
        }
    }
}

impl Verified {
    /// The computation that execution starts with.
    pub fn entry(&self) -> &Computation {
        self.0.entry()
    }

    /// Every computation with its id, callees first.
    pub fn computations(&self) -> impl Iterator<Item = (CompId, &Computation)> {
        self.0.computations.iter().enumerate().map(|(i, c)| (CompId::new(i), c))
    }
}
