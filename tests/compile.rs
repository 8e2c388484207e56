//! Bundles: compiled in one process, trained from in another, and refused where they do not fit.

use std::{fs, path::Path};

use hloom::{
    hlo::{proto, verify},
    testing::installed_package,
};
use serde_json::Value;

use crate::support::world::{Ran, World};

const COMPILE: &str = "compile --model model --batch 4 --seq 32 --out bundle --quiet --offline";
const TRAIN: &str = "train --model model --data rows.jsonl --steps 3 --held-out 0 --offline";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The losses and norms of every step of a run.
fn metrics(world: &World, out: &str) -> Vec<[f64; 2]> {
    let text = String::from_utf8(world.read(&format!("{out}/metrics.jsonl"))).unwrap();
    let step = |line: &str| {
        let step = json(line);
        ["loss", "grad_norm"].map(|name| step[name].as_f64().unwrap())
    };
    text.lines().map(step).collect()
}

/// A mesh config that is shipped.
fn mesh(name: &str) -> String {
    format!("{}/mesh-configs/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Trains with and without a bundle, which must give the same numbers bit for bit.
#[track_caller]
fn same_as_without(options: &str) {
    let world = World::new();
    let compiled = json(&world.succeeds(&format!("{COMPILE} {options} --json")));
    let target = compiled["targets"][0]["target"].as_str().unwrap();
    assert_eq!(compiled["targets"][0]["fits"], true);
    assert!(compiled["targets"][0]["device_bytes"].as_u64() > Some(0));
    for file in ["module.hlo.pb", "module.hlo.txt", "manifest.json", "memory.json"] {
        assert!(!world.read(&format!("bundle/{file}")).is_empty());
    }
    assert!(!world.read(&format!("bundle/executable.{target}.bin")).is_empty());
    assert!(!world.read(&format!("bundle/optimized.{target}.hlo.pb")).is_empty());

    let Ran { code, err, .. } = world.hloom(&format!("{TRAIN} --bundle bundle --out with"));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(&format!("loading the bundle's executable for {target}\n")), "{err}");
    world.succeeds(&format!("{TRAIN} --quiet {options} --batch 4 --seq 32 --out without"));
    assert_eq!(metrics(&world, "with"), metrics(&world, "without"));
    assert_eq!(metrics(&world, "with").len(), 3);
}

#[test]
fn a_bundle_trains_as_the_step_that_is_compiled_on_the_spot() {
    same_as_without("");
}

#[test]
fn a_bundle_whose_rows_are_packed_brings_that() {
    same_as_without("--pack");
}

#[test]
fn a_bundle_for_several_devices_brings_its_mesh() {
    same_as_without(&format!(
        "--mesh {} --rank 4 --targets q_proj,down_proj --max-grad-norm 0.5",
        mesh("fsdp2")
    ));
}

#[test]
fn a_bundle_without_an_executable_for_the_target_is_compiled_from_its_module() {
    let world = World::new();
    world.succeeds(COMPILE);
    // As if another plugin had compiled it.
    world.change_manifest(|manifest| {
        manifest["targets"][0]["plugin"]["sha256"] = "another".into();
    });
    let Ran { code, err, .. } = world.hloom(&format!("{TRAIN} --bundle bundle --out with"));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("compiling its module"), "{err}");
    world.succeeds(&format!("{TRAIN} --quiet --batch 4 --seq 32 --out without"));
    assert_eq!(metrics(&world, "with"), metrics(&world, "without"));
}

