//! Runs of the program that are repeated, interrupted, killed and resumed.

use std::process::{Child, Command, ExitStatus, Stdio};

use hloom::weights::read_adapter;
use serde_json::Value;

use crate::support::{
    relative_error,
    world::{World, ran, until},
};

const ADAPTER: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

fn train(out: &str, flags: &str) -> String {
    format!("train --model model --data rows.jsonl --seq 32 --batch 2 --out {out} {flags}")
}

/// What a run wrote of its updates: the step, the loss, the learning rate and the gradient norm.
fn updates(world: &World, out: &str) -> Vec<[Value; 4]> {
    let text = String::from_utf8(world.read(&format!("{out}/metrics.jsonl"))).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "half a line: {text}");
    let fields = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        ["step", "loss", "learning_rate", "grad_norm"].map(|field| record[field].clone())
    };
    text.lines().map(fields).collect()
}

#[track_caller]
fn check_same(world: &World, out: &str, expected: &str) {
    assert_eq!(updates(world, out), updates(world, expected));
    for file in ADAPTER {
        let [found, expected] = [out, expected].map(|folder| world.read(&format!("{folder}/{file}")));
        assert!(found == expected, "{file} differs");
    }
}

/// Starts a run that takes long, and waits until it has made some updates.
fn start(world: &World, out: &str, flags: &str) -> Child {
    let mut command = world.command(&train(out, flags));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let metrics = world.path(&format!("{out}/metrics.jsonl"));
    let lines = || std::fs::read(&metrics).map_or(0, |text| text.split(|&byte| byte == b'\n').count());
    until("updates are made", || lines() > 5);
    child
}

fn signal(child: &Child, name: &str) {
    // A shell has `kill` built in; the program of that name is not everywhere.
    let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {}", child.id())]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let world = World::new();
    for (out, seed) in [("a", 7), ("b", 7), ("c", 8)] {
        world.succeeds(&train(out, &format!("--steps 10 --seed {seed} --quiet")));
    }
    check_same(&world, "b", "a");
    assert_ne!(updates(&world, "c"), updates(&world, "a"));
}

#[test]
fn ctrl_c_saves_the_adapter_after_the_step_and_the_resumed_run_is_identical() {
    const STEPS: usize = 600;
    let flags = format!("--steps {STEPS}");
    let world = World::new();
    let child = start(&world, "out", &flags);
    signal(&child, "INT");
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let made = updates(&world, "out").len();
    assert!((1..STEPS).contains(&made), "{made}");
    let expect = format!(
        "stopped after step {made} of {STEPS}\nto resume, run the same command with --resume --out out\n"
    );
    assert!(ended.err.ends_with(&expect), "{}", ended.err);
    assert!(ended.out.starts_with(&format!("steps          {made} of {STEPS}\n")), "{}", ended.out);
    assert!(!read_adapter(&world.path("out")).unwrap().tensors.is_empty());
    assert_eq!(world.names("out"), [ADAPTER[0], ADAPTER[1], "checkpoint.safetensors", "metrics.jsonl"]);
    world.succeeds("generate --model model --adapter out --prompt hello --max-new-tokens 2 --quiet");

    world.succeeds(&train("out", &format!("{flags} --resume --quiet")));
    world.succeeds(&train("whole", &format!("{flags} --quiet")));
    assert_eq!(updates(&world, "out").len(), STEPS);
    check_same(&world, "out", "whole");
}

#[test]
fn a_killed_run_leaves_a_whole_adapter_or_none_and_is_resumed() {
    let flags = "--steps 400 --save-every 20";
    let world = World::new();
    let mut child = start(&world, "out", flags);
    until("something is saved", || world.path("out/adapter_config.json").exists());
    child.kill().unwrap();
    assert!(!ExitStatus::success(&child.wait().unwrap()));
    assert!(!read_adapter(&world.path("out")).unwrap().tensors.is_empty());

    // The run may have been killed while it wrote a line, or a file.
    world.write("out/.writing-abcdef", "half");
    let metrics = [world.read("out/metrics.jsonl"), b"{\"step\":".to_vec()].concat();
    world.write("out/metrics.jsonl", metrics);
    world.succeeds(&train("out", &format!("{flags} --resume --quiet")));
    assert_eq!(world.names("out"), [ADAPTER[0], ADAPTER[1], "checkpoint.safetensors", "metrics.jsonl"]);
    world.succeeds(&train("whole", &format!("{flags} --quiet")));
    check_same(&world, "out", "whole");
}

