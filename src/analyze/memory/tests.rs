use super::*;
use crate::hlo::raw::parse;

fn module(text: &str) -> Module {
    parse(text, "memory.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Checks the bytes in use at each position, in KiB rounded down: scalars and tables do not matter.
#[track_caller]
fn check(text: &str, expect: &[u64]) {
    let module = module(text);
    let curve = Memory::of(&module).curve(0);
    assert_eq!(curve.iter().map(|bytes| bytes / 1024).collect::<Vec<_>>(), expect);
}

#[test]
fn a_temporary_lives_from_its_definition_to_its_last_use() {
    check(
        "ENTRY e { x = f32[256] parameter(0) a = f32[512] concatenate(x, x), dimensions={0}\n\
         b = f32[768] concatenate(a, x), dimensions={0}\n ROOT c = f32[256] slice(b), slice={[0:256]} }",
        &[2, 4, 7, 5],
    );
}

#[test]
fn parameters_and_results_are_held_and_constants_are_not_counted() {
    let text = "HloModule m, is_scheduled=true\nENTRY e { k = f32[256] constant({...}) x = f32[256] parameter(0)\n\
                y = f32[512] concatenate(x, k), dimensions={0}\n ROOT z = f32[512] reverse(y), dimensions={0} }";
    check(text, &[3, 3, 5, 5]);
    let module = module(text);
    let memory = Memory::of(&module);
    assert!(memory.is_scheduled);
    assert_eq!(memory.total(BufferKind::Parameter, 0), 1024);
    assert_eq!(memory.total(BufferKind::Output, 0), 2048);
    assert_eq!(memory.total(BufferKind::Constant, 0), 1024);
    assert_eq!(memory.peak(0), Peak { bytes: 5120, position: 2 });
    let live: Vec<&str> = memory.live_at(0, 3).map(|buffer| buffer.instr.name()).collect();
    assert_eq!(live, ["z", "y", "x"], "the largest first");
}

#[test]
fn a_donated_parameter_has_the_memory_of_the_result() {
    let body = "ENTRY e { x = f32[256] parameter(0) k = f32[] parameter(1) ROOT y = f32[256] pad(x, k), padding=0_0 }";
    check(body, &[2, 2, 2]);
    check(&format!("HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}\n{body}"), &[1, 1, 1]);
}

#[test]
fn a_temporary_uses_a_result_that_has_no_value_yet() {
    check(
        "ENTRY e { x = f32[256] parameter(0) a = f32[256] reverse(x), dimensions={0}\n\
         b = f32[128] slice(a), slice={[0:128]}\n c = f32[512] concatenate(b, b, b, b), dimensions={0}\n\
         ROOT r = f32[512] reverse(c), dimensions={0} }",
        &[3, 3, 3, 5, 5],
    );
}

#[test]
fn tuples_and_bitcasts_are_other_names_of_their_operands() {
    check(
        "ENTRY e { x = f32[256] parameter(0) a = f32[512] concatenate(x, x), dimensions={0}\n\
         t = (f32[512], f32[256]) tuple(a, x) g = f32[512] get-tuple-element(t), index=0 b = f32[2,256] bitcast(g)\n\
         o = f32[2,256] opt-barrier(b) ROOT r = f32[] slice(o) , slice={} }",
        &[1, 3, 3, 3, 3, 3, 3],
    );
}

#[test]
fn an_elementwise_result_takes_over_an_operand_that_is_not_read_again() {
    let text = |last: &str| {
        format!(
            "add {{ a = f32[512] parameter(0) b = f32[512] parameter(1) ROOT c = f32[512] add(a, b) }}\n\
             ENTRY e {{ x = f32[256] parameter(0) a = f32[512] concatenate(x, x), dimensions={{0}}\n\
             b = f32[512] negate(a) c = f32[512] fusion(b, b), kind=kLoop, calls=add\n {last} }}"
        )
    };
    check(&text("ROOT r = f32[128] slice(c), slice={[0:128]}"), &[1, 3, 3, 3, 3]);
    check(&text("d = f32[512] add(b, c) ROOT r = f32[128] slice(d), slice={[0:128]}"), &[1, 3, 3, 5, 5, 3]);
}

#[test]
fn updates_and_fusions_that_end_in_one_are_in_place() {
    let text = |root: &str| {
        format!(
            "update {{ i = s32[] parameter(2) u = f32[1,256] parameter(1) s = f32[4,256] parameter(0)\n\
               n = f32[1,256] negate(u) z = s32[] constant(0) {root} }}\n\
             ENTRY e {{ u = f32[1,256] parameter(0) i = s32[] parameter(1) z = f32[] constant(0)\n\
               s = f32[4,256] broadcast(z), dimensions={{}} c = s32[] constant(0)\n\
               a = f32[4,256] dynamic-update-slice(s, u, i, c)\n\
               b = f32[4,256] fusion(a, u, i), kind=kLoop, calls=update\n\
               ROOT r = f32[] slice(b), slice={{}} }}"
        )
    };
    let update = "ROOT d = f32[4,256] dynamic-update-slice(s, n, i, z)";
    check(&text(update), &[1, 1, 1, 5, 5, 5, 5, 5]);
    let flat = "d = f32[4,256] dynamic-update-slice(s, n, i, z) ROOT b = f32[4,256] bitcast(d)";
    check(&text(flat), &[1, 1, 1, 5, 5, 5, 5, 5]);
    check(&text("ROOT d = f32[4,256] concatenate(n, n, n, u), dimensions={0}"), &[1, 1, 1, 5, 5, 5, 9, 5]);
}

#[test]
fn declared_aliases_are_in_place() {
    check(
        "ENTRY e { x = f32[256] parameter(0) c = f32[512] concatenate(x, x), dimensions={0}\n\
         g = (f32[512], s8[4096]) custom-call(x, c), custom_call_target=\"gemm\", output_to_operand_aliasing={{0}: (1, {})}\n\
         o = f32[512] get-tuple-element(g), index=0\n ROOT r = f32[] slice(o), slice={} }",
        &[1, 3, 7, 3, 3],
    );
}

const LOOP: &str = "
less { t = (s32[], f32[512], f32[256]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[512], f32[256]) parameter(0) i = s32[] get-tuple-element(t), index=0
  s = f32[512] get-tuple-element(t), index=1 w = f32[256] get-tuple-element(t), index=2
  a = f32[1024] concatenate(s, w, w), dimensions={0}
  n = f32[512] slice(a), slice={[0:512]}
  ROOT r = (s32[], f32[512], f32[256]) tuple(i, n, w) }
ENTRY e { x = f32[256] parameter(0) z = s32[] constant(0) s = f32[512] concatenate(x, x), dimensions={0}
  w = f32[256] reverse(x), dimensions={0}
  t = (s32[], f32[512], f32[256]) tuple(z, s, w)
  l = (s32[], f32[512], f32[256]) while(t), condition=less, body=body
  o = f32[512] get-tuple-element(l), index=1
  ROOT r = f32[] slice(o), slice={} }";

#[test]
fn a_loop_and_what_it_carries_share_memory() {
    // The carry has no value between the last use of one iteration's and the definition of the next.
    check(LOOP, &[1, 1, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 4, 4, 3, 3]);
    let module = module(LOOP);
    let memory = Memory::of(&module);
    let carry = memory.buffers.iter().find(|buffer| buffer.instr.name() == "s").unwrap();
    assert_eq!(carry.live, [(2, 18)]);
    let names: Vec<&str> = memory.positions.iter().map(|position| position.instr.name()).collect();
    assert_eq!(names[5..9], ["t", "i", "n", "c"], "the condition runs first");
    assert_eq!(names[16], "l", "the loop is behind its body");
}

#[test]
fn branches_of_a_conditional_use_memory_one_after_the_other() {
    check(
        "left { x = f32[256] parameter(0) a = f32[768] concatenate(x, x, x), dimensions={0}\n\
           ROOT r = f32[512] slice(a), slice={[0:512]} }\n\
         right { x = f32[256] parameter(0) ROOT r = f32[512] concatenate(x, x), dimensions={0} }\n\
         ENTRY e { x = f32[256] parameter(0) p = pred[] parameter(1)\n\
           c = f32[512] conditional(p, x, x), true_computation=left, false_computation=right\n\
           ROOT r = f32[] slice(c), slice={} }",
        &[1, 1, 1, 4, 6, 1, 3, 3, 3],
    );
}

#[test]
fn a_repeated_call_counts_with_the_peak_of_the_first() {
    check(
        "f { x = f32[256] parameter(0) a = f32[1024] concatenate(x, x, x, x), dimensions={0}\n\
           ROOT r = f32[] slice(a), slice={} }\n\
         ENTRY e { x = f32[256] parameter(0) a = f32[] call(x), to_apply=f b = f32[] call(x), to_apply=f\n\
           ROOT r = f32[] add(a, b) }",
        &[1, 1, 5, 5, 1, 5, 1],
    );
}

#[test]
fn asynchronous_operations_hold_their_operands_until_they_are_done() {
    let text = |start: &str, done: &str| {
        format!(
            "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
             ENTRY e {{ x = f32[256] parameter(0) a = f32[256] reverse(x), dimensions={{0}}\n {start}\n\
             y = f32[] slice(x), slice={{}} {done}\n ROOT r = f32[] slice(d), slice={{}} }}"
        )
    };
    let check = |start: &str, done: &str, expect: &[u64]| check(&text(start, done), expect);
    check(
        "s = (f32[256], f32[1024]) all-gather-start(a), dimensions={0}",
        "d = f32[1024] all-gather-done(s)",
        &[1, 2, 6, 6, 6, 5],
    );
    check(
        "s = ((f32[256]), f32[1024], s32[]) custom-call-start(a), custom_call_target=\"f\"",
        "d = f32[1024] custom-call-done(s)",
        &[1, 2, 6, 6, 6, 5],
    );
    check(
        "s = (f32[256]{0:S(5)}, f32[256], u32[]) copy-start(a)",
        "d = f32[256]{0:S(5)} copy-done(s)",
        &[1, 2, 2, 2, 2, 1],
    );
    check(
        "s = f32[256] all-reduce-start(a), to_apply=add",
        "d = f32[256] all-reduce-done(s)",
        &[1, 2, 2, 2, 2, 2],
    );
}

#[test]
fn memory_spaces_are_apart() {
    let module = module(
        "ENTRY e { x = f32[256] parameter(0) h = f32[256]{0:S(5)} copy(x) v = f32[256]{0:S(1)} copy(x)\n\
         w = f32[512]{0:S(1)} concatenate(v, v), dimensions={0} ROOT r = f32[256] copy(h) }",
    );
    let memory = Memory::of(&module);
    assert_eq!(memory.peak(0).bytes, 2048);
    assert_eq!(memory.peak(1).bytes, 3072);
    assert_eq!(memory.curve(5), [0, 1024, 1024, 1024, 1024]);
    assert_eq!(memory.peak(7), Peak { bytes: 0, position: 0 });
}

#[test]
fn text_that_contradicts_itself_does_not_panic() {
    for body in [
        "x = f32[4] parameter(0) ROOT g = f32[4] get-tuple-element(x), index=3",
        "x = (f32[4]) parameter(0) ROOT g = (f32[4], f32[4]) bitcast(x)",
        "x = f32[4] parameter(0) s = f32[4] all-gather-start(x), dimensions={0} ROOT d = f32[8] all-gather-done(s)",
        "x = f32[4] parameter(0) ROOT t = (f32[4], f32[4]) copy(x)",
        "x = f32[4] parameter(4294967296) ROOT r = f32[4611686018427387904,4] negate(x)",
    ] {
        let module = module(&format!("ENTRY e {{ {body} }}"));
        let _ = Memory::of(&module).peak(0);
    }
}
