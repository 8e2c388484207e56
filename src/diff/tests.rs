use super::*;
use crate::hlo::raw::parse;

fn module(text: &str) -> Module {
    parse(text, "test.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// One change of an instruction: its name before and after, and what changed.
fn changes(found: &ModuleDiff<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for computation in &found.computations {
        for instr in &computation.changed {
            for Change { part, before, after } in &instr.changes {
                let text = |value: &Option<_>| value.as_deref().unwrap_or("none").to_owned();
                let (before, after) = (text(before), text(after));
                lines.push(format!(
                    "{}/{} {part:?} {before} -> {after}",
                    instr.before.name(),
                    instr.after.name()
                ));
            }
        }
        lines.extend(computation.root.map(|[x, y]| format!("ROOT {} -> {}", x.name(), y.name())));
        lines.extend(computation.removed.iter().map(|instr| format!("- {}", instr.name())));
        lines.extend(computation.added.iter().map(|instr| format!("+ {}", instr.name())));
    }
    lines
}

#[track_caller]
fn check(ignored: IgnoreSet, before: &str, after: &str, expect: &[&str]) {
    let (a, b) = (module(before), module(after));
    let found = diff(&a, &b, ignored);
    assert_eq!(changes(&found), expect);
    assert_eq!(found.equal, expect.is_empty() && found.module.is_empty());
    // What was removed one way was added the other way.
    let back = diff(&b, &a, ignored);
    let count = |found: &ModuleDiff<'_>, part: fn(&ChangedComputation<'_>) -> usize| -> usize {
        found.computations.iter().map(part).sum()
    };
    assert_eq!(count(&found, |one| one.removed.len()), count(&back, |one| one.added.len()));
    assert_eq!(found.equal, back.equal);
    for same in [&a, &b] {
        let same = diff(same, same, ignored);
        assert!(same.equal && same.computations.is_empty(), "{:?}", changes(&same));
    }
}

#[track_caller]
fn compare(before: &str, after: &str, expect: &[&str]) {
    check(IgnoreSet::default(), before, after, expect);
}

/// An entry computation with these instructions.
fn entry(body: &str) -> String {
    format!("HloModule m\nENTRY e {{ {body} }}")
}

const SUM: &str =
    "x = f32[8] parameter(0) y = f32[8] parameter(1) z = f32[8] negate(y) ROOT s = f32[8] add(x, z)";

#[test]
fn names_and_order_are_ignored_unless_they_are_kept() {
    let other =
        "b = f32[8] parameter(1) c = f32[8] negate(b) a = f32[8] parameter(0) ROOT t = f32[8] add(a, c)";
    compare(&entry(SUM), &entry(other), &[]);
    let names = IgnoreSet::default().without(Ignore::Names);
    check(names, &entry(SUM), &entry(&SUM.replace("z", "zz")), &["z/zz Name z -> zz"]);
    let order = IgnoreSet::default().without(Ignore::Order);
    check(order, &entry(SUM), &entry(other), &["x/a Order none -> none"]);
}

#[test]
fn operands_of_commutative_opcodes_are_not_reordered() {
    compare(
        &entry(SUM),
        &entry(&SUM.replace("add(x, z)", "add(z, x)")),
        &["s/s Operand(0) parameter -> negate", "s/s Operand(1) negate -> parameter"],
    );
}

#[test]
fn layouts_are_ignored_unless_they_are_kept() {
    let with = |layout: &str| entry(&SUM.replace("f32[8] negate", &format!("f32[8]{layout} negate")));
    compare(&with("{0}"), &with("{0:T(8)S(1)}"), &[]);
    let layouts = IgnoreSet::default().without(Ignore::Layouts);
    check(layouts, &with("{0}"), &with("{0:T(8)S(1)}"), &["z/z Shape f32[8]{0} -> f32[8]{0:T(8)S(1)}"]);
    let tuple = "t = (f32[8,8]{1,0}, f32[]) parameter(0) ROOT g = f32[] get-tuple-element(t), index=1";
    compare(&entry(tuple), &entry(&tuple.replace("{1,0}", "{0,1}")), &[]);
}

#[test]
fn a_changed_shape_is_shown_where_it_is_and_downstream() {
    compare(
        &entry(SUM),
        &entry(&SUM.replace("8", "9")),
        &[
            "x/x Shape f32[8] -> f32[9]",
            "y/y Shape f32[8] -> f32[9]",
            "z/z Shape f32[8] -> f32[9]",
            "s/s Shape f32[8] -> f32[9]",
        ],
    );
}

#[test]
fn parameters_have_numbers() {
    let swapped = SUM.replace("parameter(0)", "parameter(2)").replace("parameter(1)", "parameter(0)");
    let swapped = swapped.replace("parameter(2)", "parameter(1)");
    // By number: `x` is now where `y` was.
    compare(
        &entry(SUM),
        &entry(&swapped),
        &["z/z Operand(0) parameter(1) -> parameter(0)", "s/s Operand(0) parameter(0) -> parameter(1)"],
    );
}

#[test]
fn instructions_appear_and_go() {
    let inserted = SUM.replace("add(x, z)", "add(x, c)").replace("ROOT", "c = f32[8] copy(z) ROOT");
    compare(&entry(SUM), &entry(&inserted), &["s/s Operand(1) negate -> copy", "+ c"]);
    compare(&entry(&inserted), &entry(SUM), &["s/s Operand(1) copy -> negate", "- c"]);
}

#[test]
fn an_instruction_that_took_the_place_of_another_one_has_another_opcode() {
    let chain = "x = f32[8] parameter(0) a = f32[8] negate(x) b = f32[8] negate(a) ROOT r = f32[8] tanh(b)";
    compare(
        &entry(chain),
        &entry(&chain.replace("negate", "cosine")),
        &["a/a Opcode negate -> cosine", "b/b Opcode negate -> cosine"],
    );
    let other_shape = "x = f32[8] parameter(0) a = f32[8] negate(x) ROOT r = f64[8] convert(a)";
    compare(
        &entry("x = f32[8] parameter(0) ROOT a = f32[8] negate(x)"),
        &entry(other_shape),
        &["ROOT a -> r", "+ r"],
    );
}

#[test]
fn another_root_is_a_change() {
    let body = "x = f32[8] parameter(0) ROOT a = f32[8] negate(x) b = f32[8] copy(a)";
    let other = body.replace("ROOT ", "").replace("b =", "ROOT b =");
    compare(&entry(body), &entry(&other), &["ROOT a -> b"]);
}

#[test]
fn a_value_that_is_computed_twice_is_not_one_that_is_computed_once() {
    let once = "x = f32[] parameter(0) a = f32[] negate(x) ROOT r = f32[] add(a, a)";
    let twice = "x = f32[] parameter(0) a = f32[] negate(x) b = f32[] negate(x) ROOT r = f32[] add(a, b)";
    compare(&entry(once), &entry(twice), &["+ b"]);
}

#[test]
fn attributes_are_compared_by_name_and_value() {
    let slice = |attrs: &str| entry(&format!("x = f32[8,8] parameter(0) ROOT y = f32[8,8] copy(x){attrs}"));
    let config = |config: &str| slice(&format!(", backend_config={config}"));
    compare(&config(r#"{"a": 1, "b":[2]}"#), &config(r#"{"a":1,"b":[2]}"#), &[]);
    let expect = [r#"y/y Attribute("backend_config") {"a":1} -> {"a":2}"#];
    compare(&config(r#"{"a":1}"#), &config(r#"{"a":2}"#), &expect);
    check(
        IgnoreSet::default().with(Ignore::BackendConfig),
        &config(r#"{"a":1}"#),
        &config(r#"{"a":2}"#),
        &[],
    );
    compare(&slice(r#", metadata={op_name="a"}"#), &slice(r#", metadata={op_name="b"}"#), &[]);
    compare(
        &slice(r#", frontend_attributes={a="1",b="2"}"#),
        &slice(r#", frontend_attributes={a="1",c="2"}"#),
        &[r#"y/y Attribute("b") "2" -> none"#, r#"y/y Attribute("c") none -> "2""#],
    );
}

#[test]
fn shardings_have_one_change_that_names_axes_where_it_can() {
    let sharded = |hlo: &str, shardy: &str| {
        entry(&format!(
            "x = f32[8,8] parameter(0) ROOT y = f32[8,8] copy(x), sharding={{{hlo}}}, frontend_attributes={{xla.sdy.sharding=\"{shardy}\"}}"
        ))
    };
    let a = sharded("devices=[8,1]<=[8]", "#sdy.sharding_per_value<[<@mesh, [{\\\"fsdp\\\"}, {}]>]>");
    let b = sharded("devices=[1,8]<=[8]", "#sdy.sharding<@mesh, [{}, {\\\"fsdp\\\"}]>");
    compare(&a, &b, &[r#"y/y Sharding [{"fsdp"}, {}] -> [{}, {"fsdp"}]"#]);
    check(IgnoreSet::default().with(Ignore::Shardings), &a, &b, &[]);
    let c = a.replace("[8,1]<=[8]", "[4,1]<=[4]");
    compare(&a, &c, &["y/y Sharding {devices=[8,1]<=[8]} -> {devices=[4,1]<=[4]}"]);
}

#[test]
fn annotations_of_shardings_hide_nothing_that_they_annotate() {
    let plain = "x = f32[8] parameter(0) y = f32[8] negate(x) ROOT z = f32[8] add(y, x)";
    let annotated = "x = f32[8] parameter(0) y = f32[8] negate(x) \
        s = f32[8] custom-call(y), custom_call_target=\"Sharding\", sharding={replicated} \
        t = f32[8] custom-call(s), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]} ROOT z = f32[8] add(t, x)";
    compare(&entry(plain), &entry(annotated), &["+ s", "+ t"]);
    let ignored = IgnoreSet::default().with(Ignore::Shardings);
    check(ignored, &entry(plain), &entry(annotated), &[]);
    check(
        ignored,
        &entry(plain),
        &entry(&annotated.replace("negate", "cosine")),
        &["y/y Opcode negate -> cosine"],
    );
    // An annotation in both is an operand like any other.
    compare(
        &entry(annotated),
        &entry(&annotated.replace("add(t, x)", "add(s, x)")),
        &["z/z Operand(0) %t -> %s"],
    );
    let other_target = annotated.replace("\"Sharding\"", "\"Other\"");
    check(
        ignored,
        &entry(plain),
        &entry(&other_target),
        &["z/z Operand(0) negate -> custom-call", "+ s", "+ t"],
    );
    let root = "x = f32[8] parameter(0) ROOT y = f32[8] negate(x)";
    let annotated_root =
        root.replace("ROOT ", "") + " ROOT s = f32[8] custom-call(y), custom_call_target=\"Sharding\"";
    check(ignored, &entry(root), &entry(&annotated_root), &[]);
}

#[test]
fn constants_are_compared_by_value_and_unknown_where_a_text_leaves_them_out() {
    let constant = |literal: &str| entry(&format!("ROOT c = f32[3] constant({literal})"));
    compare(&constant("{1, 2, 3}"), &constant("{1.0, 2e0, 3}"), &[]);
    compare(&constant("{1, 2, 3}"), &constant("{1, 2, 4}"), &["c/c Constant {1, 2, 3} -> {1, 2, 4}"]);
    compare(&constant("{1, 2, 3}"), &constant("{...}"), &[]);
    let (a, b) = (module(&constant("{1, 2, 3}")), module(&constant("{...}")));
    assert_eq!(diff(&a, &b, IgnoreSet::default()).unknown_constants, [1, 1]);
    assert_eq!(diff(&a, &a, IgnoreSet::default()).unknown_constants, [0, 0]);
}

fn calling(body: &str) -> String {
    format!(
        "f {{ p = f32[8] parameter(0) {body} }}\nENTRY e {{ x = f32[8] parameter(0) ROOT c = f32[8] call(x), to_apply=f }}"
    )
}

#[test]
fn a_changed_callee_is_shown_as_itself() {
    let (negate, cosine) = (calling("ROOT n = f32[8] negate(p)"), calling("ROOT n = f32[8] cosine(p)"));
    compare(&negate, &cosine, &["n/n Opcode negate -> cosine"]);
    let (a, b) = (module(&negate), module(&cosine));
    let found = diff(&a, &b, IgnoreSet::default());
    assert_eq!((found.computations.len(), found.equal_computations), (2, 0));
    assert!(found.computations[0].is_empty() && found.computations[0].unchanged == 2);
    compare(&negate, &negate.replace("f {", "g {").replace("=f", "=g"), &[]);
}

#[test]
fn another_callee_is_shown_at_its_caller() {
    let text = |second: &str| {
        format!(
            "f {{ p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }}\ng {{ p = f32[8] parameter(0) ROOT n = f32[8] cosine(p) }}\n\
             ENTRY e {{ x = f32[8] parameter(0) y = f32[8] call(x), to_apply=f z = f32[8] call(y), to_apply=g \
             ROOT w = f32[8] call(z), to_apply={second} }}"
        )
    };
    compare(&text("f"), &text("g"), &[r#"w/w Callee("to_apply") %f -> %g"#]);
}

#[test]
fn equal_computations_are_paired_by_their_callers() {
    let text = |changed: &str| {
        let body = |name: &str| {
            let opcode = if name == changed { "cosine" } else { "negate" };
            format!("{name} {{ p = f32[8] parameter(0) ROOT n = f32[8] {opcode}(p) }}\n")
        };
        let bodies = ["f", "g", "h"].map(body).concat();
        format!(
            "{bodies}ENTRY e {{ x = f32[8] parameter(0) y = f32[8] call(x), to_apply=f z = f32[8] call(y), to_apply=g \
             ROOT w = f32[8] call(z), to_apply=h }}"
        )
    };
    let (a, b) = (module(&text("")), module(&text("g")));
    let found = diff(&a, &b, IgnoreSet::default());
    assert!(found.removed.is_empty() && found.added.is_empty());
    let names = |one: &ChangedComputation<'_>| {
        (a.computation_name(one.before).to_owned(), b.computation_name(one.after).to_owned(), one.len())
    };
    let names: Vec<_> = found.computations.iter().map(names).collect();
    assert_eq!(names, [("e".into(), "e".into(), 0), ("g".into(), "g".into(), 1)]);
}

#[test]
fn operands_of_a_fusion_follow_the_parameters_of_its_computation() {
    let text = |parameters: &str, root: &str, operands: &str| {
        format!(
            "f {{ {parameters} n = f32[8] negate(q) ROOT r = f32[8] {root}(p, n) }}\nENTRY e {{ x = f32[8] parameter(0) \
             y = f32[8] parameter(1) ROOT z = f32[8] fusion({operands}), kind=kLoop, calls=f }}"
        )
    };
    let a = text("p = f32[8] parameter(0) q = f32[8] parameter(1)", "add", "x, y");
    let b = text("p = f32[8] parameter(1) q = f32[8] parameter(0)", "add", "y, x");
    let moved = ["p/p ParameterNumber none -> none", "q/q ParameterNumber none -> none"];
    compare(&a, &b, &moved);
    let c =
        text("p = f32[8] parameter(0) q = f32[8] parameter(2) unused = f32[] parameter(1)", "add", "x, o, y")
            .replace("ROOT z", "o = f32[] constant(1) ROOT z");
    compare(&a, &c, &["z/z Operand(1) none -> %o", "+ o", "q/q ParameterNumber none -> none", "+ unused"]);
}

#[test]
fn a_computation_that_nothing_calls_appears_or_goes() {
    let text =
        format!("lonely {{ ROOT c = f32[] constant(1) }}\n{}", entry(SUM).replace("HloModule m\n", ""));
    let (a, b) = (module(&entry(SUM)), module(&text));
    let found = diff(&a, &b, IgnoreSet::default());
    assert!(found.equal && found.removed.is_empty());
    let names: Vec<&str> = found.added.iter().map(|&id| b.computation_name(id)).collect();
    assert_eq!(names, ["lonely"]);
}

#[test]
fn attributes_of_the_module_that_change_its_meaning_are_compared() {
    let text = |attrs: &str| format!("HloModule m{attrs}\nENTRY e {{ ROOT x = f32[8] parameter(0) }}");
    let changed = |ignored, before: &str, after: &str| -> Vec<String> {
        let (a, b) = (module(&text(before)), module(&text(after)));
        let found = diff(&a, &b, ignored);
        assert_eq!(found.equal, found.module.is_empty());
        found.module.iter().map(|change| format!("{:?}", change.part)).collect()
    };
    let usual = IgnoreSet::default();
    assert_eq!(changed(usual, ", num_partitions=1", ""), [""; 0]);
    assert_eq!(changed(usual, ", num_partitions=8", ""), [r#"Attribute("num_partitions")"#]);
    assert_eq!(changed(usual, ", input_output_alias={ {}: (0, {}, may-alias) }", "").len(), 1);
    let layout = ", entry_computation_layout={(f32[8]{0})->f32[8]{0}}";
    assert_eq!(changed(usual, layout, ""), [""; 0]);
    assert_eq!(changed(usual.without(Ignore::Layouts), layout, "").len(), 1);
    let meshes =
        r#", frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>},fingerprint_before_lhs="1"}"#;
    assert_eq!(
        changed(usual, meshes, &meshes.replace("=8", "=4").replace("\"1\"", "\"2\"")),
        [r#"Attribute("xla.sdy.meshes")"#]
    );
    assert_eq!(changed(usual.with(Ignore::Shardings), meshes, ""), [""; 0]);
}

#[test]
fn groups_of_devices_are_compared_as_lists() {
    let text = |groups: &str| {
        format!(
            "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\nENTRY e {{ \
             x = f32[8] parameter(0) ROOT r = f32[8] all-reduce(x), replica_groups={groups}, to_apply=add }}"
        )
    };
    compare(&text("[2,2]<=[4]"), &text("{{0,1},{2,3}}"), &[]);
    let expect = [r#"r/r Attribute("replica_groups") [2,2]<=[4] -> {{0,2},{1,3}}"#];
    compare(&text("[2,2]<=[4]"), &text("{{0,2},{1,3}}"), &expect);
    let (a, b) = (module(&text("[2,2]<=[4]")), module(&text("{{0,2},{1,3}}")));
    let side_by_side = diff(&a, &b, IgnoreSet::default()).side_by_side;
    let counts: Vec<_> =
        side_by_side.collectives.iter().map(|one| (one.key.bytes, one.before, one.after)).collect();
    assert_eq!(counts, [(32, 1.0, 0.0), (32, 0.0, 1.0)]);
    assert_eq!(side_by_side.totals[0].collective_bytes, 32.0);
}

#[test]
fn control_predecessors_are_compared_with_order() {
    let text = |attr: &str| {
        entry(&format!(
            "x = f32[] parameter(0) y = f32[] negate(x) z = f32[] cosine(x){attr} ROOT w = f32[] add(y, z)"
        ))
    };
    compare(&text(""), &text(", control-predecessors={y}"), &[]);
    check(
        IgnoreSet::default().without(Ignore::Order),
        &text(""),
        &text(", control-predecessors={y}"),
        &[r#"z/z Attribute("control-predecessors") {} -> {y}"#],
    );
}

#[test]
fn equal_changes_are_one_group() {
    let (a, b) = (module(&entry(SUM)), module(&entry(&SUM.replace("8", "9"))));
    let found = diff(&a, &b, IgnoreSet::default());
    let groups = found.computations[0].groups();
    assert_eq!(groups.len(), 1);
    assert_eq!((groups[0].change.part.clone(), groups[0].instrs.len()), (ChangedPart::Shape, 4));
}

#[test]
fn a_chain_of_many_instructions_takes_neither_recursion_nor_long() {
    let chain = |changed: usize, count: usize| {
        let mut text = String::from("ENTRY e {\n  i0 = f32[8] parameter(0)\n");
        for index in 1..count {
            let opcode = if index == changed { "cosine" } else { "negate" };
            let root = if index + 1 == count { "ROOT " } else { "" };
            text.push_str(&format!("  {root}i{index} = f32[8] {opcode}(i{})\n", index - 1));
        }
        text + "}"
    };
    let (a, b) = (module(&chain(0, 100_000)), module(&chain(50_000, 100_000)));
    let start = std::time::Instant::now();
    let found = diff(&a, &b, IgnoreSet::default());
    assert!(start.elapsed().as_secs() < 20, "took {:?}", start.elapsed());
    let computation = &found.computations[0];
    assert_eq!((computation.len(), computation.changed.len()), (1, 1));
}
