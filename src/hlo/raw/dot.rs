//! A module as a graph for Graphviz.

use std::fmt::Write;

use super::module::{CompId, InstrRef, Module};

/// Maximum number of characters of a line in a node.
const LINE: usize = 60;

/// A module in the DOT language: a cluster for each computation, an edge from each operand to its user, and a dashed one from
/// the root of a computation to its caller.
pub fn dot(module: &Module) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "digraph {} {{", quoted(module.name()));
    out.push_str("  node [shape=box, fontname=\"monospace\", fontsize=10];\n");
    for id in module.ids() {
        computation(&mut out, module, id);
    }
    out.push_str("}\n");
    out
}

fn computation(out: &mut String, module: &Module, id: CompId) {
    let _ = writeln!(out, "  subgraph cluster_{} {{", id.index());
    let _ = writeln!(out, "    label={};", quoted(module.computation_name(id)));
    for (index, instr) in module.instructions(id).enumerate() {
        let style = if index == module.root(id).index() { ", penwidth=2" } else { "" };
        let _ =
            writeln!(out, "    i{}_{index} [label={}{style}];", id.index(), quoted(&label(module, instr)));
    }
    out.push_str("  }\n");
    for (index, instr) in module.instructions(id).enumerate() {
        for operand in instr.operands() {
            let _ = writeln!(out, "  i{0}_{1} -> i{0}_{index};", id.index(), operand.index());
        }
        for (attr, callee) in instr.callees() {
            let root = module.root(callee).index();
            let attr = attr.name();
            let _ = writeln!(
                out,
                "  i{}_{root} -> i{}_{index} [style=dashed, label=\"{attr}\"];",
                callee.index(),
                id.index()
            );
        }
    }
}

/// Name, opcode and shape, each on a line.
fn label(module: &Module, instr: InstrRef<'_>) -> String {
    let cut = |text: &str| match text.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    };
    let shape = cut(module.shapes().text(instr.shape()));
    format!("{}\n{} {}\n{shape}", instr.name(), instr.opcode_text(), cut(instr.payload()))
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}
