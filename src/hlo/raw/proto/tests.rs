//! Text to proto and back, files that hold modules, and what cannot be carried.

use proptest::prelude::*;
use prost::{Message, bytes::Bytes};

use super::{
    AsyncOps, ProtoFile, from_proto,
    messages::{HloComputationProto, HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot},
    messages_data::{LayoutProto, LiteralProto, OpMetadata, Payload, ShapeProto},
    messages_instr::HloInstructionProto,
    to_proto,
};
use crate::hlo::raw::{module::Module, parse, print};

fn module(text: &str) -> Module {
    parse(text, "test.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn proto(text: &str) -> Vec<u8> {
    let found =
        to_proto(&module(text), ProtoFile::Module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert!(found.warnings.is_empty(), "{}", found.warnings);
    found.bytes
}

fn text(bytes: &[u8], async_ops: AsyncOps) -> String {
    let found =
        from_proto(bytes, "test.hlo.pb", async_ops).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert!(found.warnings.is_empty(), "{}", found.warnings);
    print(&found.module)
}

fn read_error(bytes: &[u8]) -> String {
    from_proto(bytes, "test.hlo.pb", AsyncOps::Sugar).expect_err("the proto is invalid").to_string()
}

fn write_error(text: &str) -> String {
    to_proto(&module(text), ProtoFile::Module).expect_err("the text has no proto").to_string()
}

/// The instructions of the only computation.
fn instructions(bytes: &[u8]) -> Vec<HloInstructionProto> {
    let module = HloModuleProto::decode(bytes).unwrap();
    let [computation] = &module.computations[..] else { panic!("expected one computation") };
    let computation = HloComputationProto::decode(computation.clone()).unwrap();
    computation.instructions.iter().map(|bytes| HloInstructionProto::decode(bytes.clone()).unwrap()).collect()
}

/// The proto of a module with one instruction changed.
fn changed(text: &str, instr: usize, change: impl FnOnce(&mut HloInstructionProto)) -> Vec<u8> {
    let mut module = HloModuleProto::decode(proto(text).as_slice()).unwrap();
    let mut computation = HloComputationProto::decode(module.computations[0].clone()).unwrap();
    let mut proto = HloInstructionProto::decode(computation.instructions[instr].clone()).unwrap();
    change(&mut proto);
    computation.instructions[instr] = proto.encode_to_vec().into();
    module.computations[0] = computation.encode_to_vec().into();
    module.encode_to_vec()
}

/// XLA's spelling of every attribute: such a text survives its proto as it is.
const CANONICAL: &str = include_str!("../../../../tests/raw_proto.hlo");

#[test]
fn texts_of_xla_survive_their_protos() {
    for part in CANONICAL.split("// ----\n") {
        let module = module(part);
        let proto =
            to_proto(&module, ProtoFile::ModuleWithConfig).unwrap_or_else(|error| panic!("{error}\n{part}"));
        assert_eq!(text(&proto.bytes, AsyncOps::Sugar), print(&module));
        let explicit = text(&proto.bytes, AsyncOps::Explicit);
        let again = to_proto(&self::module(&explicit), ProtoFile::ModuleWithConfig).unwrap();
        assert_eq!(text(&again.bytes, AsyncOps::Explicit), explicit);
        assert_eq!(text(&again.bytes, AsyncOps::Sugar), print(&module));
    }
}

const NEGATE: &str = "HloModule m\nENTRY e { x = f32[2]{0} parameter(0)\n ROOT y = f32[2]{0} negate(x) }";

#[test]
fn a_module_is_found_in_every_file() {
    let bytes = proto(NEGATE);
    let module = HloModuleProto::decode(bytes.as_slice()).unwrap();
    let buffers = Bytes::from_static(b"\x0a\x02\x08\x01");
    let hlo = HloProto { hlo_module: Some(module.clone()), buffer_assignment: Bytes::new() };
    let with_buffers = HloProto { buffer_assignment: buffers, ..hlo.clone() };
    let snapshot = HloSnapshot { hlo: Some(hlo.clone()), ..HloSnapshot::default() };
    let unoptimized = HloUnoptimizedSnapshot { hlo_module: Some(module), partitions: vec![], version: 1 };
    let config = to_proto(&self::module(NEGATE), ProtoFile::ModuleWithConfig).unwrap().bytes;
    let expected = text(&bytes, AsyncOps::Sugar);
    assert!(
        expected.starts_with("HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\n"),
        "{expected}"
    );
    for file in [hlo.encode_to_vec(), snapshot.encode_to_vec(), unoptimized.encode_to_vec(), config] {
        assert_eq!(text(&file, AsyncOps::Sugar), expected);
    }
    let found = from_proto(&with_buffers.encode_to_vec(), "dump.hlo.pb", AsyncOps::Sugar).unwrap();
    assert_eq!(
        found.warnings.to_string(),
        "dump.hlo.pb: `HloProto.buffer_assignment`: HLO text has no such field"
    );
}

#[test]
fn settings_are_in_the_config_only() {
    let text_of = "HloModule m, replica_count=2, num_partitions=4\nENTRY e { ROOT x = f32[] parameter(0) }";
    let found = to_proto(&module(text_of), ProtoFile::Module).unwrap();
    assert_eq!(
        found.warnings.to_string(),
        "test.hlo:1:14: HloModuleProto has no field for `replica_count`\n  hint: HloModuleProtoWithConfig has it\n\
         test.hlo:1:31: HloModuleProto has no field for `num_partitions`\n  hint: HloModuleProtoWithConfig has it"
    );
    let found = to_proto(&module(text_of), ProtoFile::ModuleWithConfig).unwrap();
    assert!(found.warnings.is_empty());
    assert!(text(&found.bytes, AsyncOps::Sugar).contains(", replica_count=2, num_partitions=4\n"));
}

#[test]
fn unknown_fields_are_named_with_their_path() {
    let mut bytes = changed(NEGATE, 1, |instr| {
        instr.metadata =
            Some(Box::new(OpMetadata { size_of_generated_code_in_bytes: 7, ..OpMetadata::default() }));
    });
    // Field 1000, the number 5.
    bytes.extend([0xc0, 0x3e, 5]);
    let found = from_proto(&bytes, "m.pb", AsyncOps::Sugar).unwrap();
    assert_eq!(
        found.warnings.to_string(),
        "m.pb: `HloModuleProto`: unknown field 1000\n\
         m.pb: `HloModuleProto.computations.instructions.metadata.size_of_generated_code_in_bytes`: HLO text has no such field"
    );
}

#[test]
fn names_that_two_computations_share_get_numbers() {
    let bytes = proto(
        "f { x = f32[] parameter(0) ROOT y.1 = f32[] negate(x) }\n\
         ENTRY e { x = f32[] parameter(0) y.1 = f32[] call(x), to_apply=f ROOT x.1 = f32[] negate(y.1) }",
    );
    let found = text(&bytes, AsyncOps::Sugar);
    assert!(
        found.contains("%x.2 = f32[] parameter(0)") && found.contains("%y.2 = f32[] call(%x.2)"),
        "{found}"
    );
    assert!(found.contains("ROOT %x.1 = f32[] negate(%y.2)"), "{found}");
}

#[test]
fn elements_are_in_the_order_of_the_layout() {
    let bytes = proto("ENTRY e { ROOT c = s32[2,3]{0,1} constant({ { 1, 2, 3 }, { 4, 5, 6 } }) }");
    let [constant] = &instructions(&bytes)[..] else { panic!("one instruction") };
    assert_eq!(constant.literal.as_ref().unwrap().s32s, [1, 4, 2, 5, 3, 6]);
    assert!(text(&bytes, AsyncOps::Sugar).contains("constant({ { 1, 2, 3 }, { 4, 5, 6 } })"));
}

#[test]
fn minus_zero_and_nan_keep_their_bits() {
    let bytes = proto("ENTRY e { ROOT c = f32[4]{0} constant({-0, nan, -nan(0x1), inf}) }");
    let literal = instructions(&bytes)[0].literal.clone().unwrap();
    let bits: Vec<u32> = literal.f32s.iter().map(|value| value.to_bits()).collect();
    assert_eq!(bits, [0x8000_0000, 0x7fc0_0000, 0xff80_0001, 0x7f80_0000]);
    assert!(text(&bytes, AsyncOps::Sugar).contains("constant({-0, nan, -nan(0x1), inf})"));
}

#[test]
fn an_async_op_wraps_a_computation() {
    let source = "HloModule m\nENTRY e { x = f32[8]{0} parameter(0)\n \
        s = ((f32[8]{0}), f32[8]{0}, s32[]) negate-start(x), metadata={op_name=\"n\"}\n \
        u = ((f32[8]{0}), f32[8]{0}, s32[]) negate-update(s)\n ROOT d = f32[8]{0} negate-done(u) }";
    let bytes = proto(source);
    let module = HloModuleProto::decode(bytes.as_slice()).unwrap();
    let wrapped = HloComputationProto::decode(module.computations[0].clone()).unwrap();
    assert_eq!(
        (wrapped.name.as_str(), wrapped.instructions.len(), module.computations.len()),
        ("async_wrapped", 2, 2)
    );
    assert_eq!(text(&bytes, AsyncOps::Sugar).matches("negate-").count(), 3);
    let explicit = text(&bytes, AsyncOps::Explicit);
    assert!(
        explicit.contains("async-start(%x), calls=%async_wrapped, metadata={op_name=\"n\"}"),
        "{explicit}"
    );
    // What is started says something of its own, which the spelling cannot say.
    let other = explicit.replacen("{op_name=\"n\"}", "{op_name=\"other\"}", 1);
    let found = from_proto(&proto(&other), "m.pb", AsyncOps::Sugar).unwrap();
    assert_eq!(
        found.warnings.to_string(),
        "m.pb: 1 instructions that async ops start have metadata of their own, which the text of XLA does not tell apart"
    );
}

#[test]
fn payloads_are_looked_up() {
    let bytes = changed(NEGATE, 1, |instr| {
        instr.backend_config_payload = Some(Box::new(Payload { value: None, id: Some(0) }));
    });
    let mut module = HloModuleProto::decode(bytes.as_slice()).unwrap();
    assert_eq!(read_error(&bytes), "test.hlo.pb: `e/y`: unknown payload: 0");
    module.payloads.push(b"{\"a\":1}".to_vec());
    assert!(
        text(&module.encode_to_vec(), AsyncOps::Sugar).contains("negate(%x), backend_config={\"a\":1}\n")
    );
}

#[test]
fn what_a_proto_cannot_carry_is_an_error_with_its_place() {
    let check = |text: &str, expected: &str| assert_eq!(write_error(text), expected);
    check(
        "ENTRY e {\n ROOT c = f32[100] constant({...}) }",
        "test.hlo:2:30: expected the elements of a constant, found `{...}`\n  hint: print the module with large constants: \
         `print_large_constants` in HloPrintOptions",
    );
    check(
        "ENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] negate(x), color=red }",
        "test.hlo:2:28: HloInstructionProto has no field for the attribute `color` of `negate`",
    );
    check(
        "HloModule m, color=red\nENTRY e { ROOT x = f32[] parameter(0) }",
        "test.hlo:1:14: HloModuleProto has no field for this attribute of the module",
    );
    check(
        "ENTRY e { ROOT x = f32[] parameter(0), metadata={op_nam=\"a\"} }",
        "test.hlo:1:50: expected a field of metadata that a proto has, found `op_nam`",
    );
    check(
        "ENTRY e { ROOT x = f32[9999999] constant(1) }",
        "test.hlo:1:42: expected at most 1048576 elements in an array of which the text has one",
    );
}

#[test]
fn what_text_cannot_say_is_an_error_with_its_place() {
    let check = |change: fn(&mut HloInstructionProto), expected: &str| {
        assert_eq!(read_error(&changed(NEGATE, 1, change)), expected);
    };
    check(|instr| instr.operand_ids = vec![9], "test.hlo.pb: `e/y`: unknown instruction id 9");
    check(|instr| instr.opcode = "negate(x)".into(), "test.hlo.pb: `e/y`: unknown opcode: \"negate(x)\"");
    check(
        |instr| instr.name = "a b".into(),
        "test.hlo.pb: `e`: expected a name of letters, digits, `_`, `.` and `-`, found \"a b\"",
    );
    check(|instr| instr.shape = None, "test.hlo.pb: `e/y`: missing shape");
    check(|instr| instr.conv_kind = 9, "test.hlo.pb: `e/y`: unknown value of convolution_kind: 9");
    check(|instr| instr.called_computation_ids = vec![5], "test.hlo.pb: `e/y`: unknown computation id 5");
    check(
        |instr| instr.shape.as_mut().unwrap().element_type = 99,
        "test.hlo.pb: `e/y`: unknown element type: 99",
    );
    let constant = "ENTRY e { ROOT c = f32[2]{0} constant({1, 2}) }";
    let bytes = changed(constant, 0, |instr| instr.literal.as_mut().unwrap().f32s.truncate(1));
    assert_eq!(read_error(&bytes), "test.hlo.pb: `e/c`: expected 2 elements of f32, found 1");
    assert_eq!(
        read_error(&[0xff]),
        "test.hlo.pb: expected a serialized HloModuleProto: failed to decode Protobuf message: invalid varint\n  \
         hint: HLO text and StableHLO have readers of their own"
    );
}

/// A literal of many rows without elements, and shapes in shapes, are refused rather than printed.
#[test]
fn sizes_and_nesting_are_limited() {
    let constant = "ENTRY e { ROOT c = f32[2]{0} constant({1, 2}) }";
    let bytes = changed(constant, 0, |instr| {
        let layout = LayoutProto { minor_to_major: vec![1, 0], ..LayoutProto::default() };
        let dimensions = vec![1 << 40, 0];
        let shape =
            ShapeProto { element_type: 11, dimensions, layout: Some(layout), ..ShapeProto::default() };
        instr.literal = Some(Box::new(LiteralProto { shape: Some(shape), ..LiteralProto::default() }));
    });
    assert_eq!(
        read_error(&bytes),
        "test.hlo.pb: `e/c`: expected at most 65536 rows without elements, found more"
    );
    let bytes = changed(NEGATE, 1, |instr| {
        let mut shape = ShapeProto { element_type: 13, ..ShapeProto::default() };
        for _ in 0..40 {
            shape = ShapeProto { element_type: 13, tuple_shapes: vec![shape], ..ShapeProto::default() };
        }
        instr.shape = Some(Box::new(shape));
    });
    assert_eq!(read_error(&bytes), "test.hlo.pb: `e/y`: expected at most 32 nested tuples, found more");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A proto with some bytes replaced is read or refused, and what is read has a proto that reads the same.
    #[test]
    fn changed_protos_are_read_or_refused(
        part in 0..CANONICAL.matches("// ----\n").count(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let module = module(CANONICAL.split("// ----\n").nth(part).unwrap());
        let mut bytes = to_proto(&module, ProtoFile::ModuleWithConfig).unwrap().bytes;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(found) = from_proto(&bytes, "test.hlo.pb", AsyncOps::Explicit)
            && let Ok(again) = to_proto(&found.module, ProtoFile::ModuleWithConfig)
        {
            let again = from_proto(&again.bytes, "again.hlo.pb", AsyncOps::Explicit);
            prop_assert!(again.is_ok(), "{}\n{}", again.unwrap_err(), print(&found.module));
        }
    }
}
