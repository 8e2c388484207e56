//! Files that are not plugins, and missing devices and packages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hloom::testing::installed_package;

use crate::support::world::World;

const INSTALL: &str = "\nhint: `hloom plugin install cpu` (or cuda, rocm, tpu) fetches a supported plugin\n";

/// What a plugin's file has to be on this machine.
const LIBRARY: &str = if cfg!(target_arch = "aarch64") {
    "a 64-bit little-endian ELF shared library for AArch64"
} else {
    "a 64-bit little-endian ELF shared library for x86-64"
};

/// Checks a file as the plugin of each command that takes one.
#[track_caller]
fn check(world: &World, plugin: &str, expect: &str) {
    let folder = fs::canonicalize(world.path(".")).unwrap();
    let expect = expect.replace("HERE", folder.to_str().unwrap());
    for command in [
        "train --model model --data rows.jsonl --out out --quiet",
        "generate --model model --prompt hello --quiet",
        "compile --model model --out bundle --quiet",
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
fn files_other_than_plugins_are_refused() {
    let world = World::new();
    check(
        &world,
        "rows.jsonl",
        &format!("error: cannot load plugin: HERE/rows.jsonl: expected {LIBRARY}, found JSON\n{INSTALL}"),
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
fn a_library_without_the_pjrt_entry_point_is_refused() {
    let world = World::new();
    fs::copy(some_library(), world.path("other.so")).unwrap();
    check(
        &world,
        "other.so",
        &format!("error: not a PJRT plugin, it exports no `GetPjrtApi`: HERE/other.so\n{INSTALL}"),
    );
}

/// Checks a change of a library's header, which makes it one for another machine.
#[track_caller]
fn check_header(changes: &[(usize, u8)], found: &str) {
    let world = World::new();
    let mut bytes = fs::read(some_library()).unwrap();
    changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
    world.write("other.so", bytes);
    let expect =
        format!("error: cannot load plugin: HERE/other.so: expected {LIBRARY}, found {found}\n{INSTALL}");
    check(&world, "other.so", &expect);
}

#[test]
fn a_library_for_another_architecture_is_refused() {
    // The bytes of the machine in an ELF header.
    let s390 = [(18, 22), (19, 0)];
    check_header(&s390, "a 64-bit little-endian ELF shared library for S/390");
    check_header(&[(4, 1), (18, 40), (19, 0)], "a 32-bit little-endian ELF shared library for ARM");
    if cfg!(target_arch = "x86_64") {
        check_header(&[(18, 183)], "a 64-bit little-endian ELF shared library for AArch64");
    }
}

#[test]
fn files_other_than_shared_libraries_are_refused() {
    let world = World::new();
    let check = |name: &str, content: &[u8], found: &str| {
        world.write(name, content);
        let expect =
            format!("error: cannot load plugin: HERE/{name}: expected {LIBRARY}, found {found}\n{INSTALL}");
        check(&world, name, &expect);
    };
    check("empty.so", b"", "an empty file");
    check("plugin.a", b"!<arch>\nplugin.o/", "a static library");
    check(
        "plugin.dylib",
        b"\xcf\xfa\xed\xfe\x0c\0\0\x01\x06\0\0\0",
        "a 64-bit Mach-O file for AArch64 (macOS)",
    );
    check("plugin.dll", b"MZ\x90\0\x03\0", "a PE file (Windows)");
    check("plugin.whl", b"PK\x03\x04\x14\0", "a ZIP archive");
    check("script.so", b"/* GNU ld script */\nINPUT(-lplugin)\n", "a linker script");
}

#[test]
#[cfg(unix)]
fn a_pipe_as_a_plugin_is_refused() {
    let world = World::new();
    let made = std::process::Command::new("mkfifo").arg(world.path("pipe.so")).status();
    assert!(made.unwrap().success());
    let ran = world.hloom("plugin info ./pipe.so");
    let pipe = fs::canonicalize(world.path("pipe.so")).unwrap();
    let expect =
        format!("error: cannot open plugin: {}\n  caused by: not a regular file\n{INSTALL}", pipe.display());
    assert_eq!((ran.code, ran.err), (Some(2), expect));
}

#[test]
fn missing_tpus_and_gpus_are_reported() {
    let check = |package: &str, target: &str, files: &[&str], expect: &[&str]| {
        let Some(_) = installed_package(package) else { return };
        if files.iter().any(|file| Path::new(file).exists()) {
            return;
        }
        let world = World::new();
        for command in [
            "train --model model --data rows.jsonl --out out --quiet --offline --target",
            "generate --model model --prompt hello --quiet --offline --target",
            "compile --model model --out bundle --quiet --offline --target",
        ] {
            let ran = world.hloom(&format!("{command} {target}"));
            assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{}", ran.err);
            expect.iter().for_each(|part| assert!(ran.err.contains(part), "{part}: {}", ran.err));
        }
    };
    check(
        "tpu",
        "tpu",
        &["/dev/accel0", "/dev/vfio/0"],
        &[
            "error: found no TPU on this machine: ",
            "no /dev/accel*, no /dev/vfio/[0-9]*",
            "no $TPU_NAME",
            "; the plugin's answer: PJRT_Client_Create failed with NOT_FOUND: TPU initialization failed: ",
            "`hloom compile --target v5e:2x4` needs no device\n",
        ],
    );
    check(
        "cuda",
        "cuda",
        &["/dev/nvidiactl", "/dev/dxg"],
        &[
            "error: found no NVIDIA GPU on this machine: ",
            "no /dev/nvidia*",
            "; the plugin's answer: PJRT_Client_Create failed with FAILED_PRECONDITION: No visible GPU devices.\n",
            "`hloom compile --target h100:8` needs no device\n",
        ],
    );
}

#[test]
fn unknown_packages_are_refused() {
    let world = World::new();
    world.refuses(
        "plugin install cudaa",
        "error: PACKAGE: unknown package: cudaa\n\nhint: did you mean `cuda`?\n",
    );
    world.refuses(
        "plugin info metal",
        "error: PACKAGE: unknown package: metal\n\nhint: packages: cpu, cpu-0.81, cuda, rocm, tpu, smollm2\n",
    );
}

#[test]
fn a_missing_rocm_installation_is_reported() {
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
                "\nhint: install ROCm 7, or set LD_LIBRARY_PATH to its folder; `hloom compile` for AMD GPUs needs \
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
