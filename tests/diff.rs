//! `hloom diff`: what it prints, its exit codes, and that no change of names or order is a difference.

use hloom::{
    diff::{Ignore, IgnoreSet, diff},
    hlo::raw::{self, AttrName, CompId, Module},
};
use serde_json::Value;

use crate::support::{
    Random,
    world::{Ran, World},
};

const BEFORE: &str = "HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
body {
  t = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8,4] get-tuple-element(t), index=1
  sum = f32[8,4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  ROOT r = (s32[], f32[8,4]) tuple(next, sum)
}
condition {
  t = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[8,4] negate(x), sharding={devices=[2,1]<=[2]}
  zero = s32[] constant(0)
  init = (s32[], f32[8,4]) tuple(zero, y)
  loop = (s32[], f32[8,4]) while(init), condition=condition, body=body
  ROOT out = f32[8,4] get-tuple-element(loop), index=1
}
";

/// The same with other names, another layout, sharded along the other dimension, and a copy in the loop.
fn after() -> String {
    let after =
        BEFORE.replace("devices=[2,1]", "devices=[1,2]").replace("f32[8,4] negate", "f32[8,4]{0,1} negate");
    let after = after.replace("all-reduce(x)", "all-reduce(copied)").replace("init", "state");
    after.replace("  sum =", "  copied = f32[8,4] copy(x)\n  sum =")
}

const TEXT: &str = "\
before  before.hlo  m
after   after.hlo  m
ignored ids, names, order, layouts, metadata

different
  instructions  3 changed, 0 removed, 1 added
  computations  2 changed, 0 removed, 0 added, 2 equal

                                                before        after   difference
instructions                                        20           21           +1
computations                                         4            4            =
elementwise operations                         32 FLOP      32 FLOP            =
bytes read and written                         2.04 kB      3.58 kB      +75.3 %
collectives run                                      6            6            =
bytes of their full arrays                       768 B        768 B            =
instructions by opcode
  copy                                               0            1           +1

ENTRY %main: 2 changed, 4 unchanged
  2 instructions, sharding: {devices=[2,1]<=[2]} -> {devices=[1,2]<=[2]}
    %x, %y

%body: run 6 times, 1 changed, 1 added, 6 unchanged
  %sum, operand 0: get-tuple-element -> copy
  + %copied = f32[8,4] copy(%x)
";

