//! A module as HLO text, which XLA reads as the same module.

use std::fmt::Write;

use super::{
    attr::AttrName,
    module::{Attr, CompId, Computation, InstrId, Module, references},
    value::Form,
};

/// The text of a module. Values of attributes are as they were read; names begin with `%`, so that no name is a keyword.
pub fn print(module: &Module) -> String {
    let mut out = String::with_capacity(module.text.len());
    out.push_str("HloModule ");
    out.push_str(module.name());
    for attr in &module.attrs {
        push_attr(&mut out, module, attr);
    }
    if module.is_single() {
        let _ = write!(out, ", {}=true", AttrName::IsScheduled.name());
    }
    print_computations(&mut out, module, module.entry, |_| true);
    out
}

/// The text of a module whose entry is a computation of another module. It has that one and those that it calls; of the header it
/// has what is true of them too.
pub(super) fn print_part(module: &Module, entry: CompId) -> String {
    let mut needed = vec![false; module.computations.len()];
    needed[entry.index()] = true;
    // Callees come before their callers.
    for id in module.ids().rev().filter(|id| id.index() <= entry.index()) {
        if needed[id.index()] {
            module.computations[id.index()]
                .callees
                .iter()
                .for_each(|(_, callee)| needed[callee.index()] = true);
        }
    }
    let mut out = format!("HloModule {}", module.computation_name(entry));
    let of_part = [AttrName::IsScheduled, AttrName::NumPartitions, AttrName::ReplicaCount];
    for attr in module.attrs.iter().filter(|attr| attr.name.is_some_and(|name| of_part.contains(&name))) {
        push_attr(&mut out, module, attr);
    }
    print_computations(&mut out, module, entry, |id| needed[id.index()]);
    out
}

/// What follows the header: the tables of source locations and the chosen computations.
fn print_computations(out: &mut String, module: &Module, entry: CompId, is_chosen: impl Fn(CompId) -> bool) {
    out.push_str("\n\n");
    if !module.frames.text.is_empty() {
        out.push_str(module.str(module.frames.text));
        out.push_str("\n\n");
    }
    for id in module.ids().filter(|&id| is_chosen(id)) {
        print_computation(out, module, id, entry);
    }
    // One line feed ends the text.
    out.pop();
}

fn print_computation(out: &mut String, module: &Module, id: CompId, entry: CompId) {
    let computation = &module.computations[id.index()];
    out.push_str(if id == entry { "ENTRY %" } else { "%" });
    out.push_str(module.computation_name(id));
    out.push_str(" {\n");
    for (index, instr) in computation.instrs.iter().enumerate() {
        out.push_str(if index == computation.root { "  ROOT %" } else { "  %" });
        out.push_str(module.str_in(computation, instr.name));
        out.push_str(" = ");
        out.push_str(module.shapes.text(instr.shape));
        out.push(' ');
        out.extend(instr.opcode_parts());
        out.push('(');
        out.push_str(module.str_in(computation, instr.payload));
        for (position, operand) in instr.operands(computation).iter().enumerate() {
            out.push_str(if position == 0 { "%" } else { ", %" });
            out.push_str(module.str_in(computation, computation.instrs[operand.index()].name));
        }
        out.push(')');
        for index in instr.attr_range() {
            print_attr(out, module, computation, index);
        }
        out.push('\n');
    }
    out.push('}');
    if let Some(thread) = computation.thread {
        let _ = write!(out, ", execution_thread=\"{}\"", module.str(thread));
    }
    out.push_str("\n\n");
}

/// An attribute of an instruction; references by the names of what they refer to.
fn print_attr(out: &mut String, module: &Module, computation: &Computation, index: usize) {
    let attr = &computation.attrs[index];
    let names: Vec<&str> = match attr.name {
        Some(name) if name.is_call() => {
            let callees = references(&computation.callees, index..index + 1);
            callees.map(|(_, callee)| module.computation_name(callee)).collect()
        }
        Some(AttrName::ControlPredecessors) => {
            let name = |instr: InstrId| module.str_in(computation, computation.instrs[instr.index()].name);
            references(&computation.predecessors, index..index + 1).map(|(_, instr)| name(instr)).collect()
        }
        _ => return push_attr(out, module, attr),
    };
    let _ = write!(out, ", {}=", module.spelling(attr));
    let list = attr.name.is_some_and(|name| name.form() != Form::Computation);
    out.push_str(if list { "{" } else { "" });
    for (position, name) in names.into_iter().enumerate() {
        out.push_str(if position == 0 { "%" } else { ", %" });
        out.push_str(name);
    }
    out.push_str(if list { "}" } else { "" });
}

fn push_attr(out: &mut String, module: &Module, attr: &Attr) {
    let _ = write!(out, ", {}={}", module.spelling(attr), module.str(attr.value));
}
