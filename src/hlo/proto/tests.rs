use proptest::prelude::*;
use prost::Message;

use super::{
    decode, encode,
    messages::{HloInstructionProto, HloModuleProto, LayoutProto, OpSharding, SHARDING_OTHER, ShapeProto},
};
use crate::hlo::{
    Module, Opcode,
    testing::{module, modules},
    text, verify,
};

/// A module of one computation and a few instructions, changed by `edit`, is refused with this text.
fn check_error(edit: impl Fn(&mut HloModuleProto), expect: &str) {
    let bytes = encode(&module(&[(Opcode::Constant, 1), (Opcode::Transpose, 1)]));
    let mut proto = HloModuleProto::decode(bytes.as_slice()).unwrap();
    edit(&mut proto);
    assert_eq!(decode(&proto.encode_to_vec()).unwrap_err().to_string(), expect);
}

/// The module with its instructions numbered: in a proto their names are unique over the module.
fn unnamed(mut module: Module) -> Module {
    for computation in &mut module.computations {
        computation.instrs.iter_mut().enumerate().for_each(|(index, instr)| instr.name = index.to_string());
    }
    module
}

fn instr(proto: &mut HloModuleProto, index: usize) -> &mut HloInstructionProto {
    &mut proto.computations[0].instructions[index]
}

#[test]
fn every_opcode_decodes_back() {
    let steps: Vec<_> = Opcode::ALL.iter().map(|&opcode| (opcode, 7)).collect();
    let module = module(&steps);
    assert_eq!(unnamed(decode(&encode(&module)).unwrap()), unnamed(module.into_module()));
}

#[test]
fn instruction_names_become_unique_over_the_module() {
    let module = module(&[(Opcode::While, 1)]);
    let proto = HloModuleProto::decode(encode(&module).as_slice()).unwrap();
    let names: Vec<&str> =
        proto.computations.iter().flat_map(|c| &c.instructions).map(|instr| instr.name.as_str()).collect();
    assert_eq!(names, ["true", "compare.1", "true.3", "true.4", "while.1", "tuple.2"]);
}

#[test]
fn where_parameters_lie_is_said_of_the_program_and_of_nothing_inside() {
    let text = "HloModule m, frontend_attributes={arg_memory_spaces=\"0;5\"}
        ENTRY f {
          x = f32[2] parameter(0)
          ROOT y = f32[2] parameter(1)
        }";
    let module = verify(text::parse(text, "m.hlo").unwrap()).unwrap();
    let mut proto = HloModuleProto::decode(encode(&module).as_slice()).unwrap();
    let spaces = |shapes: &[ShapeProto]| {
        shapes.iter().map(|shape| shape.layout.as_ref().unwrap().memory_space).collect::<Vec<_>>()
    };
    assert_eq!(spaces(&proto.host_program_shape.as_ref().unwrap().parameters), [0, 5]);
    assert_eq!(spaces(&proto.computations[0].program_shape.as_ref().unwrap().parameters), [0, 0]);
    let attributes = proto.frontend_attributes.take().unwrap().map;
    assert_eq!(attributes["arg_memory_spaces"], "0;5");
    // The layout alone is enough.
    assert_eq!(&decode(&proto.encode_to_vec()).unwrap(), module.module());
}

#[test]
fn what_the_ir_cannot_hold_is_named() {
    check_error(
        |proto| instr(proto, 2).opcode = "transpos".into(),
        "main: `transpose.2`: unknown opcode: transpos",
    );
    check_error(
        |proto| instr(proto, 2).operand_ids = vec![3],
        "main: `transpose.2`: operand id 3 is not defined before its use",
    );
    check_error(|proto| instr(proto, 2).id = 1, "main: `transpose.2`: duplicate instruction id 1");
    check_error(|proto| instr(proto, 0).literal = None, "main: `true`: missing literal");
    check_error(|proto| instr(proto, 0).shape = None, "main: `true`: missing shape");
    check_error(
        |proto| instr(proto, 2).dimensions = vec![-1],
        "main: `transpose.2`: expected a non-negative integer, found -1",
    );
    check_error(
        |proto| {
            let layout = LayoutProto { memory_space: 5, ..LayoutProto::default() };
            instr(proto, 0).shape.as_mut().unwrap().layout = Some(layout);
        },
        "main: `true`: unsupported layout: expected a row-major layout in device memory",
    );
    let sharded = |sharding: OpSharding| {
        move |proto: &mut HloModuleProto| instr(proto, 0).sharding = Some(sharding.clone())
    };
    check_error(
        sharded(OpSharding { kind: 4, ..OpSharding::default() }),
        "main: `true`: expected a replicated, maximal or tiled sharding, found type 4",
    );
    check_error(
        sharded(OpSharding { kind: SHARDING_OTHER, last_tile_dims: vec![4], ..OpSharding::default() }),
        "main: `true`: expected replicas in the last dimension, found [4]",
    );
    check_error(
        sharded(OpSharding { is_shard_group: true, ..OpSharding::default() }),
        "main: `true`: unsupported shard group: expected a sharding without groups",
    );
    check_error(|proto| proto.computations[0].root_id = 9, "main: unknown root id 9");
    check_error(|proto| proto.entry_computation_id = 9, "random: unknown entry computation id 9");
}

#[test]
fn other_bytes_are_no_module() {
    let error = decode(b"HloModule m").unwrap_err();
    assert_eq!(error.to_string(), "expected a serialized HloModuleProto");
    assert!(error.hint().is_some());
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_back(module in modules()) {
        prop_assert_eq!(unnamed(decode(&encode(&module)).unwrap()), unnamed(module.into_module()));
    }

    #[test]
    fn no_damage_makes_the_decoder_panic(
        module in modules(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&module);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(module) = decode(&bytes) {
            let _ = verify(module);
        }
    }
}

#[test]
fn instructions_that_say_nothing_are_refused_before_they_take_memory() {
    let check = |instruction: &[u8], expect: &str| {
        let many = [&[2 << 3 | 2, instruction.len() as u8], instruction].concat().repeat(100_000);
        let mut bytes = vec![3 << 3 | 2];
        prost::encoding::encode_varint(many.len() as u64, &mut bytes);
        bytes.extend(many);
        assert_eq!(decode(&bytes).unwrap_err().to_string(), expect);
    };
    let expect = |size: usize| {
        format!(
            "module: expected a name, an opcode and a shape in each instruction, found one of {size} bytes"
        )
    };
    check(&[], &expect(0));
    check(b"\x0a\x01x", &expect(3));
}
