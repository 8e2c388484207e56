//! What the partitioner warns of, in the terms of the mesh config.

use super::{DimSharding, Plan, TensorSharding, grid::line};
use crate::{
    base::Shape,
    hlo::{Instr, Module},
};

/// What warnings of the partitioner mean: where it can go from one sharding to another only by way of the whole tensor on
/// every device, which tensor that is, and the lines of the mesh config that have it so. Other warnings stay as they are.
/// `module` is what was compiled.
pub fn explain_warnings(warnings: Vec<String>, module: &Module, plan: Option<&Plan>) -> Vec<String> {
    match plan {
        Some(plan) => warnings.iter().map(|warning| explain(warning, module, plan)).collect(),
        None => warnings,
    }
}

fn explain(warning: &str, module: &Module, plan: &Plan) -> String {
    let Some(Change { from, to, origin }) = Change::read(warning) else { return warning.to_owned() };
    let mut text =
        format!("the partitioner cannot go from {from} to {to} in steps: every device holds all of ");
    let hit = involved(module, from, to, origin);
    let Some(first) = hit.first() else {
        return format!("{text}`{}` for a while", origin.unwrap_or("a tensor"));
    };
    let Shape::Array(shape) = &first.shape else { return warning.to_owned() };
    text.push_str(&format!("`{}`, {shape}, for a while", base_name(first)));
    let mut places: Vec<String> = vec![];
    let splits = hit.iter().flat_map(|instr| assigned(instr, plan)).flat_map(|assigned| assigned.splits);
    for DimSharding { dim, axes, location, .. } in splits.filter(|split| !split.axes.is_empty()) {
        let decided =
            location.map(|location| format!("\n  {}: {dim} = {}", line(&location), axes.join(" x ")));
        places.extend(decided.filter(|decided| !places.contains(decided)));
    }
    text.push_str(&places.concat());
    text
}

/// A change of sharding, as the partitioner words it.
struct Change<'w> {
    from: &'w str,
    to: &'w str,
    /// `computation/instruction`, where the operation at fault still has it.
    origin: Option<&'w str>,
}

impl<'w> Change<'w> {
    fn read(warning: &'w str) -> Option<Self> {
        if !warning.contains("nvoluntary full rematerialization") {
            return None;
        }
        let (_, rest) = warning.split_once("from sharding ")?;
        let (from, rest) = rest.split_once(" to ")?;
        let (to, rest) = rest.split_at(rest.find('}')? + 1);
        let origin = rest.split_once("op_name=\"").and_then(|(_, name)| Some(name.split_once('"')?.0));
        Some(Self { from, to, origin })
    }
}

/// The values whose shardings are to blame, one at least if any is known: that which the operation at fault comes from,
/// with what lies before or after it, else all that lie as the change begins or ends.
fn involved<'m>(module: &'m Module, from: &str, to: &str, origin: Option<&str>) -> Vec<&'m Instr> {
    let all = module.computations.iter().flat_map(|computation| {
        let path = |instr: &Instr| format!("{}/{}", computation.name, instr.name);
        computation
            .instrs
            .iter()
            .filter(|instr| !instr.logical_shardings.is_empty())
            .map(move |instr| (path(instr), instr))
    });
    let all: Vec<(String, &Instr)> = all.collect();
    let is_origin =
        |path: &str| origin.is_some_and(|origin| origin == path || origin.ends_with(&format!("/{path}")));
    let lies_so = |instr: &Instr| {
        instr.sharding.as_ref().is_some_and(|sharding| [from, to].contains(&sharding.to_string().as_str()))
    };
    let exact = all.iter().find(|(path, _)| is_origin(path)).map(|(_, instr)| *instr);
    let (mut first, others): (Vec<&Instr>, Vec<&Instr>) = all
        .iter()
        .map(|(_, instr)| *instr)
        .partition(|instr| exact.is_some_and(|exact| std::ptr::eq(exact, *instr)));
    let same_value = |instr: &&Instr| {
        exact.is_none_or(|exact| (&exact.shape, base_name(exact)) == (&instr.shape, base_name(instr)))
    };
    first.extend(others.into_iter().filter(|instr| lies_so(instr)).filter(same_value));
    first
}

fn assigned<'a>(instr: &'a Instr, plan: &'a Plan) -> impl Iterator<Item = TensorSharding> + 'a {
    instr.logical_shardings.iter().filter_map(|logical| match &instr.shape {
        Shape::Array(shape) => Some(plan.assign_logical(logical, shape, &instr.name)),
        Shape::Tuple(_) => None,
    })
}

/// The name that the instruction was given, without the numbers that made it unique.
fn base_name(instr: &Instr) -> &str {
    instr.name.split('.').next().unwrap_or(&instr.name)
}
