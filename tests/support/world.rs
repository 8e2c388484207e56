//! The `hloom` program in a folder of its own, which holds a model of two layers, its tokenizer and a few rows.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use hloom::{
    base::Literal,
    runtime::bundle::sha256,
    testing::{CpuBuild, cpu_plugin_path, store},
    weights::{read_safetensors, write_safetensors},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A run that is over in a moment. It says nothing but what is wrong.
pub const TRAIN: &str = "train --model model --data rows.jsonl --out out --steps 2 --seq 32 --quiet";

/// Commands run in it, so that what they say of its files names no folder of this machine.
pub struct World {
    folder: TempDir,
}

/// How a command ended.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl World {
    pub fn new() -> Self {
        cpu_plugin_path(CpuBuild::Pinned);
        let world = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(world.path("model")).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden("llama31").join(file), world.path("model").join(file)).unwrap();
        }
        world.write("model/tokenizer.json", tokenizer_json());
        let config = json!({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"});
        world.write("model/tokenizer_config.json", config.to_string());
        let template = "{% for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}\
                        {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
        world.write("model/chat_template.jinja", template);
        let row = |n: usize| format!("{}\n", json!({"prompt": format!("what is {n}?"), "completion": "one"}));
        world.write("rows.jsonl", (0..8).map(row).collect::<String>());
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// Cuts a file short.
    pub fn cut(&self, name: &str, bytes: u64) {
        fs::File::options().write(true).open(self.path(name)).unwrap().set_len(bytes).unwrap();
    }

    pub fn change_json(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut json = serde_json::from_slice(&self.read(name)).unwrap();
        change(&mut json);
        self.write(name, json.to_string());
    }

    /// Changes the manifest of the bundle in `bundle`, and its digest.
    pub fn change_manifest(&self, change: impl FnOnce(&mut Value)) {
        self.change_json("bundle/manifest.json", change);
        self.write_manifest(&self.read("bundle/manifest.json"));
    }

    /// Writes the manifest of the bundle in `bundle`, and its digest.
    pub fn write_manifest(&self, text: &[u8]) {
        self.write("bundle/manifest.json", text);
        self.write("bundle/manifest.sha256", format!("{}  manifest.json\n", sha256(text)));
    }

    /// Changes a file of the bundle in `bundle`, and every digest of it.
    pub fn change_in_bundle(&self, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let path = format!("bundle/{name}");
        let bytes = change(self.read(&path));
        self.write(&path, &bytes);
        self.change_manifest(|manifest| {
            manifest["files"][name] = sha256(&bytes).into();
            if name == "module.hlo.pb" {
                manifest["module_sha256"] = sha256(&bytes).into();
            }
        });
    }

    pub fn change_tensors(&self, name: &str, change: impl FnOnce(&mut BTreeMap<String, Literal>)) {
        let mut tensors = read_safetensors(&self.path(name)).unwrap();
        change(&mut tensors);
        write_safetensors(&self.path(name), &tensors, &BTreeMap::new()).unwrap();
    }

    /// A command whose arguments have spaces between them, with the user's store.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hloom"));
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        command.env("HLOOM_STORE", std::path::absolute(store().root()).unwrap()).stdin(Stdio::null());
        command
    }

    pub fn hloom(&self, line: &str) -> Ran {
        ran(self.command(line).output().unwrap())
    }

    /// Runs a command that must succeed; gives its results.
    #[track_caller]
    pub fn succeeds(&self, line: &str) -> String {
        let Ran { code, out, err } = self.hloom(line);
        assert_eq!(code, Some(0), "{err}");
        out
    }

    /// Checks that a command is refused as bad input: it says `expect`, gives no results and changes no file.
    #[track_caller]
    pub fn refuses(&self, line: &str, expect: &str) {
        self.refuses_command(&mut self.command(line), expect);
    }

    #[track_caller]
    pub fn refuses_command(&self, command: &mut Command, expect: &str) {
        let before = self.files();
        let Ran { code, out, err } = ran(command.output().unwrap());
        assert_eq!(err, expect);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        let after = self.files();
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before));
        assert!(after == before, "files have changed");
    }

    /// Checks that a command is refused as bad input, while another one changes files.
    #[track_caller]
    pub fn refuses_while_running(&self, line: &str, expect: &str) {
        let Ran { code, out, err } = self.hloom(line);
        assert_eq!((code, out.as_str(), err.as_str()), (Some(2), "", expect));
    }

    /// The names in a folder; none if it is not there.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return vec![] };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Every file and folder with its content.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn add(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    files.insert(path.clone(), vec![]);
                    add(&path, files);
                } else {
                    let content = fs::read(&path).unwrap();
                    files.insert(path, content);
                }
            }
        }
        let mut files = BTreeMap::new();
        add(self.folder.path(), &mut files);
        files
    }
}

pub fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The folder of a golden case.
pub fn golden(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(case)
}

/// A byte-level tokenizer without merges, of as many tokens as the model has: the last bytes are left out for it.
fn tokenizer_json() -> String {
    const SPECIAL: [&str; 3] = ["<pad>", "<s>", "</s>"];
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=255).filter(move |byte| !printable(byte)).zip(0x100..).map(|(_, code)| code);
    let others: Vec<u32> = others.collect();
    let alphabet = others.into_iter().chain((0..=255).filter(printable)).filter_map(char::from_u32);
    let tokens = SPECIAL.into_iter().map(str::to_owned).chain(alphabet.map(String::from)).take(256);
    let vocab: serde_json::Map<_, _> = tokens.zip(0..).map(|(token, id)| (token, json!(id))).collect();
    let added = SPECIAL.iter().zip(0..).map(|(content, id)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    });
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
    .to_string()
}

/// Waits for something that another process does.
#[track_caller]
pub fn until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(120), "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
