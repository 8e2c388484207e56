//! Invalid mesh configs, as `check`, `explain` and the commands that run on a mesh report them.

use crate::support::world::World;

/// Right for the built-in model `tiny` on eight devices.
const MESH: &str = "[mesh]\nfsdp = 4\ntensor = 2\n\
                    [store]\nembed = \"fsdp\"\nmlp = \"tensor\"\n\
                    [compute]\nbatch = \"fsdp\"\nmlp = \"tensor\"\n";

/// Checks what `check` says first of the config in which `from` has become `to`, and that its answer is no.
#[track_caller]
fn check(from: &str, to: &str, flags: &str, expect: &str) {
    assert!(MESH.contains(from), "{from}");
    let world = World::new();
    world.write("m.toml", MESH.replacen(from, to, 1));
    let ran = world.hloom(&format!("check m.toml --model tiny --target cpu:8 {flags}"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out.starts_with(expect), "{}", ran.out);
}

#[test]
fn invalid_axes_are_reported() {
    check(
        "embed = \"fsdp\"",
        "embed = \"fdsp\"",
        "",
        "error[unknown-axis]: m.toml:5: `store.embed`: unknown mesh axis: fdsp\n  hint: did you mean `fsdp`?\n",
    );
    check(
        "mlp = \"tensor\"",
        "mlp = \"fsdp\"",
        "",
        "error[axis-conflict]: m.toml:5: `store.embed`: mesh axis fsdp (4) already shards mlp and cannot shard embed: \
         layers.*.mlp.gate_proj, layers.*.mlp.up_proj\n  hint: replicate one of the two with \"none\", by an [[override]] \
         if only for these tensors, or set `axis_conflict = \"replicate\"` under [policy] to replicate embed\n",
    );
}

#[test]
fn dimensions_that_cannot_be_sharded_are_reported() {
    check(
        "embed = ",
        "embd = ",
        "",
        "error[unknown-dim]: m.toml:5: `store.embd`: unknown dimension: embd\n  hint: did you mean `embed`?\n",
    );
    check(
        "mlp = \"tensor\"",
        "kv_heads = [\"tensor\", \"fsdp\"]",
        "",
        "error[indivisible]: m.toml:6: `store.kv_heads`: kv_heads of 2 cannot be sharded over tensor (2) x fsdp (4): \
         layers.*.self_attn.k_proj, layers.*.self_attn.v_proj, layers.*.self_attn.k_proj.lora_B and 5 more\n  \
         hint: it can be sharded into 1 or 2; or write `kv_heads = \"none\"`, or set `indivisible = \"replicate\"` or \
         `\"pad\"` under [policy]\n",
    );
    check(
        "mlp",
        "mlp",
        "--batch 6",
        "error[batch-indivisible]: m.toml:8: `compute.batch`: batch of 6 cannot be sharded over fsdp (4): input_ids, labels, \
         activation.residual and 6 more\n  hint: take a batch of 4, 8, 12 ...\n",
    );
}

#[test]
fn mesh_sizes_that_do_not_fit_the_target_are_reported() {
    check(
        "fsdp = 4",
        "fsdp = 3",
        "",
        "error[device-count]: m.toml:1: `mesh`: expected 8 devices, as the target has, found 6: fsdp 3 x tensor 2\n  \
         hint: write `fsdp = 4`, or give a target of 6\n",
    );
    check(
        "fsdp = 4\ntensor = 2",
        "fsdp = \"rest\"\ntensor = \"rest\"",
        "",
        "error[two-rest]: m.toml:3: `mesh.tensor`: only one axis can have the size \"rest\", and `fsdp` has it: m.toml:2\n  \
         hint: give one of them a number\n\n1 problem\n",
    );
    check(
        "fsdp = 4",
        "none = 4",
        "",
        "error[axis-name]: m.toml:2: `mesh.none`: invalid name of a mesh axis: none\n  hint: a name consists of letters, digits and `_`, \
         does not begin with a digit, and is neither `none` nor `rest`\n",
    );
    check(
        "[mesh]",
        "extends = \"m.toml\"\n[mesh]",
        "",
        "error[extends-circle]: m.toml:1: `extends`: circular `extends`: m.toml -> m.toml\n  \
         hint: leave out one `extends`\n",
    );
    check(
        "mlp = \"tensor\"",
        "embed = \"fsdp\"",
        "",
        "error[duplicate-key]: m.toml:6: `embed`: duplicate key; first defined at m.toml:5\n  \
         hint: leave out one of them\n",
    );
}

#[test]
fn unmatched_rules_and_overrides_are_reported() {
    check(
        "[compute]",
        "[[override]]\nparam = \"layers.*.self_attn.kproj\"\ndims = { embed = \"none\" }\n[compute]",
        "",
        "error[override-unmatched]: m.toml:8: `override.param`: matches no parameter: layers.*.self_attn.kproj\n  \
         hint: did you mean `layers.*.self_attn.k_proj`?\n",
    );
    check(
        "tensor = 2",
        "tensor = 1\nidle = 2",
        "",
        "error[unused-axis]: m.toml:4: `mesh.idle`: shards nothing: 2 groups of devices would do the same work\n  \
         hint: write `idle` in [store] or [compute], or give it the size 1\n",
    );
}

#[test]
fn runs_report_the_same_mesh_problems() {
    let world = World::new();
    world.write("m.toml", MESH);
    let problem = "error[device-count]: m.toml:1: `mesh`: expected 4 devices, as the target has, found 8: fsdp 4 x tensor 2\n  \
                   hint: write `fsdp = 2` or `tensor = 1`, or give a target of 8\n";
    for command in [
        "train --model model --data rows.jsonl --out out --quiet --seq 32",
        "generate --model model --prompt hello --quiet",
        "dump --model tiny",
    ] {
        world.refuses(&format!("{command} --mesh m.toml --target cpu:4"), problem);
    }
    world.refuses(
        "train --model model --data rows.jsonl --out out --quiet --mesh nowhere.toml",
        "error: cannot read the mesh config: nowhere.toml\n  caused by: No such file or directory (os error 2)\n",
    );
    world.refuses(
        "train --model model --data rows.jsonl --out out --quiet --target cpu:8",
        "error: --target: expected a mesh config for the devices of cpu:8, found none\n\n\
         hint: set one with --mesh, such as mesh-configs/fsdp8.toml for eight devices, or `--target cpu`\n",
    );
    world.refuses(
        "dump --model tiny --stage sharded",
        "error: --stage: expected --mesh with `sharded`, found none\n\nhint: for example `--mesh mesh-configs/fsdp8.toml`\n",
    );
}

#[test]
fn explain_reports_a_pattern_without_matches() {
    let world = World::new();
    world.write("m.toml", MESH);
    world.refuses(
        "explain m.toml --model tiny layers.*.q_prj",
        "error: PARAM: matches no tensor: layers.*.q_prj\n\n\
         hint: '*' shows every tensor; the layers are stacked, so write `*` for the layer\n",
    );
    let ran = world.hloom("explain m.toml --model tiny --batch 6 labels");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("error[batch-indivisible]: m.toml:8: "), "{}", ran.err);
    assert!(ran.out.starts_with("labels  s32[6,512]\n"), "{}", ran.out);
}
