//! Bundles that are malformed, edited, or made for another run.

use std::{fs, sync::OnceLock};

use tempfile::TempDir;

use crate::support::world::World;

const COMPILE: &str = "compile --model model --batch 4 --seq 32 --quiet --offline";
const TRAIN: &str = "train --model model --data rows.jsonl --out out --quiet --offline --bundle bundle";
const AGAIN: &str = "\nhint: copy the bundle again, or write another with `hloom compile`\n";
const MAKES: &str = "\nhint: `hloom compile --out DIR` writes one\n";
const DIFFERS: &str = "\nhint: leave the setting out, or write another bundle with `hloom compile`\n";

/// A world with a bundle, which is compiled once for all tests.
fn world() -> World {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let world = World::new();
        world.succeeds(&format!("{COMPILE} --out bundle"));
        let folder = tempfile::tempdir().unwrap();
        for name in world.names("bundle") {
            fs::write(folder.path().join(&name), world.read(&format!("bundle/{name}"))).unwrap();
        }
        folder
    });
    let world = World::new();
    fs::create_dir(world.path("bundle")).unwrap();
    for entry in fs::read_dir(made.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, world.path("bundle").join(path.file_name().unwrap())).unwrap();
    }
    world
}

#[test]
fn settings_that_differ_from_the_bundle_are_refused() {
    let world = world();
    let fsdp2 = format!("{}/mesh-configs/fsdp2.toml", env!("CARGO_MANIFEST_DIR"));
    for (options, expect) in [
        ("--seq 64", "--seq: the bundle was made for 32, found: 64"),
        ("--batch 8", "--batch: the bundle was made for 4, found: 8"),
        ("--pack", "--pack: the bundle was made for false, found: true"),
        ("--dtype bfloat16", "--dtype: the bundle was made for f32, found: bf16"),
        ("--rank 4", "--rank: the bundle was made for 8, found: 4"),
        ("--alpha 8", "--alpha: the bundle was made for 16, found: 8"),
        ("--remat dots", "--remat: the bundle was made for its default, found: dots"),
        ("--attention-block 8", "--attention-block: the bundle was made for its default, found: 8"),
        ("--offload-weights", "--offload-weights: the bundle was made for false, found: true"),
        ("--accumulate 2", "--accumulate: the bundle was made for 1, found: 2"),
        ("--beta1 0.5", "--beta1: the bundle was made for 0.9, found: 0.5"),
        (
            &format!("--mesh {fsdp2}"),
            &format!("--mesh: the bundle was made for a single device, found: {fsdp2}"),
        ),
    ] {
        world.refuses(&format!("{TRAIN} {options}"), &format!("error: {expect}\n{DIFFERS}"));
    }
}

#[test]
fn a_model_that_differs_from_the_bundle_is_refused() {
    let world = world();
    world.change_json("model/config.json", |config| config["rms_norm_eps"] = 0.5.into());
    let expect = "--model: `rms_norm_eps` of model: the bundle was made for 0.00001, found: 0.5";
    world.refuses(TRAIN, &format!("error: {expect}\n{DIFFERS}"));
}

#[test]
fn changed_files_of_a_bundle_are_refused() {
    for file in ["module.hlo.pb", "executable.cpu:1.bin", "memory.json"] {
        let world = world();
        let name = format!("bundle/{file}");
        world.write(&name, "edited");
        let manifest: serde_json::Value =
            serde_json::from_slice(&world.read("bundle/manifest.json")).unwrap();
        let expected = manifest["files"][file].as_str().unwrap();
        let found = hloom::runtime::bundle::sha256(b"edited");
        let expect = format!(
            "{name} has changed since the bundle was made: expected SHA-256 {expected}, found {found}"
        );
        world.refuses(TRAIN, &format!("error: {expect}\n{AGAIN}"));
    }
    let world = world();
    world.remove("bundle/module.hlo.pb");
    world.refuses(
        TRAIN,
        "error: cannot read: bundle/module.hlo.pb\n  caused by: No such file or directory (os error 2)\n",
    );
}

