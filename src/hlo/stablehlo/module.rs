use std::rc::Rc;

use super::{
    StablehloError,
    body::{Body, Locations, Value},
    functions::Functions,
    sharding::Annotator,
    syntax::{Names, attributes, commas, symbol, tensors},
};
use crate::{
    base::Partitioner,
    hlo::{CompId, Verified},
};

/// Prints a module as StableHLO, with shardings for one partitioner: `mhlo.sharding` for GSPMD, the attributes and
/// constraints of the dialect `sdy` for Shardy. Equal modules have equal text.
///
/// Plugins take it as a program of the format `mlir`, and compile it to the results of the HLO module. Computations that the
/// entry does not reach are left out; so are frontend attributes of tuples, of their elements, and of parameters of
/// computations other than the entry.
///
/// # Errors
/// [`StablehloError`] for Shardy, if the text of Shardy's attributes is invalid, or if a module with shardings has no mesh.
pub fn print(module: &Verified, partitioner: Partitioner) -> Result<String, StablehloError> {
    print_module(module, partitioner, Locations::None)
}

/// Like [`print()`]; each operation has its `op_name` as location, or `computation/instruction`, by which compilers name it in
/// messages.
///
/// # Errors
/// As [`print()`].
pub fn print_with_locations(module: &Verified, partitioner: Partitioner) -> Result<String, StablehloError> {
    print_module(module, partitioner, Locations::Instructions)
}

fn print_module(
    module: &Verified,
    partitioner: Partitioner,
    locations: Locations,
) -> Result<String, StablehloError> {
    let annotator = Annotator::new(module.module(), partitioner)?;
    let mut names = Names::default();
    for (mesh, _) in &annotator.meshes {
        names.unique(mesh);
    }
    let functions = Functions::new(module, &mut names);
    let mut text = format!("module {}", symbol(&module.module().name));
    let header = annotator.module();
    if !header.is_empty() {
        text.push_str(&format!(" attributes{}", attributes(&header)));
    }
    text.push_str(" {\n");
    for (mesh, axes) in &annotator.meshes {
        text.push_str(&format!("  sdy.mesh @{mesh} = {axes}\n"));
    }
    for (id, _) in module.computations() {
        if let Some(symbol) = functions.symbol(id) {
            let body = Body::new(module, &annotator, &functions, locations, &mut text);
            function(body, module, id, symbol)?;
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// Prints a computation as a function.
fn function(mut body: Body<'_, '_>, module: &Verified, id: CompId, name: &str) -> Result<(), StablehloError> {
    let computation = module.module().computation(id);
    let is_entry = id == module.module().entry;
    let (mut arguments, mut values) = (Vec::new(), Vec::new());
    for parameter in computation.parameters() {
        let parameter = computation.instr(parameter);
        let value = body.argument(&parameter.name, &parameter.shape);
        let types = tensors(&parameter.shape);
        let annotations = match is_entry {
            true => body.annotator.arguments(parameter)?,
            false => vec![vec![]; types.len()],
        };
        for ((name, of), annotations) in value.arrays().iter().zip(types).zip(annotations) {
            arguments.push(format!("{name}: {of}{}", attributes(&annotations)));
        }
        values.push(value);
    }
    let types = tensors(computation.result());
    let annotations = if is_entry { body.annotator.results()? } else { vec![vec![]; types.len()] };
    let results =
        types.iter().zip(annotations).map(|(of, annotations)| format!("{of}{}", attributes(&annotations)));
    let (visibility, arguments, results) =
        (if is_entry { "public" } else { "private" }, commas(arguments), commas(results));
    body.line(&format!("func.func {visibility} {}({arguments}) -> ({results}) {{", symbol(name)));
    let result: Value = body.computation(id, &values)?;
    let returned: Vec<Rc<str>> = result.arrays();
    body.returns("return", &returned, &types);
    body.line("}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::hlo::testing::modules;

    /// Checks that each value of a function is defined once, and before its use.
    fn check_names(function: &str) -> Result<(), TestCaseError> {
        let mut defined = HashSet::new();
        for text in function.split('%').skip(1) {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c));
            let (name, rest) = text.split_at(end.unwrap_or(text.len()));
            if rest.starts_with(':') || rest.starts_with(" = ") {
                prop_assert!(defined.insert(name), "{name} is defined twice in {function}");
            } else {
                prop_assert!(defined.contains(name), "{name} is not defined in {function}");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn values_of_random_modules_have_unique_names(module in modules()) {
            let text = print(&module, Partitioner::Gspmd).unwrap();
            let functions: Vec<&str> = text.split("\n  func.func ").skip(1).collect();
            prop_assert!(!functions.is_empty(), "{text}");
            functions.into_iter().try_for_each(check_names)?;
            // Locations are all that differs.
            let located = print_with_locations(&module, Partitioner::Gspmd).unwrap();
            let line = |line: &str| line.split(" loc(").next().unwrap_or_default().to_owned();
            prop_assert_eq!(located.lines().map(line).collect::<Vec<_>>(), text.lines().collect::<Vec<_>>());
        }
    }
}
