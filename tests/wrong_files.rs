//! Every reader of every input format, given files that are something else: the error names the file and what it seems
//! to be.

use std::fs;

use crate::support::world::{Ran, TRAIN, World, golden};

/// Files as people have them in place of others, and how an error calls them.
fn impostors() -> Vec<(Vec<u8>, &'static str)> {
    let pointer = "version https://git-lfs.github.com/spec/v1\n\
                   oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 2336927\n";
    let page =
        "\n<!DOCTYPE html>\n<html lang=\"en\"><head><title>Log in</title></head><body></body></html>\n";
    vec![(pointer.into(), "a Git LFS pointer"), (page.into(), "an HTML page")]
}

/// A file, and a command that reads it.
const READERS: &[(&str, &str)] = &[
    ("model/config.json", TRAIN),
    ("model/tokenizer.json", TRAIN),
    ("model/tokenizer_config.json", TRAIN),
    ("model/special_tokens_map.json", TRAIN),
    ("model/added_tokens.json", TRAIN),
    ("model/generation_config.json", "generate --model model --prompt hi --quiet"),
    ("model/chat_template.jinja", "generate --model model --prompt hi --quiet"),
    ("model/model.safetensors", TRAIN),
    ("sharded/model.safetensors.index.json", "train --model sharded --data rows.jsonl --out out --quiet"),
    ("sharded/1.safetensors", "train --model sharded --data rows.jsonl --out out --quiet"),
    ("model.gguf", "train --model model.gguf --data rows.jsonl --out out --quiet"),
    ("adapter/adapter_config.json", "generate --model model --adapter adapter --prompt hi --quiet"),
    ("adapter/adapter_model.safetensors", "generate --model model --adapter adapter --prompt hi --quiet"),
    ("run/checkpoint.safetensors", "train --model model --data rows.jsonl --out run --resume --quiet"),
    ("case/expected.safetensors", PARITY),
    ("case/expected.json", PARITY),
    ("rows.jsonl", TRAIN),
    ("run.toml", "train --config run.toml --quiet"),
    ("mesh.toml", "check mesh.toml --model tiny"),
    ("mesh.toml", "train --model model --data rows.jsonl --mesh mesh.toml --quiet"),
    ("device.toml", "compile --model tiny --target device.toml:8 --out bundle --quiet"),
    ("templates/rms_norm.hlo", "dump --model tiny --templates templates"),
    ("bundle/manifest.json", BUNDLE),
    ("plugin.so", "plugin info ./plugin.so"),
    ("plugin.so", "train --model model --data rows.jsonl --out out --plugin ./plugin.so --quiet"),
];

const PARITY: &str = "parity --model model --adapter case --expected case/expected.safetensors --quiet";
const BUNDLE: &str = "train --model model --data rows.jsonl --out out --bundle bundle --quiet";

/// A world in which every file of [`READERS`] is in place.
fn world() -> World {
    let world = World::new();
    for folder in ["sharded", "adapter", "run", "case", "templates", "bundle"] {
        fs::create_dir(world.path(folder)).unwrap();
    }
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        world.write(&format!("sharded/{file}"), world.read(&format!("model/{file}")));
    }
    world.write("sharded/1.safetensors", world.read("model/model.safetensors"));
    let case = golden("llama31");
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(case.join(file), world.path("adapter").join(file)).unwrap();
        fs::copy(case.join(file), world.path("case").join(file)).unwrap();
    }
    for file in ["expected.json", "expected.safetensors"] {
        fs::copy(case.join(file), world.path("case").join(file)).unwrap();
    }
    // An index of one shard, which holds every tensor.
    let names = hloom::weights::Checkpoint::open(&world.path("model/model.safetensors")).unwrap();
    let map: serde_json::Map<_, _> =
        names.names().map(|name| (name.to_owned(), "1.safetensors".into())).collect();
    let index = serde_json::json!({"metadata": {}, "weight_map": map});
    world.write("sharded/model.safetensors.index.json", index.to_string());
    world
}

#[test]
fn a_file_that_is_something_else_is_named_as_what_it_seems_to_be() {
    let world = world();
    let mut wrong = Vec::new();
    for (file, line) in READERS {
        let name = file.rsplit('/').next().unwrap_or(file);
        let before = fs::read(world.path(file)).ok();
        for (content, kind) in impostors() {
            let _ = fs::remove_dir_all(world.path("out"));
            world.write(file, &content);
            let Ran { code, out, err } = world.hloom(line);
            // Problems of a mesh config are results of `check`.
            let err = err + &out;
            if !matches!(code, Some(2 | 3)) || !err.contains(name) || !err.contains(kind) {
                wrong.push(format!("{file} as {kind}, `{line}`: {code:?}\n{err}"));
            }
        }
        match before {
            Some(content) => world.write(file, content),
            None => world.remove(file),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), READERS.len() * 2, wrong.join("\n"));
}

/// A link, and a command with a setting that names it.
#[cfg(unix)]
const LINKS: &[(&str, &str)] = &[
    ("link", "train --model link --data rows.jsonl --out out --quiet"),
    ("link", "generate --model link --prompt hi --quiet"),
    ("link", "dump --model link"),
    ("link", "check mesh.toml --model link"),
    ("link", "compile --model link --out bundle --quiet"),
    ("smollm2-135m", "generate --model smollm2-135m --prompt hi --offline --quiet"),
    ("link", "generate --model model --adapter link --prompt hi --quiet"),
    ("link", "parity --model model --adapter link --expected case/expected.safetensors --quiet"),
    ("link", "train --model model --data link --out out --quiet"),
];

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_named_with_its_target() {
    let world = world();
    world.write("mesh.toml", "[mesh]\nfsdp = 1\n");
    for (link, line) in LINKS {
        std::os::unix::fs::symlink("cache/blob", world.path(link)).unwrap();
        let expect = format!(
            "error: {link} is a symbolic link to a file that does not exist: cache/blob\n\n\
             hint: the download is incomplete or the target was moved: download it again, or copy it with links \
             followed (`cp -rL`)\n"
        );
        let Ran { code, out, err } = world.hloom(line);
        assert_eq!((code, out.as_str(), err.as_str()), (Some(2), "", expect.as_str()), "{line}");
        assert!(!world.path("out").exists() && !world.path("bundle/manifest.json").exists(), "{line}");
        world.remove(link);
    }
}