#[test]
fn a_run_is_resumed_on_other_devices() {
    let world = World::new();
    world.write("m.toml", "[mesh]\nfsdp = 2\n[store]\nembed = \"fsdp\"\n[compute]\nbatch = \"fsdp\"\n");
    let log = world.hloom(&train("out", "--steps 10 --schedule constant --warmup 5 --mesh m.toml")).err;
    assert!(log.contains("\neach of 2 devices stores "), "{log}");
    world.succeeds(&train("out", "--steps 20 --schedule constant --warmup 5 --resume --quiet"));
    world.succeeds(&train("whole", "--steps 20 --schedule constant --warmup 5 --quiet"));
    let losses = |out| -> Vec<f64> {
        updates(&world, out).iter().map(|[_, loss, ..]| loss.as_f64().unwrap()).collect()
    };
    let (found, expected) = (losses("out"), losses("whole"));
    assert_eq!(found.len(), 20);
    assert!(relative_error(&found, &expected) < 1e-4, "{found:?}\n{expected:?}");
}

#[test]
fn a_packed_run_passes_over_its_rows_in_fewer_steps_and_is_resumed() {
    let world = World::new();
    let train = |out: &str, flags: &str| {
        format!("train --model model --data rows.jsonl --seq 64 --batch 1 --held-out 2 --out {out} {flags}")
    };
    world.succeeds(&train("alone", "--quiet"));
    let log = world.hloom(&train("whole", "--pack")).err;
    assert_eq!((updates(&world, "alone").len(), updates(&world, "whole").len()), (6, 2));
    assert!(log.contains("\n6 samples packed into 2 rows: "), "{log}");
    assert!(log.contains("\n2 held-out samples packed into 1 row: "), "{log}");

    world.succeeds(&train("out", "--pack --steps 1 --schedule constant --warmup 0 --quiet"));
    let refused = "--resume: out/checkpoint.safetensors: pack: expected true, found: false";
    let hint = "give the settings of the run that wrote it";
    let more = "--steps 5 --schedule constant --warmup 0 --quiet";
    world.refuses(&train("out", &format!("{more} --resume")), &format!("error: {refused}\n\nhint: {hint}\n"));
    world.succeeds(&train("out", &format!("{more} --pack --resume")));
    world.succeeds(&train("at-once", &format!("{more} --pack")));
    check_same(&world, "out", "at-once");
}

#[test]
fn a_run_that_is_killed_before_it_saved_leaves_no_adapter() {
    let world = World::new();
    let mut child = start(&world, "out", "--steps 1000000");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(world.names("out"), ["metrics.jsonl"]);
    // The folder is free for another run, which starts a new metrics file.
    world.succeeds(&train("out", "--steps 2 --quiet"));
    assert_eq!(updates(&world, "out").len(), 2);
}

/// Each completion is three bytes and the token that ends it.
#[test]
fn one_pass_sees_every_sample_exactly_once() {
    let world = World::new();
    let check = |rows: usize, flags: &str, steps: usize| {
        let row = |n: usize| format!("{{\"prompt\": \"what is {n}?\", \"completion\": \"one\"}}\n");
        world.write("some.jsonl", (0..rows).map(row).collect::<String>());
        let line = format!(
            "train --model model --data some.jsonl --seq 32 --held-out 0 --out r{rows} --json {flags}"
        );
        let summary: Value = serde_json::from_str(&world.succeeds(&line)).unwrap();
        let found = ["steps", "samples_seen", "label_tokens_seen"].map(|field| summary[field].clone());
        assert_eq!(found, [steps, rows, 4 * rows].map(Value::from), "{rows} rows, {flags}");
        std::fs::remove_dir_all(world.path(&format!("r{rows}"))).unwrap();
    };
    check(7, "--batch 4", 2);
    check(3, "--batch 4", 1);
    check(7, "--batch 2 --accumulate 2", 2);
    check(5, "--batch 2 --accumulate 2", 2);
    check(11, "--batch 2 --pack", 3);
}

#[test]
fn a_second_run_into_the_same_folder_is_refused_while_the_first_lives() {
    let refused = "error: another run is writing to the output folder: out\n\n\
                   hint: wait until it has ended, or set another folder with --out\n";
    let world = World::new();
    let mut first = start(&world, "out", "--steps 100000 --save-every 0");
    world.refuses_while_running(&train("out", "--steps 3 --quiet"), refused);
    first.kill().unwrap();
    first.wait().unwrap();
    // What the killed run left is no obstacle.
    world.succeeds(&train("out", "--steps 3 --quiet"));
    assert_eq!(updates(&world, "out").len(), 3);

    let mut second = start(&world, "again", "--steps 100000 --save-every 20");
    until("something is saved", || world.path("again/adapter_config.json").exists());
    let refused = refused.replace(" out\n", " again\n");
    world.refuses_while_running(&train("again", "--steps 100000 --resume --quiet"), &refused);
    second.kill().unwrap();
    second.wait().unwrap();
}
