//! Plugins that are none.

use std::{fs, path::PathBuf};

use hloom::pjrt::testing::installed_package;

use crate::support::world::World;

const INSTALL: &str = "\nhint: `hloom plugin install cpu` (or cuda, rocm, tpu) gets a plugin that works\n";

/// Checks a file as the plugin of each command that takes one.
#[track_caller]
fn check(world: &World, plugin: &str, expect: &str) {
    let folder = fs::canonicalize(world.path(".")).unwrap();
    let expect = expect.replace("HERE", folder.to_str().unwrap());
    for command in [
        "train --model model --data rows.jsonl --out out --quiet",
        "generate --model model --prompt hello --quiet",
    ] {
        world.refuses(&format!("{command} --plugin {plugin}"), &expect);
    }
    world.refuses(&format!("plugin info ./{plugin}"), &expect.replace(" missing.so", " ./missing.so"));
}

/// A library that this process itself is linked with.
fn some_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.filter(|path| path.contains("/libc.so")).map(PathBuf::from).next().unwrap()
}

#[test]
fn files_that_are_no_plugins() {
    let world = World::new();
    check(
        &world,
        "rows.jsonl",
        "error: cannot load plugin: HERE/rows.jsonl: it is no 64-bit shared library\n\n\
         hint: a plugin is a shared library for this system; if the loader misses another library, install that one \
         or put its folder in LD_LIBRARY_PATH\n",
    );
    check(
        &world,
        "missing.so",
        &format!(
            "error: cannot open plugin: missing.so\n  caused by: No such file or directory (os error 2)\n{INSTALL}"
        ),
    );
    check(
        &world,
        "model",
        &format!(
            "error: cannot open plugin: HERE/model\n  caused by: Is a directory (os error 21)\n{INSTALL}"
        ),
    );
}

#[test]
fn a_library_that_is_no_plugin() {
    let world = World::new();
    fs::copy(some_library(), world.path("other.so")).unwrap();
    check(
        &world,
        "other.so",
        &format!("error: not a PJRT plugin, it exports no `GetPjrtApi`: HERE/other.so\n{INSTALL}"),
    );
}

#[test]
fn packages_that_nobody_knows() {
    let world = World::new();
    world.refuses(
        "plugin install cudaa",
        "error: plugin: no such package: cudaa\n\nhint: did you mean `cuda`?\n",
    );
    world.refuses(
        "plugin info metal",
        "error: plugin: no such package: metal\n\nhint: packages: cpu, cpu-0.81, cuda, rocm, tpu, smollm2\n",
    );
}

#[test]
fn amd_gpus_where_rocm_is_not_installed() {
    let Some(plugin) = installed_package("rocm") else { return };
    if loader_knows("libamdhip64.so.7") {
        return;
    }
    let world = World::new();
    for target in ["rocm", "mi300x"] {
        let train = "train --model model --data rows.jsonl --out out --quiet --offline";
        let line = format!("{train} --target {target} --plugin {}", plugin.display());
        let ran = world.hloom(&line);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{}", ran.err);
        assert!(
            ran.err.ends_with(
                "\nhint: install ROCm 7, or set LD_LIBRARY_PATH to where it lies; `hloom compile` for AMD GPUs needs \
                 none\n"
            ),
            "{}",
            ran.err
        );
    }
}

/// Whether the loader knows a library by its name.
fn loader_knows(name: &str) -> bool {
    let known = std::process::Command::new("ldconfig").arg("-p").output();
    known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains(name))
}