#[test]
fn differences_are_printed_with_a_summary_first() {
    let world = World::new();
    world.write("before.hlo", BEFORE);
    world.write("after.hlo", after());
    let Ran { code, out, err } = world.hloom("diff before.hlo after.hlo");
    assert_eq!((out.as_str(), err.as_str(), code), (TEXT, "", Some(1)));
    assert!(out.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn meshes_change_shardings_and_nothing_else() {
    let world = World::new();
    let configs = concat!(env!("CARGO_MANIFEST_DIR"), "/mesh-configs");
    for (mesh, file) in [("fsdp8", "a.hlo"), ("data2-fsdp2-tensor2", "b.hlo")] {
        let mesh = format!("--mesh {configs}/{mesh}.toml");
        world.succeeds(&format!("dump --model tiny --batch 8 --target cpu:8 {mesh} --out {file}"));
    }
    world.succeeds("dump --model tiny --batch 8 --target cpu:8 --out plain.hlo");
    let Ran { code, out, .. } = world.hloom("diff a.hlo b.hlo");
    assert_eq!(code, Some(1));
    assert!(out.contains(" changed, 0 removed, 0 added\n"), "{out}");
    let group =
        " instructions, sharding: [{}, {}, {}, {}] -> [{}, {}, {\"tensor\"}, {}]\n    %q_proj.lora_B.";
    assert!(out.contains(group), "{out}");
    for file in ["a.hlo", "b.hlo"] {
        let out = world.succeeds(&format!("diff plain.hlo {file} --ignore shardings"));
        assert!(out.contains("\nequal\n"), "{out}");
    }
}

#[test]
fn equal_modules_are_success_and_invalid_ones_are_bad_input() {
    let world = World::new();
    world.write("before.hlo", BEFORE);
    world.write("after.hlo", BEFORE.replace("body {", "loop_body {").replace("=body", "=loop_body"));
    let out = world.succeeds("diff before.hlo after.hlo");
    assert!(out.contains("\nequal\n"), "{out}");
    let Ran { code, .. } = world.hloom("diff before.hlo after.hlo --keep names");
    assert_eq!(code, Some(1));
    world.write("after.hlo", after());
    world.write("nothing.hlo", "");
    let Ran { code, .. } = world.hloom("diff before.hlo after.hlo --ignore shardings");
    assert_eq!(code, Some(1), "the copy is left");
    world.refuses(
        "diff before.hlo nothing.hlo",
        "error: cannot read: nothing.hlo\n  caused by: expected HLO text or an HLO proto, found an empty file\n  hint: the download was interrupted or the disk was full: download \
         the file again\n",
    );
    world.refuses(
        "diff before.hlo missing.hlo",
        "error: cannot read: missing.hlo\n  caused by: No such file or directory (os error 2)\n",
    );
    let Ran { code, err, .. } = world.hloom("diff before.hlo after.hlo --ignore colors");
    assert_eq!(code, Some(2));
    assert!(err.contains("possible values: ids, names, order, layouts, metadata, shardings"), "{err}");
}

#[test]
fn the_json_object_has_every_change() {
    let world = World::new();
    world.write("before.hlo", BEFORE);
    world.write("after.hlo", after());
    let Ran { code, out, err } = world.hloom("diff before.hlo after.hlo --json");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, err.as_str(), &object["equal"]), (Some(1), "", &Value::Bool(false)));
    assert_eq!(object["ignored"], serde_json::json!(["ids", "names", "order", "layouts", "metadata"]));
    assert_eq!((&object["changed"], &object["removed"], &object["added"]), (&3.into(), &0.into(), &1.into()));
    assert_eq!(object["computations"][0]["before"], "main");
    let expect = serde_json::json!({
        "before": "y", "after": "y", "opcode": "negate", "op_name": null,
        "changes": [{"part": "sharding", "before": "{devices=[2,1]<=[2]}", "after": "{devices=[1,2]<=[2]}"}],
    });
    assert_eq!(object["computations"][0]["changed"][1], expect);
    assert_eq!(object["computations"][1]["added"][0]["name"], "copied");
    let expect = serde_json::json!([
        {"kind": "all-reduce", "bytes": 128, "groups": "1 group of 2: 0,1", "before": 6.0, "after": 6.0}
    ]);
    assert_eq!(object["collectives"], expect);
}

/// The numbers below the length in a random order, each after those that it depends on.
fn random_order(dependencies: &[Vec<usize>], random: &mut Random) -> Vec<usize> {
    let mut missing: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let mut users = vec![Vec::new(); dependencies.len()];
    for (user, dependencies) in dependencies.iter().enumerate() {
        dependencies.iter().for_each(|&dependency| users[dependency].push(user));
    }
    let mut ready: Vec<usize> = (0..missing.len()).filter(|&index| missing[index] == 0).collect();
    let mut order = Vec::new();
    while !ready.is_empty() {
        let index = ready.swap_remove(random.below(ready.len()));
        order.push(index);
        for &user in &users[index] {
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.push(user);
            }
        }
    }
    order
}

