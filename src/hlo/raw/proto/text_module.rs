//! A module as the HLO text that XLA prints for it.

use std::fmt::Write;

use prost::{Message, bytes::Bytes};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    escape::push_quoted,
    messages::{HloComputationProto, HloModuleConfigProto, HloModuleProto},
    messages_instr::HloInstructionProto,
    text_attrs::Attrs,
    text_common::push_common,
    text_header::{header, stack_frames},
    text_instr::push_own,
    text_literal::push_literal,
    text_scope::{CompName, InstrName, Scope},
    text_shape::{push_name, push_shape, push_signature, separator, valid_name},
};
use crate::{
    base::{Diagnostic, Location},
    hlo::raw::opcode::Opcode,
};

/// What the text of other instructions needs of an instruction.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    opcode: String,
    #[prost(message, optional, tag = "3")]
    shape: Option<ShapeHead>,
    #[prost(int64, tag = "9")]
    parameter_number: i64,
    #[prost(int64, tag = "35")]
    id: i64,
    #[prost(int64, repeated, tag = "36")]
    operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    called_computation_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeHead {
    #[prost(int32, tag = "2")]
    element_type: i32,
}

/// How the text of an `async-start` names the instruction that it starts, where that is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncOps {
    /// By its spelling, as XLA prints it: `fusion-start(%x)`. Names and metadata of the instruction that is started are not in
    /// the text. Where the spelling is that of an opcode, the text is read as that opcode: `all-gather-start`.
    Sugar,
    /// By a computation: `async-start(%x), calls=%fusion`.
    Explicit,
}

/// What the text of a module leaves out, by how often it does.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Instructions inside of `-start`, whose metadata or other common attributes differ from those of the start.
    pub wrapped: usize,
    /// Spellings of async opcodes that are also those of opcodes.
    pub spellings: usize,
}

/// The text of a module. Locations of errors name computations and instructions.
pub(super) fn text(
    module: &HloModuleProto,
    config: Option<&HloModuleConfigProto>,
    async_ops: AsyncOps,
    file: &str,
) -> Result<(String, LeftOut), Diagnostic> {
    let located = |error: Diagnostic| {
        if error.location == Location::default() {
            error.located(Location::file(file))
        } else {
            Diagnostic { location: Location { file: file.to_owned(), ..error.location.clone() }, ..error }
        }
    };
    let mut left_out = LeftOut::default();
    let text = module_text(module, config, async_ops, &mut left_out, 0).map_err(located)?;
    Ok((text, left_out))
}

fn module_text(
    module: &HloModuleProto,
    config: Option<&HloModuleConfigProto>,
    async_ops: AsyncOps,
    left_out: &mut LeftOut,
    depth: usize,
) -> Result<String, Diagnostic> {
    let mut out = String::from("HloModule ");
    push_name(&mut out, &module.name)?;
    let recovery = |inner: &HloModuleProto| {
        if depth > 0 {
            return Err("expected no table of recovery modules in a recovery module".into());
        }
        module_text(inner, None, AsyncOps::Explicit, &mut LeftOut::default(), depth + 1)
    };
    header(&mut out, module, config, &recovery)?;
    out.push_str("\n\n");
    if let Some(frames) = &module.stack_frame_index {
        stack_frames(&mut out, frames);
    }
    let computations = decode_computations(module)?;
    let names = computation_names(&computations)?;
    let wrapped = match async_ops {
        AsyncOps::Sugar => wrapped_computations(&computations, &names)?,
        AsyncOps::Explicit => FxHashSet::default(),
    };
    for computation in &computations {
        if wrapped.contains(&computation.id) && computation.id != module.entry_computation_id {
            continue;
        }
        let located = |error: Diagnostic| match &error.location.item {
            None => error.on(computation.name.as_str()),
            Some(item) => {
                let item = format!("{}/{item}", computation.name);
                error.on(item)
            }
        };
        let printed = Printer { module, names: &names, wrapped: &wrapped, computation };
        printed.print(&mut out, left_out).map_err(located)?;
    }
    if !names.contains_key(&module.entry_computation_id) {
        return Err(format!("unknown entry computation id {}", module.entry_computation_id).into());
    }
    Ok(out)
}

fn decode<M: Message + Default>(bytes: &Bytes) -> Result<M, Diagnostic> {
    M::decode(bytes.clone()).map_err(|error| error.to_string().into())
}

fn decode_computations(module: &HloModuleProto) -> Result<Vec<HloComputationProto>, Diagnostic> {
    module.computations.iter().map(decode).collect()
}

