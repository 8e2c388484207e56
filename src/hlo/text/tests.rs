use proptest::prelude::*;

use super::{parse, print, print_module};
use crate::{
    base::Diagnostics,
    hlo::{
        Opcode,
        testing::{module, modules},
        verify,
    },
};

/// Reads a module with these lines as its entry.
fn read(body: &str) -> Result<String, Diagnostics> {
    let source = format!("HloModule m\n\nENTRY main {{\n{body}}}\n");
    parse(&source, "t.hlo").map(|module| print_module(&module))
}

/// The text as XLA prints it, but for layouts, prints as it was read.
fn check_text(source: &str) {
    let module = parse(source, "t.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let module = verify(module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!(print(&module), source);
}

fn check_body(body: &str) {
    check_text(&format!("HloModule m\n\nENTRY main {{\n{body}}}\n"));
}

fn check_error(body: &str, expect: &str) {
    assert_eq!(read(body).unwrap_err().to_string(), expect);
}

#[test]
fn every_attribute_form_prints_as_xla_prints_it() {
    check_body(
        "  x = f32[4,8] parameter(0)
  y = f32[4,8,3] parameter(1)
  i = s32[] constant(0)
  f = f32[] constant(0)
  b = f32[4,8,3] broadcast(x), dimensions={0,1}
  d = f32[4,3] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  s = f32[2,4] slice(x), slice={[0:2:1], [0:8:2]}
  s.1 = f32[2,8] slice(x), slice={[0:2], [0:8]}
  ds = f32[1,4] dynamic-slice(x, i, i), dynamic_slice_sizes={1,4}
  du = f32[4,8] dynamic-update-slice(x, ds, i, i)
  p = f32[5,15] pad(x, f), padding=0_1_0x0_0_1
  p2 = f32[5,7] pad(x, f), padding=0_1x-1_0
  io = s32[4] iota(), iota_dimension=0
  c = pred[4,8] compare(x, x), direction=LT
  iv = s32[2] constant({0, 1})
  g = f32[2,8] gather(x, iv), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,8}
  cc = (f32[4,8], f32[]) custom-call(x), custom_call_target=\"a\\\"\\303\\244\", backend_config=\"{}\"
  e = f32[] get-tuple-element(cc), index=1
  ROOT t = () tuple()
",
    );
    check_text(
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

less {
  a = s32[] parameter(0)
  ROOT c = pred[] compare(a, a), direction=LT
}

same {
  ROOT a = s32[] parameter(0)
}

ENTRY main {
  x = s32[4] parameter(0)
  i = s32[] parameter(1)
  iv = s32[2,1] constant({{0}, {1}})
  u = s32[2] constant({5, 6})
  r = s32[] reduce(x, i), dimensions={0}, to_apply=add
  s = s32[4] scatter(x, iv, u), update_window_dims={}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  c = s32[] call(r, i), to_apply=add
  w = s32[] while(c), condition=less, body=same
  ROOT t = (s32[4], s32[]) tuple(s, w)
}
",
    );
}

#[test]
fn what_xla_prints_besides_is_read() {
    let source = "// a comment
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{1,0}, f32[])}, \
frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"fsdp\"=2, \"tp\"=2]>}}