/// The text of a computation with random names, in a random order.
fn reordered_computation(module: &Module, id: CompId, random: &mut Random) -> String {
    let instrs: Vec<_> = module.instructions(id).collect();
    let operands =
        instrs.iter().map(|instr| instr.operands().iter().map(|operand| operand.index()).collect());
    let order = random_order(&operands.collect::<Vec<_>>(), random);
    let names = random.shuffled(&(0..instrs.len()).collect::<Vec<_>>());
    let mut text = String::new();
    for index in order {
        let instr = instrs[index];
        let operands = instr.operands().iter().map(|operand| format!("%i{}", names[operand.index()]));
        let operands: Vec<String> = operands.collect();
        let root = if module.root(id).index() == index { "ROOT " } else { "" };
        let (shape, payload) = (module.shapes().text(instr.shape()), instr.payload());
        let (opcode, operands) = (instr.opcode_text(), operands.join(", "));
        text.push_str(&format!("  {root}%i{} = {shape} {opcode}({payload}{operands})", names[index]));
        for (spelling, value) in instr.attrs() {
            let attr = AttrName::ALL.iter().copied().find(|attr| attr.name() == spelling);
            let callees = attr.into_iter().flat_map(|attr| instr.called(attr));
            let callees: Vec<String> = callees.map(|callee| format!("%c{}", callee.index())).collect();
            let value = match callees.len() {
                0 if spelling == "metadata" => format!("{{op_name=\"{index}\"}}"),
                0 => value.to_owned(),
                _ if value.trim_start().starts_with('{') => format!("{{{}}}", callees.join(", ")),
                _ => callees[0].clone(),
            };
            text.push_str(&format!(", {spelling}={value}"));
        }
        text.push('\n');
    }
    text
}

/// The text of a module with other names, its instructions and computations in another order that defines before it uses.
fn renamed_and_reordered(module: &Module, random: &mut Random) -> String {
    let ids: Vec<CompId> = module.ids().collect();
    let callees = |&id: &CompId| {
        let callees = module.instructions(id).flat_map(|instr| instr.callees());
        callees.map(|(_, callee)| callee.index()).collect()
    };
    let order = random_order(&ids.iter().map(callees).collect::<Vec<_>>(), random);
    let mut text = format!("HloModule {}x", module.name());
    let attrs = [
        AttrName::NumPartitions,
        AttrName::ReplicaCount,
        AttrName::InputOutputAlias,
        AttrName::FrontendAttributes,
    ];
    for attr in attrs {
        text.extend(module.attr(attr).map(|value| format!(", {}={value}", attr.name())));
    }
    for index in order {
        let entry = if ids[index] == module.entry() { "ENTRY " } else { "" };
        let body = reordered_computation(module, ids[index], random);
        text.push_str(&format!("\n\n{entry}%c{index} {{\n{body}}}"));
    }
    text
}

#[test]
fn a_module_equals_itself_under_other_names_and_in_another_order() {
    let world = World::new();
    let mesh = concat!(env!("CARGO_MANIFEST_DIR"), "/mesh-configs/fsdp8.toml");
    let step = world.succeeds(&format!("dump --model tiny --target cpu:8 --mesh {mesh}"));
    let every_opcode = include_str!("every_opcode.hlo").to_owned();
    let mut random = Random::named("diff");
    for (file, text) in [("step", step), ("every_opcode", every_opcode), ("before", BEFORE.to_owned())] {
        let read =
            |text: String| raw::parse(text, file).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let module = read(text);
        for _ in 0..3 {
            let other = read(renamed_and_reordered(&module, &mut random));
            let found = diff(&module, &other, IgnoreSet::default());
            assert!(found.equal && found.computations.is_empty(), "{file}");
            assert!(found.removed.is_empty() && found.added.is_empty(), "{file}");
            for kept in [Ignore::Names, Ignore::Order] {
                let found = diff(&module, &other, IgnoreSet::default().without(kept));
                assert!(!found.equal, "{file}, {} kept", kept.name());
            }
        }
        // One instruction that computes something else is found wherever it is.
        let text = raw::print(&module);
        let sites: Vec<usize> = text.match_indices(" add(").map(|(at, _)| at).collect();
        for _ in 0..5 {
            let at = sites[random.below(sites.len())];
            let changed = read(format!("{} subtract({}", &text[..at], &text[at + " add(".len()..]));
            let found = diff(&module, &changed, IgnoreSet::default());
            let changes: usize = found.computations.iter().map(|computation| computation.len()).sum();
            assert!(changes == 1 && !found.equal, "{file}: {changes} changes at {at}");
        }
    }
}