fn computation_names(computations: &[HloComputationProto]) -> Result<FxHashMap<i64, CompName>, Diagnostic> {
    let mut names = FxHashMap::default();
    for computation in computations {
        let name = valid_name(&computation.name)?.to_owned();
        let found = CompName { name, thread: computation.execution_thread.clone(), only: only(computation)? };
        if names.insert(computation.id, found).is_some() {
            return Err(format!("duplicate computation id {}", computation.id).into());
        }
    }
    Ok(names)
}

/// The one instruction of a computation beside the parameters, which are its operands in order. Async opcodes are spelled
/// with its opcode.
fn only(computation: &HloComputationProto) -> Result<Option<Bytes>, Diagnostic> {
    let Some((last, parameters)) = computation.instructions.split_last() else { return Ok(None) };
    let head: Head = decode(last)?;
    // The text of these has something in place of operands, for which the spelling has no place.
    let has_payload = matches!(head.opcode.as_str(), "constant" | "parameter");
    if has_payload || head.id != computation.root_id || parameters.len() != head.operand_ids.len() {
        return Ok(None);
    }
    for ((number, parameter), &operand) in (0..).zip(parameters).zip(&head.operand_ids) {
        let parameter: Head = decode(parameter)?;
        if parameter.opcode != "parameter" || parameter.id != operand || parameter.parameter_number != number
        {
            return Ok(None);
        }
    }
    Ok(Some(last.clone()))
}

/// The computations that only async opcodes call, and whose text the spelling of these opcodes replaces.
fn wrapped_computations(
    computations: &[HloComputationProto],
    names: &FxHashMap<i64, CompName>,
) -> Result<FxHashSet<i64>, Diagnostic> {
    let mut wrapped = FxHashSet::default();
    let mut others = FxHashSet::default();
    for computation in computations {
        for bytes in &computation.instructions {
            let head: Head = decode(bytes)?;
            let is_async = matches!(head.opcode.as_str(), "async-start" | "async-update" | "async-done");
            for id in head.called_computation_ids {
                let expands = names.get(&id).is_some_and(|found| found.only.is_some());
                if !is_async || !expands {
                    others.insert(id);
                } else if head.opcode == "async-start" {
                    wrapped.insert(id);
                }
            }
        }
    }
    wrapped.retain(|id| !others.contains(id));
    Ok(wrapped)
}

/// Prints one computation.
struct Printer<'p> {
    module: &'p HloModuleProto,
    names: &'p FxHashMap<i64, CompName>,
    wrapped: &'p FxHashSet<i64>,
    computation: &'p HloComputationProto,
}

