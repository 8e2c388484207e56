//! Name resolution: computations are ordered callees first, and every shape is checked.

use std::collections::HashMap;

use super::{
    lex::Position,
    unresolved::{MAX_ERRORS, UnresolvedComputation, UnresolvedModule},
};
use crate::{
    base::{Diagnostic, Diagnostics, Shape, nearest_hint},
    hlo::{Annotations, CompId, Computation, MetadataTable, Module, infer, infer::shape_error, limits},
};

/// A module and the line of each of its instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedModule {
    /// The module.
    pub module: Module,
    /// For each computation, its line and the lines of its instructions.
    lines: Vec<(usize, Vec<usize>)>,
}

impl LocatedModule {
    /// The line of a computation, counted from one.
    pub fn line_of(&self, computation: CompId) -> Option<usize> {
        self.lines.get(computation.index()).map(|&(line, _)| line)
    }

    /// The line of each instruction of a computation, counted from one.
    pub fn lines(&self, computation: CompId) -> &[usize] {
        self.lines.get(computation.index()).map_or(&[], |(_, lines)| lines)
    }
}

/// Resolves the calls of a parsed module.
///
/// # Errors
/// Every call of an unknown computation; else a recursive call cycle or a missing entry; else every error of shapes.
pub(super) fn resolve(mut parsed: UnresolvedModule<'_>) -> Result<LocatedModule, Diagnostics> {
    check_callees(&parsed).into_result(())?;
    let order = callees_first(&parsed)?;
    let entry = entry(&parsed)?;
    let ids: HashMap<CompId, CompId> =
        order.iter().enumerate().map(|(index, &id)| (id, CompId::new(index))).collect();
    let mut computations: Vec<Computation> = Vec::with_capacity(order.len());
    let (mut errors, mut positions) = (Diagnostics::default(), Vec::with_capacity(order.len()));
    let (mut lines, mut metadata) = (Vec::with_capacity(order.len()), MetadataTable::default());
    for id in &order {
        let Some(definition) = parsed.definitions.remove(id) else { continue };
        let UnresolvedComputation { mut computation, at, positions: instrs, metadata: found } = definition;
        let number = CompId::new(computations.len());
        found.into_iter().for_each(|(instr, found)| metadata.set(number, instr, found));
        for callee in computation.instrs.iter_mut().flat_map(|instr| instr.attrs.callees_mut()) {
            *callee = ids[callee];
        }
        check_shapes(&computation, &instrs, &computations, &mut errors);
        positions.push(at);
        lines.push((at.line, instrs.iter().map(|position| position.line).collect()));
        computations.push(computation);
    }
    if let Some((id, error)) = limits::call_depth_error(&computations) {
        let location = positions[id.index()].location().at(&computations[id.index()].name);
        errors.push(error.located(location));
    }
    errors.into_result(())?;
    let UnresolvedModule { name, aliases, host_parameters, frontend_attributes, .. } = parsed;
    let entry = ids[&entry];
    let module = Module {
        name,
        computations,
        entry,
        aliases,
        host_parameters,
        frontend_attributes,
        metadata,
        annotations: Annotations::default(),
    };
    Ok(LocatedModule { module, lines })
}

/// The errors of calls of unknown computations.
fn check_callees(parsed: &UnresolvedModule<'_>) -> Diagnostics {
    let names = || parsed.order.iter().map(|&id| parsed.name_of(id));
    let mentions = (0..).map(CompId::new).zip(&parsed.mentions);
    let undefined = mentions.filter(|(id, _)| !parsed.definitions.contains_key(id)).take(MAX_ERRORS);
    let error = |(_, &(name, at)): (CompId, &(&str, Position))| {
        let error = at.error(format!("unknown computation: {name}"));
        Diagnostic { hint: nearest_hint(name, names()), ..error }
    };
    Diagnostics(undefined.map(error).collect())
}

fn check_shapes(
    computation: &Computation,
    positions: &[Position],
    earlier: &[Computation],
    errors: &mut Diagnostics,
) {
    for (instr, at) in computation.instrs.iter().zip(positions) {
        let operands: Vec<&Shape> = instr.operands.iter().map(|&id| &computation.instr(id).shape).collect();
        let error = match infer(instr.opcode, &operands, &instr.attrs, Some(&instr.shape), earlier) {
            Ok(shape) if shape == instr.shape => continue,
            Ok(shape) => shape_error(&shape, &instr.shape),
            Err(error) => error,
        };
        errors.push(error.located(at.location().at(&instr.name)));
    }
}

fn entry(parsed: &UnresolvedModule<'_>) -> Result<CompId, Diagnostic> {
    match (parsed.entry, parsed.order.as_slice()) {
        (Some(id), _) | (None, &[id]) => Ok(id),
        (None, order) => {
            let found = order.len();
            let message = format!("expected one computation marked `ENTRY`, found none among {found}");
            Err(Position::START.error(message))
        }
    }
}

/// Orders the definitions so that each calls only earlier ones, and otherwise as in the text.
fn callees_first(parsed: &UnresolvedModule<'_>) -> Result<Vec<CompId>, Diagnostic> {
    #[derive(PartialEq)]
    enum Visit {
        Open,
        Done,
    }
    let mut order = Vec::with_capacity(parsed.order.len());
    let mut visits: HashMap<CompId, Visit> = HashMap::new();
    for &start in &parsed.order {
        if visits.contains_key(&start) {
            continue;
        }
        visits.insert(start, Visit::Open);
        let mut stack = vec![(start, parsed.callees(start).into_iter())];
        while let Some((id, callees)) = stack.last_mut() {
            let Some(callee) = callees.next() else {
                visits.insert(*id, Visit::Done);
                order.push(*id);
                stack.pop();
                continue;
            };
            match visits.get(&callee) {
                Some(Visit::Done) => {}
                Some(Visit::Open) => {
                    let open: Vec<CompId> = stack.iter().map(|(id, _)| *id).collect();
                    return Err(cycle_error(parsed, &open, callee));
                }
                None => {
                    visits.insert(callee, Visit::Open);
                    stack.push((callee, parsed.callees(callee).into_iter()));
                }
            }
        }
    }
    Ok(order)
}

/// The error of a call cycle: `open` are nested calls, the last of which calls `callee`, one of them.
fn cycle_error(parsed: &UnresolvedModule<'_>, open: &[CompId], callee: CompId) -> Diagnostic {
    /// Computations of a cycle that are listed.
    const MAX_LISTED: usize = 8;
    let cycle = open.iter().skip_while(|&&id| id != callee).chain([&callee]);
    let names: Vec<&str> = cycle.map(|&id| parsed.name_of(id)).collect();
    let listed = match names.len() {
        count if count > MAX_LISTED => format!("{} -> ... -> {}", names[..MAX_LISTED].join(" -> "), names[0]),
        _ => names.join(" -> "),
    };
    let at = parsed.definitions.get(&callee).map_or(parsed.mentions[callee.index()].1, |found| found.at);
    at.error(format!("recursive call cycle: {listed}")).on(parsed.name_of(callee))
}
