//! The differences of two modules as a JSON object.

use serde_json::{Value, json};

use super::{sides::Sides, text::groups_text};
use crate::{
    diff::{Change, ChangedComputation, ChangedPart, CollectiveClass, Counted, Ignore, ModuleDiff, Totals},
    hlo::raw::{CompId, InstrRef, Module},
};

pub(super) fn json(diff: &ModuleDiff<'_>, sides: &Sides<'_>) -> Value {
    let names = |module: &Module, ids: &[CompId]| -> Vec<Value> {
        ids.iter().map(|&id| json!(module.computation_name(id))).collect()
    };
    let [before, after] = &diff.side_by_side.totals;
    let [changed, removed, added] = sides.counts(diff);
    let opcodes = diff.side_by_side.opcodes.iter();
    let opcodes = opcodes
        .map(|Counted { key, before, after }| json!({ "opcode": key, "before": before, "after": after }));
    let collectives = diff.side_by_side.collectives.iter();
    let collectives = collectives.map(|Counted { key, before, after }| {
        let CollectiveClass { kind, bytes, groups } = key;
        let groups = groups_text(*kind, groups.as_ref());
        json!({ "kind": kind.name(), "bytes": bytes, "groups": groups, "before": before, "after": after })
    });
    json!({
        "equal": diff.equal,
        "ignored": sides.ignored.iter().map(Ignore::name).collect::<Vec<_>>(),
        "unknown_constants": diff.unknown_constants,
        "before": totals(sides.before, before),
        "after": totals(sides.after, after),
        "changed": changed,
        "removed": removed,
        "added": added,
        "equal_computations": diff.equal_computations,
        "opcodes": opcodes.collect::<Vec<_>>(),
        "collectives": collectives.collect::<Vec<_>>(),
        "module": diff.module.iter().map(change).collect::<Vec<_>>(),
        "computations": diff.computations.iter().map(|one| computation(one, sides)).collect::<Vec<_>>(),
        "removed_computations": names(sides.before, &diff.removed),
        "added_computations": names(sides.after, &diff.added),
    })
}

fn totals(module: &Module, totals: &Totals) -> Value {
    json!({
        "file": module.file(),
        "module": module.name(),
        "instructions": totals.instructions,
        "computations": totals.computations,
        "product_flops": totals.flops.products,
        "elementwise_flops": totals.flops.elementwise,
        "transcendentals": totals.flops.transcendentals,
        "bytes": totals.bytes,
        "peak_bytes": totals.peak_bytes,
        "collectives": totals.collectives,
        "collective_bytes": totals.collective_bytes,
        "unknown_loops": totals.unknown_loops,
    })
}

fn computation(computation: &ChangedComputation<'_>, sides: &Sides<'_>) -> Value {
    let list = |module, instrs: &[InstrRef<'_>]| -> Vec<Value> {
        instrs.iter().map(|&one| instr(module, one)).collect()
    };
    let changed = computation.changed.iter().map(|one| {
        json!({
            "before": one.before.name(),
            "after": one.after.name(),
            "opcode": one.after.opcode_text(),
            "op_name": one.after.metadata("op_name"),
            "changes": one.changes.iter().map(change).collect::<Vec<_>>(),
        })
    });
    json!({
        "before": sides.before.computation_name(computation.before),
        "after": sides.after.computation_name(computation.after),
        "runs": computation.runs,
        "root": computation.root.map(|[before, after]| json!({ "before": before.name(), "after": after.name() })),
        "unchanged": computation.unchanged,
        "changed": changed.collect::<Vec<_>>(),
        "removed": list(sides.before, &computation.removed),
        "added": list(sides.after, &computation.added),
    })
}

fn instr(module: &Module, instr: InstrRef<'_>) -> Value {
    json!({
        "name": instr.name(),
        "opcode": instr.opcode_text(),
        "shape": module.shapes().text(instr.shape()),
        "op_name": instr.metadata("op_name"),
    })
}

fn change(change: &Change<'_>) -> Value {
    let Change { part, before, after } = change;
    let mut object = match part {
        ChangedPart::Opcode => json!({ "part": "opcode" }),
        ChangedPart::Shape => json!({ "part": "shape" }),
        ChangedPart::Sharding => json!({ "part": "sharding" }),
        ChangedPart::Constant => json!({ "part": "constant" }),
        ChangedPart::ParameterNumber => json!({ "part": "parameter-number" }),
        ChangedPart::Attribute(name) => json!({ "part": "attribute", "attribute": name }),
        ChangedPart::Callee(attr) => json!({ "part": "callee", "attribute": attr }),
        ChangedPart::Operand(position) => json!({ "part": "operand", "position": position }),
        ChangedPart::OperandCount => json!({ "part": "operand-count" }),
        ChangedPart::Name => json!({ "part": "name" }),
        ChangedPart::Order => json!({ "part": "order" }),
    };
    object["before"] = json!(before);
    object["after"] = json!(after);
    object
}
