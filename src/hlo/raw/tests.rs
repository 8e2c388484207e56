//! Reading and printing, and limits. Texts with what is printed of them are in `tests/files/read`.

use proptest::prelude::*;

use super::{AttrName, Dimension, Module, Opcode, PrimitiveType, Shape, parse, print};

fn module(text: &str) -> Module {
    parse(text, "test.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn error(text: &str) -> String {
    parse(text, "test.hlo").expect_err("the text is invalid").to_string()
}

#[test]
fn tables_have_unique_names_that_are_found() {
    for &opcode in Opcode::ALL {
        assert_eq!(Opcode::from_name(opcode.name()), Some(opcode));
    }
    for &attr in AttrName::ALL {
        assert_eq!(AttrName::from_name(attr.name().as_bytes()), Some(attr));
    }
    for &element in PrimitiveType::ALL {
        assert_eq!(PrimitiveType::from_name(element.name().as_bytes()), Some(element));
    }
    let mut numbers: Vec<i32> = PrimitiveType::ALL.iter().map(|element| element.xla_number()).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

#[test]
fn parts_of_an_instruction() {
    let module = module(
        "HloModule m, is_scheduled=true\n\
         f { x = f32[] parameter(0) ROOT y = f32[] negate(x) }\n\
         ENTRY e { a = f32[] parameter(0) b = f32[] call(a), to_apply=f, metadata={op_name=\"z\"}\n\
           ROOT c = (f32[<=4]{0:T(128)S(1)}, f32[]) custom-call(b, a), custom_call_target=\"t\", control-predecessors={b} }",
    );
    assert!(module.is_scheduled());
    assert_eq!((module.num_computations(), module.num_instructions()), (2, 5));
    assert_eq!(module.computation_name(module.entry()), "e");
    let call = module.instructions(module.entry()).nth(1).unwrap();
    assert_eq!(
        (call.name(), call.opcode(), call.attr(AttrName::Metadata)),
        ("b", Opcode::Call, Some("{op_name=\"z\"}"))
    );
    let callees: Vec<_> = call.called(AttrName::ToApply).map(|id| module.computation_name(id)).collect();
    assert_eq!(callees, ["f"]);
    assert_eq!(call.location().to_string(), "test.hlo:3:34");
    let root = module.instruction(module.entry(), module.root(module.entry()));
    assert_eq!(root.control_predecessors().map(|id| id.index()).collect::<Vec<_>>(), [1]);
    assert_eq!(root.operands().iter().map(|id| id.index()).collect::<Vec<_>>(), [1, 0]);
    let Shape::Tuple(elements) = module.shapes().get(root.shape()) else { panic!("a tuple") };
    let Shape::Array(array) = module.shapes().get(elements[0]) else { panic!("an array") };
    assert_eq!(array.dims, [Dimension::Bounded(4)]);
    let layout = array.layout.as_ref().unwrap();
    assert_eq!((layout.memory_space, &layout.tiles[..]), (1, &[vec![128]][..]));
    assert_eq!(array.dense_bytes(), Some(16));
}

#[test]
fn async_opcodes_count_the_computation_that_they_wrap() {
    let text = "ENTRY e { x = f32[8] parameter(0)\n s = ((f32[8]), f32[8], s32[]) negate-start(x)\n ROOT d = f32[8] negate-done(s) }";
    let module = module(text);
    assert_eq!((module.num_computations(), module.num_instructions()), (2, 5));
    let start = module.instructions(module.entry()).nth(1).unwrap();
    assert_eq!(
        (start.opcode(), start.wrapped(), start.opcode_text().as_str()),
        (Opcode::AsyncStart, Some(Opcode::Negate), "negate-start")
    );
}

#[test]
fn stacks_of_frames_end() {
    let tables = "HloModule m\nFileNames\n1 \"a.py\"\nFunctionNames\n1 \"f\"\nFileLocations\n\
        1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\nStackFrames\n\
        1 {file_location_id=1 parent_frame_id=3}\n2 {file_location_id=1 parent_frame_id=2}\n\
        ENTRY e { ROOT x = f32[] parameter(0) }";
    let module = module(tables);
    // The first frame calls the second and the second the first.
    assert_eq!(module.stack(1).count(), 2);
    let frame = module.stack(1).next().unwrap();
    assert_eq!((frame.file, frame.function, frame.line), ("a.py", "f", 7));
    assert_eq!(module.stack(9).count(), 0);
}

#[test]
fn two_computations_inside_attributes() {
    let module = module(
        "ENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] while(x), condition={ a = f32[] parameter(0) ROOT c = pred[] \
         constant(false) }, body={ b = f32[] parameter(0) ROOT n = f32[] negate(b) } }",
    );
    let root = module.instruction(module.entry(), module.root(module.entry()));
    let condition = root.called(AttrName::Condition).next().unwrap();
    assert_eq!(module.instructions(condition).last().unwrap().opcode(), Opcode::Constant);
    let body = root.called(AttrName::Body).next().unwrap();
    assert_eq!(module.instructions(body).last().unwrap().opcode(), Opcode::Negate);
}

#[test]
fn names_that_are_added_are_unique() {
    let printed = print(&module(
        "ENTRY e { x = f32[] parameter(0)\n negate.anon = f32[] add(f32[] negate(x), f32[] negate(x))\n \
         ROOT negate.anon.1 = f32[] multiply(f32[] negate(x), negate.anon) }",
    ));
    assert_eq!(print(&module(&printed)), printed);
    assert_eq!(printed.matches(" = f32[] negate(").count(), 3);
}

/// A shape may follow from a computation that another task reads.
#[test]
fn a_shape_that_follows_from_another_task() {
    let long =
        "x = f32[2,3]{1,0} parameter(0), metadata={op_name=\"long\"}\n".replace("long", &"n".repeat(1 << 20));
    let text = format!(
        "f {{ {long} ROOT y = f32[2,3]{{1,0}} negate(x) }}\nENTRY e {{ {long} ROOT y = call(x), to_apply=f }}"
    );
    let module = module(&text);
    let root = module.instruction(module.entry(), module.root(module.entry()));
    assert_eq!(module.shapes().text(root.shape()), "f32[2,3]{1,0}");
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let (open, close) = ("f32[] negate(".repeat(depth), ")".repeat(depth));
        format!("ENTRY e {{ x = f32[] parameter(0)\n ROOT y = f32[] negate({open}x{close}) }}")
    };
    module(&nested(60));
    let found = error(&nested(100_000));
    assert!(found.ends_with("expected at most 64 nested instructions, found more"), "{found}");
    let tuple = |depth: usize| {
        format!("ENTRY e {{ ROOT x = {}f32[]{} parameter(0) }}", "(".repeat(depth), ")".repeat(depth))
    };
    module(&tuple(30));
    let found = error(&tuple(100_000));
    assert!(found.ends_with("expected at most 32 nested tuples, found more"), "{found}");
}

/// An instruction costs 40 bytes beside its operands and attributes.
#[test]
fn an_instruction_is_small() {
    assert!(size_of::<super::module::Instr>() <= 40);
}

const VALID: &str = include_str!("../../../tests/every_opcode.hlo");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A valid text with some bytes replaced is read or refused, and what is read prints as a text that reads the same.
    #[test]
    fn changed_texts_are_read_or_refused(
        changes in prop::collection::vec((0..VALID.len(), prop::sample::select(&b"{}()[]=,%\"0-a. \n"[..])), 1..4),
    ) {
        let mut bytes = VALID.as_bytes().to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(module) = parse(text, "test.hlo") {
            let printed = print(&module);
            let again = parse(printed.as_str(), "printed.hlo");
            prop_assert!(again.is_ok(), "{}\n{printed}", again.unwrap_err());
            prop_assert_eq!(print(&again.unwrap()), printed);
        }
    }
}