impl Printer<'_> {
    fn print(&self, out: &mut String, left_out: &mut LeftOut) -> Result<(), Diagnostic> {
        let computation = self.computation;
        let mut scope =
            Scope { computations: self.names, instrs: FxHashMap::default(), payloads: &self.module.payloads };
        let mut positions = FxHashMap::default();
        for (position, bytes) in computation.instructions.iter().enumerate() {
            let head: Head = decode(bytes)?;
            let id = head.id;
            positions.insert(id, position);
            if scope.instrs.insert(id, self.instr_name(head, &scope)?).is_some() {
                return Err(format!("duplicate instruction id {id}").into());
            }
        }
        let is_entry = computation.id == self.module.entry_computation_id;
        let _ = write!(out, "{}%{}", if is_entry { "ENTRY " } else { "" }, computation.name);
        if let Some(shape) = &computation.program_shape {
            push_signature(out, shape)?;
        }
        out.push_str(" {\n");
        for position in self.order(&positions)? {
            let instr: HloInstructionProto = decode(&computation.instructions[position])?;
            let printed = self.instruction(out, &instr, &scope, left_out);
            printed.map_err(|error| error.on(instr.name))?;
        }
        out.push('}');
        if !computation.execution_thread.is_empty() && computation.execution_thread != "main" {
            out.push_str(", execution_thread=");
            push_quoted(out, computation.execution_thread.as_bytes());
        }
        out.push_str("\n\n");
        Ok(())
    }

    fn instr_name(&self, head: Head, scope: &Scope<'_>) -> Result<InstrName, Diagnostic> {
        valid_name(&head.name)?;
        let called = || head.called_computation_ids.first().copied();
        let start = || head.operand_ids.first().and_then(|id| scope.instrs.get(id)?.wrapped);
        let wrapped = match head.opcode.as_str() {
            "async-start" => called(),
            "async-update" | "async-done" => start().or_else(called),
            _ => None,
        };
        let wrapped = wrapped.filter(|id| self.wrapped.contains(id));
        let element_type = head.shape.map_or(0, |shape| shape.element_type);
        Ok(InstrName { name: head.name, element_type, wrapped })
    }

    /// The order in which instructions are printed: the schedule, if there is one.
    fn order(&self, positions: &FxHashMap<i64, usize>) -> Result<Vec<usize>, Diagnostic> {
        let count = self.computation.instructions.len();
        let schedule = self.module.schedule.as_ref();
        let Some(sequence) = schedule.and_then(|schedule| schedule.sequences.get(&self.computation.id))
        else {
            return Ok((0..count).collect());
        };
        let mut order = Vec::with_capacity(count);
        let mut seen = vec![false; count];
        for id in &sequence.instruction_ids {
            let position = positions.get(id).copied().filter(|&position| !seen[position]);
            let Some(position) = position else {
                return Err(format!("expected each instruction once in the schedule, found id {id}").into());
            };
            seen[position] = true;
            order.push(position);
        }
        if order.len() == count {
            return Ok(order);
        }
        Err(format!("expected {count} instructions in the schedule, found {}", order.len()).into())
    }

    fn instruction(
        &self,
        out: &mut String,
        instr: &HloInstructionProto,
        scope: &Scope<'_>,
        left_out: &mut LeftOut,
    ) -> Result<(), Diagnostic> {
        let root = if instr.id == self.computation.root_id { "ROOT " } else { "" };
        let _ = write!(out, "  {root}%{} = ", instr.name);
        push_shape(out, instr.shape.as_ref().ok_or("missing shape")?)?;
        let wrapped = scope.instrs.get(&instr.id).and_then(|found| found.wrapped);
        let wrapped = wrapped.and_then(|id| self.names.get(&id));
        let inner: Option<HloInstructionProto> =
            wrapped.and_then(|found| found.only.as_ref()).map(decode).transpose()?;
        let opcode = match &inner {
            Some(inner) => {
                known_opcode(&inner.opcode)?;
                format!("{}{}", inner.opcode, instr.opcode.trim_start_matches("async"))
            }
            None => instr.opcode.clone(),
        };
        known_opcode(&instr.opcode)?;
        let _ = write!(out, " {opcode}(");
        match instr.opcode.as_str() {
            "parameter" => drop(write!(out, "{}", instr.parameter_number)),
            "constant" => push_literal(out, instr.literal.as_ref().ok_or("missing literal")?, false)?,
            _ => {
                for (index, id) in instr.operand_ids.iter().enumerate() {
                    let _ = write!(out, "{}%{}", separator(index), scope.name(*id)?);
                }
            }
        }
        out.push(')');
        let mut attrs = Attrs(out);
        self.thread(&mut attrs, instr);
        match (&inner, instr.opcode.as_str()) {
            (Some(inner), "async-start") => {
                left_out.wrapped += usize::from(!has_same_attributes(inner, instr));
                left_out.spellings += usize::from(Opcode::from_name(&opcode).is_some());
                let inner = HloInstructionProto {
                    output_operand_aliasing: [
                        inner.output_operand_aliasing.as_slice(),
                        instr.output_operand_aliasing.as_slice(),
                    ]
                    .concat(),
                    ..inner.clone()
                };
                push_own(&mut attrs, &inner, scope)?;
            }
            (Some(_), _) => {}
            (None, _) => push_own(&mut attrs, instr, scope)?,
        }
        push_common(&mut attrs, instr, scope)?;
        out.push('\n');
        Ok(())
    }

    /// The thread of the computation that an async opcode starts, if it is not the main one.
    fn thread(&self, attrs: &mut Attrs<'_>, instr: &HloInstructionProto) {
        if instr.opcode != "async-start" {
            return attrs.quoted("async_execution_thread", instr.async_execution_thread.as_bytes());
        }
        let called = instr.called_computation_ids.first().and_then(|id| self.names.get(id));
        let thread = called.map_or("", |called| &called.thread);
        if thread != "main" {
            attrs.quoted("async_execution_thread", thread.as_bytes());
        }
    }
}

/// Whether an instruction has the common attributes that a reader of the text gives it: those of what starts it.
fn has_same_attributes(inner: &HloInstructionProto, start: &HloInstructionProto) -> bool {
    inner.metadata == start.metadata
        && inner.backend_config == start.backend_config
        && inner.frontend_attributes == start.frontend_attributes
        && inner.statistics_viz == start.statistics_viz
        && inner.sharding.is_none()
        && inner.original_value.is_none()
}

fn known_opcode(opcode: &str) -> Result<(), Diagnostic> {
    match Opcode::from_name(opcode) {
        Some(_) => Ok(()),
        None => Err(format!("unknown opcode: {opcode:?}").into()),
    }
}