#[test]
fn folders_without_a_bundle_are_refused() {
    let world = world();
    let train = TRAIN.replace("--bundle bundle", "--bundle model");
    world.refuses(&train, &format!("error: not a bundle: model: it has no manifest.json\n{MAKES}"));
    world.refuses(
        &format!("{COMPILE} --out model"),
        "error: the output folder exists and is not a bundle: model\n\n\
         hint: set another folder with --out; only a bundle is replaced\n",
    );
}

#[test]
fn a_changed_manifest_is_refused() {
    let world = world();
    let expected = hloom::runtime::bundle::sha256(&world.read("bundle/manifest.json"));
    world.change_json("bundle/manifest.json", |manifest| manifest["made"]["batch"] = 8.into());
    let found = hloom::runtime::bundle::sha256(&world.read("bundle/manifest.json"));
    let expect = format!(
        "bundle/manifest.json has changed since the bundle was made: expected SHA-256 {expected}, found {found}"
    );
    world.refuses(TRAIN, &format!("error: {expect}\n{AGAIN}"));
    world.refuses(&format!("{TRAIN} --recompile"), &format!("error: {expect}\n{AGAIN}"));
}

#[test]
fn manifests_with_paths_outside_the_bundle_are_refused() {
    let world = world();
    let manifest = world.read("bundle/manifest.json");
    for name in ["../rows.jsonl", "/etc/passwd", "/", ".", "..", "", "a/b", "./module.hlo.pb", "a\\b"] {
        let expect =
            format!("error: not a bundle: bundle: manifest.json names a file outside of it: {name}\n{MAKES}");
        world.change_manifest(|manifest| manifest["files"][name] = "".into());
        world.refuses(TRAIN, &expect);
        world.write_manifest(&manifest);
        world.change_manifest(|manifest| manifest["targets"][0]["executable"] = name.into());
        world.refuses(TRAIN, &expect);
        world.write_manifest(&manifest);
    }
}

/// Checks what a bundle with another text as its manifest is refused with.
#[track_caller]
fn check_manifest(world: &World, text: &[u8], reason: &str) {
    let manifest = world.read("bundle/manifest.json");
    world.write_manifest(text);
    let expect = format!("error: not a bundle: bundle: manifest.json: {reason}");
    let ran = world.hloom(TRAIN);
    assert!(ran.err.starts_with(&expect) && ran.err.ends_with(MAKES), "{}", ran.err);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    world.write_manifest(&manifest);
}

#[test]
fn malformed_manifests_are_refused() {
    let world = world();
    let check = |text: &[u8], reason: &str| check_manifest(&world, text, reason);
    check(b"", "expected JSON, found an empty file");
    check(b"{}", "missing field `hloom` at line 1 column 2");
    check(b"[1, 2]", "invalid type: integer `1`, expected a string at line 1 column 2");
    check(b"{\"hloom\": \"\xff\"}", "invalid unicode code point at line 1 column 12");
    let deep = [&b"{\"made\": "[..], &b"[".repeat(100_000)].concat();
    check(&deep, "invalid type: sequence, expected a string at line 1 column 10");
    let deep = [&b"{\"unknown\": "[..], &b"[".repeat(100_000)].concat();
    check(&deep, "EOF while parsing a list at line 1 column 100012");
    let before =
        "{\"hloom\": \"\", \"module_sha256\": \"\", \"files\": {}, \"made\": {\"model\": \"\", \"config\": ";
    let deep = [before.as_bytes(), &b"[".repeat(100_000)].concat();
    check(&deep, "recursion limit exceeded at line 1 column ");
    let manifest = world.read("bundle/manifest.json");
    check(&manifest[..manifest.len() / 2], "EOF while parsing ");
}

