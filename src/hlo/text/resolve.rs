//! From computations as they stand in the text to a module: callees first, every shape checked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{cursor::Mistake, lex::Position, parse::MAX_MISTAKES};
use crate::{
    base::{Shape, nearest},
    hlo::{Alias, Annotations, CompId, Computation, Module, infer, limits},
};

/// A module as far as its grammar goes. Its computation ids count names in the order of their first mention.
#[derive(Default)]
pub(super) struct UnresolvedModule<'a> {
    pub name: String,
    pub aliases: Vec<Alias>,
    pub host_parameters: BTreeSet<usize>,
    pub frontend_attributes: BTreeMap<String, String>,
    pub entry: Option<CompId>,
    ids: HashMap<&'a str, CompId>,
    mentions: Vec<(&'a str, Position)>,
    definitions: HashMap<CompId, UnresolvedComputation>,
    /// The definitions as they follow each other in the text.
    order: Vec<CompId>,
}

/// A module and the lines of the text that its instructions have.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedModule {
    /// The module.
    pub module: Module,
    /// Of each computation: its own line, then that of each instruction.
    lines: Vec<(usize, Vec<usize>)>,
}

impl LocatedModule {
    /// The line of a computation's name.
    pub fn line_of(&self, computation: CompId) -> Option<usize> {
        self.lines.get(computation.index()).map(|&(line, _)| line)
    }

    /// The line of each instruction of a computation.
    pub fn lines(&self, computation: CompId) -> &[usize] {
        self.lines.get(computation.index()).map_or(&[], |(_, lines)| lines)
    }
}

/// A computation and where each of its instructions stands.
pub(super) struct UnresolvedComputation {
    pub computation: Computation,
    pub at: Position,
    pub spots: Vec<Position>,
}

impl<'a> UnresolvedModule<'a> {
    /// The id of a computation that is defined or called at `at`.
    pub fn mention(&mut self, name: &'a str, at: Position) -> CompId {
        *self.ids.entry(name).or_insert_with(|| {
            self.mentions.push((name, at));
            CompId::new(self.mentions.len() - 1)
        })
    }

    pub fn define(&mut self, id: CompId, parsed: UnresolvedComputation) -> Result<(), Mistake> {
        let (at, name) = (parsed.at, parsed.computation.name.clone());
        if self.definitions.insert(id, parsed).is_some() {
            return Err(Mistake::new(at, "two computations have this name").on(&name));
        }
        self.order.push(id);
        Ok(())
    }

    fn callees(&self, id: CompId) -> Vec<CompId> {
        let computation = self.definitions.get(&id).map(|parsed| &parsed.computation);
        computation.into_iter().flat_map(|c| &c.instrs).flat_map(|instr| instr.attrs.called()).collect()
    }
}

pub(super) fn resolve(mut parsed: UnresolvedModule<'_>) -> Result<LocatedModule, Vec<Mistake>> {
    let undefined = parsed
        .mentions
        .iter()
        .enumerate()
        .filter(|&(index, _)| !parsed.definitions.contains_key(&CompId::new(index)));
    let names =
        || parsed.order.iter().filter_map(|id| parsed.mentions.get(id.index())).map(|&(name, _)| name);
    let undefined: Vec<Mistake> = undefined
        .take(MAX_MISTAKES)
        .map(|(_, &(name, at))| {
            Mistake::new(at, format!("unknown computation: {name}")).meant(nearest(name, names()))
        })
        .collect();
    if !undefined.is_empty() {
        return Err(undefined);
    }
    let order = callees_first(&parsed).map_err(|mistake| vec![mistake])?;
    let entry = entry(&parsed).map_err(|mistake| vec![mistake])?;
    let renamed: HashMap<CompId, CompId> =
        order.iter().enumerate().map(|(index, &id)| (id, CompId::new(index))).collect();
    let rename = |id: CompId| renamed.get(&id).copied().unwrap_or(id);

    let mut computations: Vec<Computation> = Vec::with_capacity(order.len());
    let (mut mistakes, mut lines) = (Vec::new(), Vec::with_capacity(order.len()));
    for id in &order {
        let Some(UnresolvedComputation { mut computation, at, spots }) = parsed.definitions.remove(id) else {
            continue;
        };
        for instr in &mut computation.instrs {
            let attrs = std::mem::replace(&mut instr.attrs, crate::hlo::Attrs::Plain);
            instr.attrs = attrs.with_called(rename);
        }
        check_shapes(&computation, &spots, &computations, &mut mistakes);
        lines.push((at.line, spots.iter().map(|spot| spot.line).collect()));
        computations.push(computation);
    }
    if let Some((id, message)) = limits::too_deep(&computations) {
        let line = lines[id.index()].0;
        let mistake = Mistake::new(Position { line, column: 1 }, message).hint(limits::HINT);
        mistakes.push(mistake.on(&computations[id.index()].name));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let UnresolvedModule { name, aliases, host_parameters, frontend_attributes, .. } = parsed;
    let entry = rename(entry);
    let annotations = Annotations::default();
    let module =
        Module { name, computations, entry, aliases, host_parameters, frontend_attributes, annotations };
    Ok(LocatedModule { module, lines })
}

fn check_shapes(
    computation: &Computation,
    spots: &[Position],
    earlier: &[Computation],
    mistakes: &mut Vec<Mistake>,
) {
    for (instr, &at) in computation.instrs.iter().zip(spots) {
        let operands: Vec<&Shape> = instr.operands.iter().map(|&id| &computation.instr(id).shape).collect();
        let message = match infer(instr.opcode, &operands, &instr.attrs, Some(&instr.shape), earlier) {
            Ok(shape) if shape == instr.shape => continue,
            Ok(shape) => format!("the operands give {shape}, found {}", instr.shape),
            Err(message) => message,
        };
        mistakes.push(Mistake::new(at, message).on(&instr.name));
    }
}

fn entry(parsed: &UnresolvedModule<'_>) -> Result<CompId, Mistake> {
    match (parsed.entry, parsed.order.as_slice()) {
        (Some(id), _) | (None, &[id]) => Ok(id),
        (None, order) => {
            let found = order.len();
            let message = format!("expected one computation marked `ENTRY`, found none among {found}");
            Err(Mistake::new(Position { line: 1, column: 1 }, message))
        }
    }
}

/// Orders the definitions so that each calls only earlier ones, else as they stand in the text.
fn callees_first(parsed: &UnresolvedModule<'_>) -> Result<Vec<CompId>, Mistake> {
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
                Some(Visit::Open) => return Err(calls_itself(parsed, callee)),
                None => {
                    visits.insert(callee, Visit::Open);
                    stack.push((callee, parsed.callees(callee).into_iter()));
                }
            }
        }
    }
    Ok(order)
}

fn calls_itself(parsed: &UnresolvedModule<'_>, id: CompId) -> Mistake {
    let (name, at) =
        parsed.mentions.get(id.index()).copied().unwrap_or(("", Position { line: 1, column: 1 }));
    let at = parsed.definitions.get(&id).map_or(at, |parsed| parsed.at);
    Mistake::new(at, "calls itself, in the end").on(name)
}