#[test]
fn a_recompiled_bundle_uses_none_of_its_executables() {
    let world = World::new();
    world.succeeds(COMPILE);
    let train = |out: &str| {
        let ran = world.hloom(&format!("{TRAIN} --bundle bundle --recompile --out {out}"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains("compiling the bundle's module for cpu:1\n"), "{}", ran.err);
    };
    // Every number in the data of the program, and all digests with it.
    world.change_in_bundle("executable.cpu:1.bin", |mut bytes| {
        let middle = bytes.len() / 4..bytes.len() / 2;
        bytes[middle].iter_mut().for_each(|byte| *byte ^= 0x55);
        bytes
    });
    train("altered");
    world.remove("bundle/executable.cpu:1.bin");
    world.remove("bundle/optimized.cpu:1.hlo.pb");
    train("missing");
    world.succeeds(&format!("{TRAIN} --quiet --batch 4 --seq 32 --out without"));
    let expect = metrics(&world, "without");
    assert_eq!((metrics(&world, "altered"), metrics(&world, "missing")), (expect.clone(), expect));
}

#[test]
fn a_recompiled_bundle_needs_the_module_that_its_manifest_describes() {
    let world = World::new();
    world.succeeds(COMPILE);
    let before = hloom::runtime::bundle::sha256(&world.read("bundle/module.hlo.pb"));
    world.change_in_bundle("module.hlo.pb", |bytes| {
        let mut module = proto::decode(&bytes).unwrap();
        module.name = "another".into();
        proto::encode(&verify(module).unwrap())
    });
    let after = hloom::runtime::bundle::sha256(&world.read("bundle/module.hlo.pb"));
    let ran = world.hloom(&format!("{TRAIN} --quiet --bundle bundle --recompile --out out"));
    let expect = format!(
        "error: bundle/module.hlo.pb is not the step that manifest.json describes: expected SHA-256 {before}, found \
         {after}\n\nhint: copy the bundle again, or write another with `hloom compile`\n"
    );
    assert_eq!((ran.code, ran.err), (Some(2), expect));
}

#[test]
fn a_bundle_is_replaced_whole_and_what_was_compiled_once_is_kept() {
    let world = World::new();
    let store = world.path("store");
    fs::create_dir(&store).unwrap();
    let plugin = hloom::testing::cpu_plugin_path(hloom::testing::CpuBuild::Pinned);
    let line = format!("{COMPILE} --json --plugin {}", plugin.display());
    let compile = || {
        let output = world.command(&line).env("HLOOM_STORE", &store).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        json(&String::from_utf8(output.stdout).unwrap())["targets"][0]["cached"].clone()
    };
    assert_eq!(compile(), false);
    let before = world.read("bundle/manifest.json");
    world.write("bundle/more", "left by someone");
    assert_eq!(compile(), true);
    assert!(!world.names("bundle").contains(&"more".to_owned()));
    assert_eq!(world.read("bundle/manifest.json"), before);
    let names = world.names(".");
    assert!(!names.iter().any(|name| name.starts_with(".writing-")), "{names:?}");
}

#[test]
fn a_program_that_does_not_fit_is_a_no() {
    let Some(_) = installed_package("rocm") else { return };
    let world = World::new();
    let small = include_str!("../src/targets/mi300x.toml").replace("206_158_430_208", "60_000");
    world.write("small.toml", small);
    let Ran { code, out, err } = world.hloom(&format!("{COMPILE} --target small.toml"));
    assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
    assert!(out.starts_with("small:1         does NOT fit: "), "{out}");
    assert!(out.contains("to make it fit  `--dtype bfloat16` halves the weights: up to "), "{out}");
}

/// Compiles for devices that are not there; gives the module's digest.
#[track_caller]
fn compiles_for(package: &str, target: &str, mesh_name: &str) -> Option<String> {
    installed_package(package)?;
    let world = World::new();
    let line = format!("compile --model tiny --mesh {} --batch 8 --seq 32 --dtype bfloat16", mesh(mesh_name));
    let compiled =
        json(&world.succeeds(&format!("{line} --target {target} --out bundle --json --quiet --offline")));
    assert_eq!(compiled["targets"][0]["fits"], true);
    assert!(Path::new(&world.path(&format!("bundle/executable.{target}.bin"))).is_file());
    Some(compiled["module_sha256"].as_str().unwrap().to_owned())
}

#[test]
fn every_platform_compiles_the_same_module() {
    let digests: Vec<String> =
        [("cpu", "cpu:8"), ("cuda", "h100:8"), ("rocm", "mi300x:8"), ("tpu", "v5e:2x4")]
            .into_iter()
            .filter_map(|(package, target)| compiles_for(package, target, "fsdp8"))
            .collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
    assert!(!digests.is_empty());
}
