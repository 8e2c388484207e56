//! Warnings of the partitioner, in the terms of the mesh config.

use super::{DimSharding, LogicalSharding, Plan, TensorSharding, grid::line};
use crate::{
    base::Shape,
    hlo::{InlinedOpName, Instr, Module},
};

/// Explains the partitioner's warnings about resharding by full replication: names the tensor and the lines of the mesh
/// config that cause it. Other warnings are returned unchanged. `module` is the one that was compiled.
pub fn explain_warnings(warnings: Vec<String>, module: &Module, plan: Option<&Plan>) -> Vec<String> {
    match plan {
        Some(plan) => warnings.iter().map(|warning| explain(warning, module, plan)).collect(),
        None => warnings,
    }
}

fn explain(warning: &str, module: &Module, plan: &Plan) -> String {
    let Some(Change { from, to, origin }) = Change::read(warning) else { return warning.to_owned() };
    let mut text = format!(
        "the partitioner cannot reshard from {from} to {to} directly: every device temporarily holds all of "
    );
    let hit = involved(module, from, to, origin);
    let Some(first) = hit.first() else {
        return format!("{text}`{}`", origin.unwrap_or("a tensor"));
    };
    let Shape::Array(shape) = &first.instr.shape else { return warning.to_owned() };
    text.push_str(&format!("`{}`, {shape}", base_name(first.instr)));
    let mut places: Vec<String> = vec![];
    let splits =
        hit.iter().filter_map(|&found| tensor_sharding(found, plan)).flat_map(|sharding| sharding.dims);
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
    /// The `op_name` of the operation at fault, if it has one.
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

/// An instruction with a logical sharding.
#[derive(Clone, Copy)]
struct Sharded<'m> {
    instr: &'m Instr,
    logical: &'m LogicalSharding,
}

/// The values whose shardings cause the warning: the one that the named operation comes from, with the constraints on the
/// same value; without a name, all values that have one of the two shardings.
fn involved<'m>(module: &'m Module, from: &str, to: &str, origin: Option<&str>) -> Vec<Sharded<'m>> {
    let named = module.inlined_op_names();
    let sharded = |found: &InlinedOpName| {
        let instr = module.computation(found.computation).instr(found.instr);
        Some(Sharded { instr, logical: module.annotations.of(found.computation, found.instr).next()? })
    };
    let all: Vec<(&str, Sharded<'m>)> =
        named.iter().filter_map(|found| Some((&*found.path, sharded(found)?))).collect();
    let has_sharding = |instr: &Instr| {
        instr.sharding.as_ref().is_some_and(|sharding| [from, to].contains(&sharding.to_string().as_str()))
    };
    let at_origin = || all.iter().filter(|(path, _)| origin == Some(*path)).map(|(_, found)| found.instr);
    let exact = at_origin().find(|instr| has_sharding(instr)).or_else(|| at_origin().next());
    let (mut first, others): (Vec<Sharded<'_>>, Vec<Sharded<'_>>) = all
        .iter()
        .map(|(_, found)| *found)
        .partition(|found| exact.is_some_and(|exact| std::ptr::eq(exact, found.instr)));
    let same_value = |instr: &Instr| {
        exact.is_none_or(|exact| (&exact.shape, base_name(exact)) == (&instr.shape, base_name(instr)))
    };
    first.extend(others.into_iter().filter(|found| has_sharding(found.instr) && same_value(found.instr)));
    first
}

fn tensor_sharding(found: Sharded<'_>, plan: &Plan) -> Option<TensorSharding> {
    match &found.instr.shape {
        Shape::Array(shape) => Some(plan.assign_logical(found.logical, shape, &found.instr.name)),
        Shape::Tuple(_) => None,
    }
}

/// The name that the instruction was given, without the numbers that made it unique.
fn base_name(instr: &Instr) -> &str {
    instr.name.split('.').next().unwrap_or(&instr.name)
}
