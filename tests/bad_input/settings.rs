//! Flags and run files.

use crate::support::world::World;

/// Checks flags of `hloom train`.
#[track_caller]
fn check(flags: &str, expect: &str) {
    World::new().refuses(&format!("train --model model --data rows.jsonl --out out {flags}"), expect);
}

/// Checks a flag that is refused before anything is looked at.
#[track_caller]
fn check_usage(flags: &str, expect: &str) {
    check(flags, &format!("error: {expect}\n\nFor more information, try '--help'.\n"));
}

#[track_caller]
fn check_file(text: &str, expect: &str) {
    let world = World::new();
    world.write("run.toml", text);
    world.refuses("train --config run.toml --out out", expect);
}

#[test]
fn numbers_out_of_range_are_refused() {
    check("--steps 0", "error: --steps: expected at least 1, found: 0\n");
    check("--batch 0", "error: --batch: expected at least 1, found: 0\n");
    check("--seq 1", "error: --seq: expected at least 2, found: 1\n");
    check("--lr nan", "error: --lr: expected a finite number above zero, found: NaN\n");
    check("--lr -1", "error: --lr: expected a finite number above zero, found: -1\n");
    check_usage("--lr fast", "invalid value 'fast' for '--lr <RATE>': invalid float literal");
    check("--rank 0", "error: --rank: expected a rank of at least 1, found 0\n");
    check(
        "--rank 1048576",
        "error: --rank: expected a rank from 1 to 1024 for model.layers.0.self_attn.q_proj, found 1048576\n  \
         hint: a rank of 64 is the full rank of this layer, [64, 64]\n",
    );
    check("--alpha 0", "error: --alpha: expected a number above 0, found 0\n");
}

#[test]
fn targets_that_match_no_linear_are_refused() {
    check(
        "--targets nothing_proj",
        "error: --targets: matches no linear of the model: nothing_proj\n  \
         hint: the linears are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj\n",
    );
    check(
        "--targets q_proj,k_porj",
        "error: --targets: matches no linear of the model: k_porj\n  hint: did you mean `k_proj`?\n",
    );
    check(
        "--targets re:nothing",
        "error: --targets: matches no linear of the model: nothing\n  \
         hint: an expression must match a whole name, such as model.layers.0.self_attn.q_proj\n",
    );
    check(
        "--targets re:(",
        "error: --targets: not a regular expression, at character 2 of (: \
         opening parenthesis without closing parenthesis\n",
    );
    check_usage(
        "--targets q_proj,,",
        "invalid value 'q_proj,,' for '--targets <NAMES>': expected comma-separated names, found: \"q_proj,,\"",
    );
}

#[test]
fn unknown_values_are_refused() {
    check_usage(
        "--dtype int8",
        "invalid value 'int8' for '--dtype <TYPE>': expected `float32` or `bfloat16`, found: int8",
    );
    check_usage(
        "--target metal",
        "invalid value 'metal' for '--target <TARGET>': unknown target: metal (targets: cpu, mi300x, mi325x, mi355x, \
         mi300a, mi250x, h100, h200, b200, b300, gb200, a100-40, a100-80, l40s, a6000, rtx4090, rtx3090, v4, v5e, v5p, \
         v6e, tpu7x, cuda, rocm, tpu, a device file NAME.toml)",
    );
}

#[test]
fn invalid_run_files_are_refused() {
    check_file(
        "model = \"model\"\nstep = 3\n",
        "error: run.toml:2: `step`: unknown setting\n  hint: did you mean `steps`?\n",
    );
    check_file(
        "\n\nsteps = \"many\"\n",
        "error: run.toml:3: `steps`: invalid type: string \"many\", expected a whole number\n",
    );
    check_file("lr = true\n", "error: run.toml:1: `lr`: invalid type: boolean `true`, expected a number\n");
    check_file("lr = 1e-3\nsteps = = 3\n", "error: run.toml:2: extra `=`, expected nothing\n");
    check_file("lr = nan\n", "error: --lr: expected a finite number above zero, found: NaN\n");
    World::new().refuses(
        "train --config none.toml",
        "error: cannot read: none.toml\n  caused by: No such file or directory (os error 2)\n",
    );
}

#[test]
fn invalid_dumps_are_refused() {
    let world = World::new();
    world.refuses(
        "dump --model tini",
        "error: --model: expected a folder, a GGUF file or a built-in model, found none: tini\n\n\
         hint: did you mean `tiny`?\n",
    );
    world.refuses(
        "dump --model gpt2",
        "error: --model: expected a folder, a GGUF file or a built-in model, found none: gpt2\n\n\
         hint: built-in models: llama3.1-8b, llama3.1-70b, llama3.1-405b, llama3.2-1b, llama3.2-3b, smollm2-135m, \
         qwen2.5-0.5b, qwen2.5-7b, qwen2.5-72b, mistral-7b, mistral-7b-v0.1, tiny\n",
    );
    world.refuses("dump --model tiny --rank 0", "error: --rank: expected a rank of at least 1, found 0\n");
    world.refuses(
        "dump --model tiny --out nowhere/tiny.hlo",
        "error: cannot write: nowhere/tiny.hlo\n  caused by: No such file or directory (os error 2)\n",
    );
    world.refuses(
        "dump --model tiny --format proto --json",
        "error: --format: cannot write a binary proto to a JSON object\n\nhint: write it to a file with --out\n",
    );
}

#[test]
fn a_proto_can_be_written_to_a_pipe() {
    let world = World::new();
    let output = world.command("dump --model tiny --format proto").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stderr, b"computing in float32 (the model's own type)\n");
    world.succeeds("dump --model tiny --format proto --out tiny.pb");
    assert!(output.stdout.len() > 1000 && output.stdout == world.read("tiny.pb"));
}

#[test]
fn empty_and_too_long_prompts_are_refused() {
    let world = World::new();
    world.refuses(
        "generate --model model --prompt= --raw --quiet",
        "error: --prompt: expected at least one token, found none\n\nhint: give the text to continue\n",
    );
    let too_long = |flags: &str, tokens: &str| {
        world.refuses(
            &format!("generate --model model --prompt hello --quiet {flags}"),
            &format!(
                "error: --seq: expected room for more than the {tokens} tokens of the prompt, found: {}\n\n\
                 hint: raise it, or shorten the prompt\n",
                flags.rsplit(' ').next().unwrap()
            ),
        );
    };
    too_long("--raw --seq 5", "5");
    world.refuses(
        "generate --model model --prompt hello --raw --seq 0 --quiet",
        "error: --seq: expected 2 to 2147483647, found: 0\n\n\
         hint: leave it out: the default fits the prompt and the new tokens\n",
    );
    too_long("--seq 20", "23");
    world.refuses(
        "generate --model model --prompt hello --max-new-tokens 1000 --quiet",
        "error: --max-new-tokens: expected at most 489 after this prompt, found: 1000\n\n\
         hint: the model supports 512 tokens; --seq allows more\n",
    );
}
