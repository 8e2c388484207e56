//! The values that a compiled module computes: only names, opcodes and sizes, so that instructions which the IR does not
//! support are no obstacle.

use std::collections::{BTreeSet, HashMap};

use prost::Message;

use super::{
    ProtoError,
    messages::{HloComputationProto, HloModuleProto, ShapeProto, TUPLE},
};
use crate::{
    base::MemorySpace,
    hlo::{Opcode, OpcodeClass},
};

/// A value that an instruction of a compiled module writes to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedValue {
    /// The instruction's name.
    pub name: String,
    /// Its opcode, in XLA's spelling.
    pub opcode: String,
    /// Its `op_name` ([`metadata`](crate::hlo::metadata)); empty if it has none.
    pub op_name: String,
    /// The computation of the instruction.
    pub computation: String,
    /// Bytes of its elements in device memory; zero if it is in host memory.
    pub bytes: u64,
}

/// A proto whose first field is the module, which plugins call `hlo_with_config`.
#[derive(Clone, PartialEq, Message)]
struct HloModuleProtoWithConfig {
    #[prost(message, optional, tag = "1")]
    hlo_module: Option<HloModuleProto>,
}

/// Opcodes without a buffer of their own that the IR does not support.
const OTHER_WITHOUT_BUFFER: &[&str] = &["bitcast", "conditional", "after-all", "partition-id"];

/// Whether the result of an opcode is a buffer of its operands, of the program or of computations that it runs.
fn has_no_buffer(opcode: &str) -> bool {
    let Ok(opcode) = opcode.parse::<Opcode>() else { return OTHER_WITHOUT_BUFFER.contains(&opcode) };
    match opcode.class() {
        OpcodeClass::Leaf | OpcodeClass::Tuple | OpcodeClass::ControlFlow => true,
        OpcodeClass::ElementwiseUnary
        | OpcodeClass::ElementwiseBinary
        | OpcodeClass::ElementwiseTernary
        | OpcodeClass::Conversion
        | OpcodeClass::DataMovement
        | OpcodeClass::Reduction
        | OpcodeClass::Contraction
        | OpcodeClass::Indexing
        | OpcodeClass::CustomCall => false,
    }
}

/// Whether an opcode runs the computations that it refers to. For others, such as fusions and reductions, they describe
/// the operation.
fn runs_computations(opcode: &str) -> bool {
    match opcode.parse::<Opcode>() {
        Ok(opcode) => opcode.class() == OpcodeClass::ControlFlow,
        Err(_) => opcode == "conditional",
    }
}

/// Returns the values that a module in the format `hlo_with_config` computes, largest first, and those of equal size in the
/// order of the module. It does not know which values share memory.
///
/// # Errors
/// [`ProtoError::Wire`] if the bytes are no such module.
pub fn computed_values(bytes: &[u8]) -> Result<Vec<ComputedValue>, ProtoError> {
    let proto = HloModuleProtoWithConfig::decode(bytes).map_err(ProtoError::Wire)?;
    let module = proto.hlo_module.unwrap_or_default();
    let by_id: HashMap<i64, &HloComputationProto> =
        module.computations.iter().map(|computation| (computation.id, computation)).collect();
    let (mut seen, mut next) = (BTreeSet::new(), vec![module.entry_computation_id]);
    let mut values = Vec::new();
    while let Some(computation) = next.pop() {
        let Some(computation) = by_id.get(&computation).filter(|computation| seen.insert(computation.id))
        else {
            continue;
        };
        for instruction in &computation.instructions {
            let opcode = instruction.opcode.as_str();
            if runs_computations(opcode) {
                next.extend(&instruction.called_computation_ids);
            }
            // An asynchronous operation is counted at its `-done`.
            if has_no_buffer(opcode) || opcode.ends_with("-start") {
                continue;
            }
            values.push(ComputedValue {
                name: instruction.name.clone(),
                opcode: instruction.opcode.clone(),
                op_name: instruction
                    .metadata
                    .as_ref()
                    .map_or_else(String::new, |found| found.op_name.clone()),
                computation: computation.name.clone(),
                bytes: instruction.shape.as_ref().map_or(0, bytes_of),
            });
        }
    }
    values.sort_by_key(|value| std::cmp::Reverse(value.bytes));
    Ok(values)
}

/// Bytes of all arrays of a shape in device memory.
fn bytes_of(shape: &ShapeProto) -> u64 {
    if shape.element_type == TUPLE {
        return shape.tuple_shapes.iter().map(bytes_of).fold(0, u64::saturating_add);
    }
    if shape.layout.as_ref().is_some_and(|layout| layout.memory_space == MemorySpace::Host.space()) {
        return 0;
    }
    let elements = shape.dimensions.iter().map(|&size| u64::try_from(size).unwrap_or(0));
    elements.fold(width(shape.element_type), u64::saturating_mul)
}

/// Bytes of an element by XLA's `PrimitiveType`: one for types of fewer than eight bits, none for types without elements.
fn width(element_type: i32) -> u64 {
    match element_type {
        0 | TUPLE | 14 | 17 => 0,
        3 | 7 | 10 | 16 => 2,
        4 | 8 | 11 => 4,
        5 | 9 | 12 | 15 => 8,
        18 => 16,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::messages::{HloInstructionProto, LayoutProto},
        *,
    };

    fn instruction(name: &str, opcode: &str, dimensions: &[i64], called: &[i64]) -> HloInstructionProto {
        let shape = ShapeProto { element_type: 16, dimensions: dimensions.to_vec(), ..Default::default() };
        HloInstructionProto {
            name: name.into(),
            opcode: opcode.into(),
            shape: Some(shape),
            called_computation_ids: called.to_vec(),
            ..Default::default()
        }
    }

    fn computation(id: i64, instructions: Vec<HloInstructionProto>) -> HloComputationProto {
        HloComputationProto { id, name: format!("c{id}"), instructions, ..Default::default() }
    }

    #[test]
    fn values_in_loops_count_and_those_inside_fusions_do_not() {
        let mut saved = instruction("h", "dynamic-update-slice", &[700], &[]);
        let layout = LayoutProto { memory_space: 5, ..Default::default() };
        saved.shape.as_mut().unwrap().layout = Some(layout);
        let entry = vec![
            saved,
            instruction("p", "parameter", &[1000], &[]),
            instruction("f", "fusion", &[4], &[2]),
            instruction("b", "opt-barrier", &[1000], &[]),
            instruction("s", "all-gather-start", &[500], &[]),
            instruction("d", "all-gather-done", &[8], &[]),
            instruction("w", "while", &[1000], &[3]),
        ];
        let module = HloModuleProto {
            entry_computation_id: 1,
            computations: vec![
                computation(2, vec![instruction("inner", "multiply", &[900], &[])]),
                computation(3, vec![instruction("x", "some-new-opcode", &[6], &[])]),
                computation(1, entry),
            ],
            ..Default::default()
        };
        let bytes = HloModuleProtoWithConfig { hlo_module: Some(module) }.encode_to_vec();
        let found = computed_values(&bytes).unwrap();
        let found: Vec<(&str, u64)> = found.iter().map(|value| (value.name.as_str(), value.bytes)).collect();
        assert_eq!(found, [("d", 16), ("x", 12), ("f", 8), ("h", 0)]);
        assert!(computed_values(&[0xff]).is_err());
    }
}
