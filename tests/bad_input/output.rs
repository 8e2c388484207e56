//! Output folders, and checkpoints to resume from.

use std::{fs, process::Command};

use crate::support::world::{Ran, TRAIN, World, golden, ran};

/// A world in which a run has ended.
fn trained() -> World {
    let world = World::new();
    world.succeeds(TRAIN);
    world
}

#[track_caller]
fn check_resume(world: &World, flags: &str, expect: &str) {
    world.refuses(&format!("{TRAIN} --resume {flags}"), expect);
}

#[test]
fn an_output_folder_with_an_adapter_is_refused() {
    trained().refuses(
        TRAIN,
        "error: the output folder already contains an adapter: out\n\n\
         hint: set another folder with --out, or continue the run in it with --resume\n",
    );
}

#[test]
fn an_output_path_below_a_file_is_refused() {
    let refuses = |out: &str| {
        World::new().refuses(
            &format!("train --model model --data rows.jsonl --quiet --out {out}"),
            &format!("error: cannot write to folder: {out}\n  caused by: not a directory\n"),
        );
    };
    refuses("rows.jsonl");
    refuses("rows.jsonl/below/it");
}

#[test]
fn an_output_folder_without_write_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    fs::create_dir(world.path("theirs")).unwrap();
    fs::set_permissions(world.path("theirs"), fs::Permissions::from_mode(0o555)).unwrap();
    let line = TRAIN.replace("--out out", "--out theirs/out");
    // A superuser may write anywhere.
    match fs::write(world.path("theirs/file"), "") {
        Ok(()) => drop(world.succeeds(&line)),
        Err(_) => world
            .refuses(&line, "error: cannot write to folder: theirs/out\n  caused by: permission denied\n"),
    }
}

#[test]
fn a_full_disk_is_reported() {
    let world = World::new();
    // Blocks of 512 or 1024 bytes: enough for the metrics, too few for the adapter.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let hloom = world.command(TRAIN);
    let mut shell = Command::new("sh");
    shell.args(["-c", limited]).arg(hloom.get_program()).args(hloom.get_args());
    shell.current_dir(world.path("."));
    shell.envs(hloom.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Ran { code, out, err } = ran(shell.output().unwrap());
    let expect = "error: cannot write out/checkpoint.safetensors\n  caused by: File too large (os error 27)\n\n\
                  hint: free some space, or write to another disk; what was there before is unchanged\n";
    assert_eq!((code, out.as_str(), err.as_str()), (Some(2), "", expect));
    assert_eq!(world.names("out"), ["metrics.jsonl"]);
}

#[test]
fn resuming_without_a_checkpoint_is_refused() {
    let world = World::new();
    check_resume(
        &world,
        "",
        "error: --resume: there is no checkpoint: out/checkpoint.safetensors\n\nhint: start a new run, without --resume\n",
    );
    world.refuses(
        "train --model model --data rows.jsonl --resume",
        "error: --resume: requires --out\n\n\
         hint: set the folder of the run to resume, such as `--out out`\n",
    );
}

#[test]
fn checkpoints_of_another_run_are_refused() {
    let world = trained();
    let other = |flags: &str, problem: &str| {
        check_resume(
            &world,
            flags,
            &format!(
                "error: --resume: out/checkpoint.safetensors: {problem}\n\n\
                 hint: give the settings of the run that wrote it\n"
            ),
        );
    };
    other("--rank 4", "r: expected 8, found: 4");
    other("--seed 3", "seed: expected 0, found: 3");
    other("--batch 1", "batch: expected 4, found: 1");
    other("--alpha 4", "lora_alpha: expected 16, found: 4");
}

#[test]
fn a_truncated_checkpoint_is_refused() {
    let world = trained();
    let whole = world.read("out/checkpoint.safetensors").len();
    world.cut("out/checkpoint.safetensors", 5000);
    check_resume(
        &world,
        "",
        &format!(
            "error: cannot resume from out/checkpoint.safetensors\n  \
             caused by: out/checkpoint.safetensors is truncated: expected {whole} bytes, found 5000\n\n\
             hint: start a new run in another folder, with --out and without --resume\n"
        ),
    );
}

#[test]
fn a_checkpoint_identifies_the_model_by_content_not_by_path() {
    let world = trained();
    let resume = |model: &str| TRAIN.replace("--model model", &format!("--model {model}")) + " --resume";
    let more = |model: &str, steps: usize| {
        world.succeeds(&resume(model).replace("--steps 2", &format!("--steps {steps}")));
    };
    more("./model", 3);
    more("model/", 4);
    more(&world.path("model").display().to_string(), 5);
    fs::rename(world.path("model"), world.path("moved")).unwrap();
    more("moved", 6);
    fs::rename(world.path("moved"), world.path("model")).unwrap();

    let line = TRAIN.replace("--steps 2", "--steps 9");
    let refused = |problem: &str| {
        let Ran { code, err, .. } = world.hloom(&format!("{line} --resume"));
        assert_eq!(code, Some(2), "{err}");
        let expect = format!("error: --resume: out/checkpoint.safetensors: model {problem}");
        assert!(err.starts_with(&expect), "{err}");
    };
    let config = world.read("model/config.json");
    world.change_json("model/config.json", |config| {
        config["rope_parameters"]["rope_theta"] = serde_json::json!(20_000.0);
    });
    refused("rope: expected ");
    world.write("model/config.json", config);
    let weights = world.read("model/model.safetensors");
    world.change_tensors("model/model.safetensors", |tensors| {
        let tensor = tensors.get_mut("model.layers.1.mlp.down_proj.weight").unwrap();
        let changed: Vec<f32> = tensor.to_f32s().into_iter().map(|value| value * 1.25).collect();
        *tensor = hloom::base::Literal::f32s(tensor.shape().dims.clone(), &changed);
    });
    refused("weights (SHA-256 of sizes and samples): expected ");
    world.write("model/model.safetensors", weights);
    world.change_json("model/tokenizer.json", |tokenizer| {
        tokenizer["model"]["dropout"] = serde_json::json!(null)
    });
    refused("tokenizer (SHA-256): expected ");
}

#[test]
fn resuming_with_other_templates_is_refused() {
    let world = trained();
    fs::create_dir(world.path("mine")).unwrap();
    let template = fs::read_to_string(golden("../../hlo-templates/rms_norm.hlo")).unwrap();
    world.write("mine/rms_norm.hlo", format!("{template}\n"));
    let line = format!("{} --resume --templates mine", TRAIN.replace("--steps 2", "--steps 3"));
    let Ran { code, err, .. } = world.hloom(&line);
    let expect =
        "error: --resume: out/checkpoint.safetensors: template rms_norm (SHA-256): expected nothing, found: ";
    assert!(code == Some(2) && err.starts_with(expect), "{err}");
}