#[test]
fn manifests_with_invalid_values_are_refused() {
    let world = world();
    let whole: serde_json::Value = serde_json::from_slice(&world.read("bundle/manifest.json")).unwrap();
    let check = |pointer: &str, value: serde_json::Value, reason: &str| {
        let mut manifest = whole.clone();
        *manifest.pointer_mut(pointer).unwrap() = value;
        check_manifest(&world, manifest.to_string().as_bytes(), reason);
    };
    check("/made/batch", "4".into(), "invalid type: string \"4\", expected whole number");
    check("/made/batch", (-4).into(), "invalid value: integer `-4`, expected whole number");
    check("/made/seq", 1e300.into(), "invalid type: floating point `1e+300`, expected whole number");
    check("/files", 7.into(), "invalid type: integer `7`, expected a map");
    check("/inputs", serde_json::json!({}), "invalid type: map, expected a sequence");
    check(
        "/made/method/micro_batches",
        0.into(),
        "invalid value: integer `0`, expected a nonzero whole number",
    );
    let batch = "expected `input_ids` of the module to be s32";
    check("/made/batch", u64::MAX.into(), &format!("{batch}[{},32], found s32[4,32]", u64::MAX));
    check("/made/seq", u64::MAX.into(), &format!("{batch}[4,{}], found s32[4,32]", u64::MAX));
    check("/made/seq", 1.into(), &format!("{batch}[4,1], found s32[4,32]"));
    check("/made/optimizer/beta1", 1.into(), "--beta1: expected a number from 0 to below 1, found: 1\n");
    check(
        "/made/optimizer/max_grad_norm",
        (-1).into(),
        "--max-grad-norm: expected a number above zero, found: -1\n",
    );
    check("/made/lora/r", 0.into(), "--rank: expected a rank of at least 1, found 0");
    check("/made/lora/target_modules", "../x".into(), "--targets: matches no linear of the model: ../x\n");
    check("/made/dtype", "f33".into(), "unknown element type: f33");
    check("/made/batch", 0.into(), &format!("{batch}[0,32], found s32[4,32]"));
    check("/inputs", serde_json::json!([]), &format!("{batch}[4,32], found none"));
    check("/outputs", serde_json::json!([]), "expected 46 results of the module, found 0");
}

#[test]
#[cfg(unix)]
fn a_pipe_in_a_bundle_is_refused() {
    let world = world();
    world.remove("bundle/memory.json");
    let made = std::process::Command::new("mkfifo").arg(world.path("bundle/memory.json")).status();
    assert!(made.unwrap().success());
    let ran = world.hloom(TRAIN);
    let expect = "error: cannot read: bundle/memory.json\n  caused by: not a regular file\n";
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), expect));
}

#[test]
fn recompiling_without_a_bundle_is_refused() {
    let world = World::new();
    world.refuses(
        "train --model model --data rows.jsonl --out out --quiet --offline --recompile",
        "error: --recompile: requires --bundle\n\n\
         hint: without a bundle every run compiles the step; leave it out\n",
    );
}

#[test]
fn invalid_targets_are_refused() {
    let world = World::new();
    let mesh = format!("{}/mesh-configs/fsdp8.toml", env!("CARGO_MANIFEST_DIR"));
    let compile = format!("{COMPILE} --out bundle");
    for (options, expect) in [
        (
            "--target cpu:2",
            "error: --target: expected a mesh config for the devices of cpu:2, found none\n\n\
             hint: set one with --mesh, such as mesh-configs/fsdp8.toml for eight devices, or `--target cpu`\n",
        ),
        (
            "--target cpu --target cpu:1",
            "error: --target: duplicate target: cpu:1\n\nhint: leave out one of them\n",
        ),
        (
            &format!("--mesh {mesh} --target cpu:8 --target cpu:4"),
            "error: --target: expected targets with the same number of devices, found: cpu:8 and cpu:4\n\n\
             hint: all targets of a bundle share one module; compile two bundles\n",
        ),
        (
            "--timeout 0",
            "error: --timeout: expected a number of seconds above zero, found: 0\n\n\
             hint: for example `--timeout 600`\n",
        ),
    ] {
        world.refuses(&format!("{compile} {options}"), expect);
    }
    for (target, expect) in [
        ("mi30x:8", "unknown target: mi30x:8 (did you mean `mi300x`?)"),
        ("v5e:3x3", "unknown topology of v5e: 3x3 (topologies: "),
    ] {
        let ran = world.hloom(&format!("{compile} --target {target}"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
        assert!(ran.err.contains(expect), "{}", ran.err);
    }
}

#[test]
fn a_mesh_of_eight_on_a_target_of_four_is_refused() {
    let world = World::new();
    let mesh = format!("{}/mesh-configs/fsdp8.toml", env!("CARGO_MANIFEST_DIR"));
    let ran = world.hloom(&format!("{COMPILE} --out bundle --mesh {mesh} --target cpu:4"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("fsdp8.toml:3: "), "{}", ran.err);
    assert!(world.names("bundle").is_empty());
}
