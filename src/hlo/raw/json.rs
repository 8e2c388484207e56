//! A module as JSON.

use serde_json::{Map, Value, json};

use super::{
    module::{CompId, InstrRef, Module},
    opcode::Opcode,
};

/// A module as a JSON object: `{module, entry, attributes, computations: [{name, root, instructions: [{name, opcode, shape,
/// operands, attributes}]}]}`. Attributes are as HLO text has them; `called` names the computations of an instruction; a
/// parameter has its `number`, a constant its `literal`.
pub fn json(module: &Module) -> Value {
    let computations: Vec<Value> = module.ids().map(|id| computation(module, id)).collect();
    let attributes: Map<String, Value> = module
        .attrs
        .iter()
        .map(|attr| (module.spelling(attr).to_owned(), module.str(attr.value).into()))
        .collect();
    json!({
        "module": module.name(),
        "entry": module.computation_name(module.entry()),
        "attributes": attributes,
        "computations": computations,
    })
}

fn computation(module: &Module, id: CompId) -> Value {
    json!({
        "name": module.computation_name(id),
        "root": module.instruction(id, module.root(id)).name(),
        "instructions": module.instructions(id).map(|instr| instruction(module, instr)).collect::<Vec<_>>(),
    })
}

fn instruction(module: &Module, instr: InstrRef<'_>) -> Value {
    let operands = (0..instr.operands().len()).filter_map(|position| instr.operand(position));
    let mut object = json!({
        "name": instr.name(),
        "opcode": instr.opcode_text(),
        "shape": module.shapes().text(instr.shape()),
        "operands": operands.map(InstrRef::name).collect::<Vec<_>>(),
    });
    match instr.opcode() {
        Opcode::Parameter => object["number"] = json!(instr.payload().trim().parse::<u64>().ok()),
        Opcode::Constant => object["literal"] = json!(instr.payload()),
        _ => {}
    }
    let called: Vec<&str> = instr.callees().map(|(_, callee)| module.computation_name(callee)).collect();
    if !called.is_empty() {
        object["called"] = json!(called);
    }
    let attributes: Map<String, Value> =
        instr.attrs().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    if !attributes.is_empty() {
        object["attributes"] = Value::Object(attributes);
    }
    object
}
