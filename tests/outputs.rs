//! Where commands write, how they find paths, and how text looks to the terminal it goes to.

use std::{
    fs,
    io::Read,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    process::{Command, Stdio},
    thread,
};

use serde_json::Value;

use crate::support::world::{Ran, TRAIN, World, ran};

const DUMP: &str = "dump --model tiny --target cpu";

/// The module as `dump` writes it to standard output.
fn module(world: &World) -> Vec<u8> {
    let text = world.succeeds(DUMP).into_bytes();
    assert!(text.starts_with(b"HloModule "));
    text
}

fn dump_to(world: &World, out: &str) {
    let printed = world.succeeds(&format!("{DUMP} --out {out}"));
    assert_eq!(printed, "");
}

#[test]
fn a_link_stays_a_link_and_a_file_keeps_its_permissions() {
    let world = World::new();
    let module = module(&world);
    fs::create_dir(world.path("elsewhere")).unwrap();
    symlink("elsewhere/there.hlo", world.path("link.hlo")).unwrap();
    for _ in 0..2 {
        dump_to(&world, "link.hlo");
        assert!(world.path("link.hlo").is_symlink() && world.read("elsewhere/there.hlo") == module);
        world.write("elsewhere/there.hlo", "older");
        let private = fs::Permissions::from_mode(0o640);
        fs::set_permissions(world.path("elsewhere/there.hlo"), private).unwrap();
    }
    dump_to(&world, "link.hlo");
    let mode = fs::metadata(world.path("elsewhere/there.hlo")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(world.names("elsewhere"), ["there.hlo"]);
}

#[test]
fn stablehlo_has_the_shardings_of_the_partitioner() {
    let world = World::new();
    let config = "[mesh]\nfsdp = 2\n[store]\nembed = \"fsdp\"\n[compute]\nbatch = \"fsdp\"\n";
    world.write("gspmd.toml", config);
    world.write("shardy.toml", format!("{config}[partitioner]\nkind = \"shardy\"\n"));
    let dump = |options: &str| world.succeeds(&format!("dump --model tiny --format stablehlo {options}"));
    let count = |text: &str, word: &str| text.matches(word).count();
    for (options, has_mhlo, has_sdy) in
        [("", false, false), ("--mesh gspmd.toml", true, false), ("--mesh shardy.toml", false, true)]
    {
        let text = dump(options);
        assert!(text.starts_with("module @hloom_step"), "{text}");
        assert_eq!(count(&text, "mhlo.sharding = ") > 0, has_mhlo, "{options}");
        assert_eq!(count(&text, "sdy.sharding_constraint ") > 0, has_sdy, "{options}");
        assert_eq!(count(&text, "sdy.mesh @mesh = <[\"fsdp\"=2]>"), usize::from(has_sdy), "{options}");
    }
}

#[test]
fn pipes_and_devices_are_written_through() {
    let world = World::new();
    let module = module(&world);
    let pipe = world.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    dump_to(&world, "pipe");
    assert!(reader.join().unwrap() == module);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    symlink("/dev/null", world.path("null")).unwrap();
    dump_to(&world, "null");
    dump_to(&world, "/dev/null");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn standard_output_has_several_names() {
    let world = World::new();
    let module = module(&world);
    for out in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        if out != "-" && !std::path::Path::new(out).exists() {
            continue;
        }
        let line = format!("{DUMP} --out {out}");
        assert!(world.succeeds(&line).as_bytes() == module, "{out} as a pipe");
        // As a file, it keeps what others wrote to it before.
        world.write("all.txt", "before\n");
        let file = fs::File::options().append(true).open(world.path("all.txt")).unwrap();
        assert!(world.command(&line).stdout(file).stderr(Stdio::null()).status().unwrap().success());
        assert!(world.read("all.txt") == [b"before\n", &module[..]].concat(), "{out} as a file");
    }
    let refused = "error: --out: expected a folder, found: - (standard output)\n\n\
                   hint: `./-` is a folder of that name\n";
    world.refuses(&TRAIN.replace("--out out", "--out -"), refused);
    world.refuses("compile --model tiny --out -", refused);
}

#[test]
fn runs_and_bundles_follow_links_too() {
    let world = World::new();
    fs::create_dir(world.path("disk")).unwrap();
    symlink("disk", world.path("out")).unwrap();
    world.succeeds(TRAIN);
    assert!(world.path("out").is_symlink() && world.path("disk/adapter_model.safetensors").is_file());
    // A single file of a run may lie elsewhere.
    fs::rename(world.path("disk/adapter_config.json"), world.path("config.json")).unwrap();
    symlink("../config.json", world.path("disk/adapter_config.json")).unwrap();
    world.write("config.json", "{}");
    world.succeeds(&format!("{TRAIN} --resume").replace("--steps 2", "--steps 3"));
    assert!(world.path("disk/adapter_config.json").is_symlink());
    assert_ne!(world.read("config.json"), b"{}");

    fs::create_dir(world.path("bundles")).unwrap();
    symlink("bundles", world.path("bundle")).unwrap();
    for _ in 0..2 {
        world.succeeds("compile --model tiny --batch 1 --seq 16 --out bundle --quiet --offline");
        assert!(world.path("bundle").is_symlink() && world.path("bundles/manifest.json").is_file());
    }
}

#[test]
fn a_tilde_is_the_home_folder_in_flags_and_files() {
    let world = World::new();
    let hloom = |line: &str| ran(world.command(line).env("HOME", world.path("home")).output().unwrap());
    fs::create_dir(world.path("home")).unwrap();
    fs::rename(world.path("model"), world.path("home/model")).unwrap();
    fs::rename(world.path("rows.jsonl"), world.path("home/rows.jsonl")).unwrap();
    let run = "model = \"~/model\"\ndata = \"~/rows.jsonl\"\nout = \"~/out\"\nsteps = 1\nseq = 32\n";
    world.write("home/run.toml", run);
    let Ran { code, err, .. } = hloom("train --config=~/run.toml --quiet");
    assert_eq!(code, Some(0), "{err}");
    assert!(world.path("home/out/adapter_model.safetensors").is_file());
    let Ran { code, err, .. } =
        hloom("generate --model=~/model --adapter=~/out --prompt ~/x --max-new-tokens 1");
    assert_eq!(code, Some(0), "{err}");
    let Ran { code, err, .. } = hloom(&format!("{DUMP} --out=~/module.hlo"));
    assert_eq!((code, world.path("home/module.hlo").is_file()), (Some(0), true), "{err}");
    assert_eq!(world.names("."), ["home"], "nothing is named after a tilde");
}

#[test]
fn the_default_type_is_the_models_own_except_on_cpus() {
    let world = World::new();
    let check = |line: &str, expect: &str, notice: &str| {
        let Ran { out, err, .. } = world.hloom(&format!("{line} --json"));
        let object: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((object["dtype"].as_str(), err.as_str()), (Some(expect), notice), "{line}");
    };
    let own = "computing in bfloat16 (the model's own type)\n";
    let cpu = "computing in float32 (the default on CPUs)\n";
    check("dump --model llama3.2-1b --target mi300x", "bf16", own);
    check("dump --model llama3.2-1b", "bf16", own);
    check("dump --model llama3.2-1b --target cpu:2", "f32", cpu);
    check("dump --model llama3.2-1b --target mi300x --dtype float32", "f32", "");
    world.write("m.toml", "[mesh]\nfsdp = 8\n[store]\nmlp = \"fsdp\"\n[compute]\nbatch = \"fsdp\"\n");
    check("check m.toml --model llama3.2-1b --target v5e:2x4", "bf16", "");
    check("check m.toml --model llama3.2-1b --target cpu:8", "f32", "");
    let Ran { err, .. } = world.hloom(&TRAIN.replace(" --quiet", ""));
    assert!(err.starts_with(cpu), "{err}");
}

/// What a command writes to a terminal.
fn on_a_terminal(world: &World, line: &str, variables: &[(&str, &str)]) -> String {
    let hloom = world.command(line);
    let mut python = Command::new("python3");
    python.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]).arg(hloom.get_program());
    python.args(hloom.get_args()).current_dir(world.path("."));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        python.env_remove(name);
    }
    python.env("TERM", "xterm").envs(variables.iter().copied());
    let mut child = python.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn colors_are_for_those_who_want_them() {
    let world = World::new();
    let check = |variables: &[(&str, &str)], colored: bool| {
        for (line, word) in [("train --help", "Usage"), ("train --setps 3", "unexpected argument")] {
            let text = on_a_terminal(&world, line, variables);
            assert!(text.contains(word), "{text}");
            assert_eq!(text.contains('\u{1b}'), colored, "{line} with {variables:?}: {text:?}");
        }
    };
    check(&[], true);
    check(&[("NO_COLOR", "1")], false);
    check(&[("TERM", "dumb")], false);
    check(&[("CLICOLOR", "0")], false);
    check(&[("NO_COLOR", "")], true);
}