ENTRY %main.1 (x: f32[2,3]) -> (f32[2,3], /*index=1*/f32[]) {
  %x = f32[2,3]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  %c = f32[2,3]{1,0} constant({ /*i0=0*/ { 1, 2, 3 },
    { nan, inf, -inf } }), metadata={op_name=\"a{\" source_line=3}, stack_frame_id=1
  %d = f32[3,3]{1,0} dot(f32[2,3]{1,0} %x, %c), rhs_contracting_dims={0}, lhs_contracting_dims={0}, \
operand_precision={highest,highest}
  %k = pred[2]{0} constant({1, 0})
  %r = f32[] call(%x), to_apply=%later, backend_config={\"a\": {\"}\": 1}}
  ROOT %t = (f32[2,3]{1,0}, f32[]) tuple(%c, %r)
}, execution_thread=\"main\"

later {
  x = f32[2,3] parameter(0)
  ROOT z = f32[] constant(-1e-06)
}
";
    let expect =
        "HloModule jit_f, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"fsdp\"=2, \"tp\"=2]>}}

later {
  x = f32[2,3] parameter(0)
  ROOT z = f32[] constant(-1e-6)
}

ENTRY main.1 {
  x = f32[2,3] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  c = f32[2,3] constant({{1, 2, 3}, {nan, inf, -inf}}), metadata={op_name=\"a{\" source_line=3}
  d = f32[3,3] dot(x, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  k = pred[2] constant({true, false})
  r = f32[] call(x), to_apply=later
  ROOT t = (f32[2,3], f32[]) tuple(c, r)
}
";
    assert_eq!(print_module(&parse(source, "t.hlo").unwrap()), expect);
}

#[test]
fn every_error_is_reported_and_none_follows_from_another() {
    check_error(
        "  x = f32[2] parameter(0)
  a = f32[2] ad(x, x)
  b = f32[2] add(a, x)
  c = f32[2] add(other, x)
  d = f33[2] add(x, x)
  e = f32[2] negate(x) x
  x = f32[2] negate(x)
",
        "t.hlo:5:14: `a`: unknown opcode: ad
  hint: did you mean `add`?
t.hlo:7:18: `c`: operand other is not defined before its use
t.hlo:8:7: `d`: unknown element type: f33
  hint: did you mean `f32`?
t.hlo:9:24: `e`: expected the end of the line, found `x`
t.hlo:10:3: `x`: duplicate instruction name",
    );
}

#[test]
fn a_wrong_shape_names_its_line() {
    check_error(
        "  x = f32[2,3] parameter(0)
  y = f32[3,2] transpose(x), dimensions={1,0}
  z = f32[2,3] transpose(x), dimensions={1,0}
  w = f32[2,3] add(x, y)
",
        "t.hlo:6:3: `z`: expected shape f32[3,2] from the operands, found f32[2,3]
t.hlo:7:3: `w`: expected the second operand to be f32[2,3], found f32[3,2]",
    );
}

#[test]
fn attributes_are_checked_by_name() {
    check_error(
        "  x = f32[2] parameter(0)
  a = f32[2] reverse(x), dimension={0}
  b = f32[2] reverse(x)
  c = f32[2] reverse(x), dimensions={0}, dimensions={0}
  d = f32[2] negate(x), algorithm=fast
  e = pred[2] compare(x, x), direction=XX
",
        "t.hlo:5:26: `a`: unknown attribute of `reverse`: dimension
  hint: did you mean `dimensions`?
t.hlo:7:3: `b`: expected attribute `dimensions`, found `c`
t.hlo:7:42: `c`: duplicate attribute `dimensions`
t.hlo:8:25: `d`: unknown attribute of `negate`: algorithm
t.hlo:9:40: `e`: unknown comparison direction: XX
  hint: known: EQ, NE, GE, GT, LE, LT",
    );
}

#[test]
fn what_the_ir_cannot_hold_is_named() {
    check_error(
        "  a = f32[2,3]{0,1} parameter(0)
  b = f32[8]{0:T(8)S(5)} parameter(1)
  c = f32[<=8] parameter(2)
  d = f32[3] constant({1, 2})
  e = s8[] constant(300)
  f = f32[9] constant({...})
  g = f32[-1] parameter(3)
  h = f32[] constant(\"open)
",
        "t.hlo:4:15: `a`: unsupported layout {0,1}: expected a row-major layout in device memory
t.hlo:5:13: `b`: unsupported layout {0:T(8)S(5)}: expected a row-major layout in device memory
t.hlo:6:11: `c`: unsupported dynamic size: expected a static size
t.hlo:7:23: `d`: expected 3 elements or rows, found 2
t.hlo:8:21: `e`: out of range of s8: 300
t.hlo:9:24: `f`: expected elements, found an elided constant
  hint: print the module with its large constants
t.hlo:10:11: `g`: expected a non-negative integer, found `-1`
t.hlo:11:22: `h`: expected an element, found an unclosed string",
    );
}

#[test]
fn wrong_annotations_are_named() {
    check_error(
        "  a = f32[4] parameter(0), sharding={manual}
  b = f32[4] parameter(1), sharding={devices=[4]<=[2]}
  c = f32[4] parameter(2), sharding={devices=[4]<=[4]T(1,0)}
  d = f32[4] parameter(3), sharding={{replicated}, {{replicated}}}
  e = f32[4] parameter(4), sharding={devices=[2,2]<=[4] last_tile_dims={manual}}
  f = f32[4] parameter(5), frontend_attributes={a=\"1\",a=\"2\"}
  g = f32[4] parameter(6), frontend_attributes={a=b}
  h = f32[4] custom-call(), custom_call_target=\"x\", custom_call_has_side_effect=1
",
        "t.hlo:4:38: `a`: expected `replicated`, `maximal` or `devices`, found `manual`
t.hlo:5:38: `b`: expected 4 devices in a sharding, found 2
t.hlo:6:38: `c`: expected a permutation of 1 dimensions, found [1, 0]
t.hlo:7:53: `d`: expected `replicated`, `maximal` or `devices`, found `{`
t.hlo:8:57: `e`: expected `}`, found `last_tile_dims`
t.hlo:9:55: `f`: duplicate frontend attribute `a`
t.hlo:10:51: `g`: expected a string or a closed group in braces, found `b`
t.hlo:11:81: `h`: expected true or false, found `1`",
    );
}

fn check_module_error(source: &str, expect: &str) {
    assert_eq!(parse(source, "t.hlo").unwrap_err().to_string(), expect);
}

#[test]
fn computations_are_resolved_by_name() {
    let f = |name: &str, callee: &str| {
        format!("{name} {{\n x = f32[] parameter(0)\n r = f32[] call(x), to_apply={callee}\n}}\n")
    };
    check_module_error(
        &format!("HloModule m\n{}{}", f("first", "secnd"), f("second", "first")),
        "t.hlo:4:30: unknown computation: secnd\n  hint: did you mean `second`?",
    );
    check_module_error(
        &format!("HloModule m\n{}{}", f("first", "second"), f("second", "first")),
        "t.hlo:2:1: `first`: recursive call cycle: first -> second -> first",
    );
    let leaf = |name: &str| format!("{name} {{\n x = f32[] parameter(0)\n}}\n");
    check_module_error(
        &format!("HloModule m\n{}{}", leaf("a"), leaf("b")),
        "t.hlo:1:1: expected one computation marked `ENTRY`, found none among 2",
    );
    check_module_error(
        &format!("HloModule m\n{}{}", leaf("ENTRY a"), leaf("a")),
        "t.hlo:5:1: `a`: duplicate computation name; first defined at line 2",
    );
    assert!(parse(&format!("HloModule m\n{}", leaf("only")), "t.hlo").is_ok());
    check_module_error("", "t.hlo:1:1: expected `HloModule`, found the end of the text");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "(".repeat(100_000);
    check_error(
        &format!("  x = {deep} parameter(0)\n"),
        "t.hlo:4:39: `x`: expected at most 32 nested tuples, found more",
    );
}

#[test]
fn every_opcode_reads_back() {
    let steps: Vec<_> = Opcode::ALL.iter().map(|&opcode| (opcode, 7)).collect();
    let module = module(&steps);
    assert_eq!(parse(&print(&module), "t.hlo").as_ref(), Ok(module.module()));
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(module in modules()) {
        prop_assert_eq!(parse(&print(&module), "t.hlo").unwrap(), module.into_module());
    }

    #[test]
    fn no_damage_makes_the_parser_panic(
        module in modules(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..8, "[ -~\n]{0,4}"), 1..4),
    ) {
        let mut text = print(&module);
        for (at, length, replacement) in cuts {
            let start = at.index(text.len().max(1));
            let end = (start + length).min(text.len());
            text.replace_range(start..end, &replacement);
        }
        if let Ok(module) = parse(&text, "t.hlo") {
            let _ = verify(module);
        }
    }
}

/// What verification says of a module with these lines as its entry.
fn check_refused(body: &str, expect: &str) {
    let source = format!(
        "HloModule m\n\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] custom-call(a, b), custom_call_target=\"t\"\n}}\n\nENTRY main {{\n{body}}}\n"
    );
    let found = parse(&source, "t.hlo").and_then(verify).unwrap_err().to_string();
    assert!(found.ends_with(expect), "{found}");
}

#[test]
fn what_xla_would_abort_on_is_refused() {
    let x = "  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n  i = s32[] constant(0)\n  j = s64[] constant(0)\n";
    let check = |line: &str, expect: &str| check_refused(&format!("{x}  ROOT y = {line}\n"), expect);
    check(
        "f32[3] pad(x, z), padding=-9223372036854775808_9223372036854775807",
        "expected padding of at most 1152921504606846976, found -9223372036854775808_9223372036854775807",
    );
    check(
        "f32[1] slice(x), slice={[0:4:9223372036854775807]}",
        "slice [0:4:9223372036854775807] is out of bounds of size 4",
    );
    check(
        "f32[] reduce(x, z), dimensions={0}, to_apply=add",
        "expected no custom-call in a reducer, found `c`",
    );
    check(
        "f32[4611686018427387904,0] broadcast(z), dimensions={}",
        "expected at most 2^60 bytes, found f32[4611686018427387904,0]",
    );
    check_refused(
        "  x = f32[4,4] parameter(0)\n  i = s32[] constant(0)\n  j = s64[] constant(0)\n  \
         ROOT y = f32[1,1] dynamic-slice(x, i, j), dynamic_slice_sizes={1,1}\n",
        "expected start indices of one type, found s32[] and s64[]",
    );
    check(
        "f32[4] custom-call(x), custom_call_target=\"TopK\"",
        "expected values and indices as the result, found f32[4]",
    );
    check("f32[4] custom-call(), custom_call_target=\"Sharding\"", "expected 1 operands, found 0");
    check_refused(
        "  t = (f32[]) parameter(0)\n  ROOT x = f32[] parameter(1)\n",
        "expected arrays or one tuple of arrays as parameters of the entry, found (f32[])",
    );
}

#[test]
fn a_tuple_of_tuples_stays_small() {
    let shape = format!("({})", vec!["f32[]"; 1000].join(", "));
    let body = format!("  x = {shape} parameter(0)\n  ROOT y = () tuple({})\n", vec!["x"; 1000].join(", "));
    check_refused(&body, "expected at most 65536 arrays and tuples in a tuple, found more");
}
