//! One function for each reader.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use hloom::{
    base::{DType, Diagnostics},
    data::{
        ChatTemplate, Ending, Message, MessageRole, SampleFile, SpecialTokens, TemplateInputs, Tokenizer,
        TokenizerFiles,
    },
    hlo::{
        proto,
        raw::{self, AsyncOps, ProtoFile},
        text,
    },
    mesh,
    model::Config,
    runtime::bundle::{Bundle, Contents, sha256},
    step::{StepKind, StepSpec, build, tensors},
    targets::DeviceSpec,
    templates::TemplateLibrary,
    train::{checkpoint, lora_spec, open_adapter},
    weights::{Checkpoint, ModelFiles, WeightsError, read_adapter, read_safetensors},
};

use super::{Files, model, oracle};

/// Every diagnostic of a text has a line.
fn have_lines(diagnostics: &Diagnostics) {
    for diagnostic in &diagnostics.0 {
        assert!(diagnostic.location.line.is_some_and(|line| line >= 1), "no line: {diagnostic}");
    }
}

/// HLO text.
pub fn hlo_text(input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else { return };
    match text::parse(source, "input.hlo") {
        Ok(module) => {
            oracle::prints_and_parses(&module);
            oracle::round_trips(module);
        }
        Err(diagnostics) => have_lines(&diagnostics),
    }
}

/// Any HLO text: what is read prints as a text that reads the same.
pub fn hlo_raw(input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else { return };
    match raw::parse(source, "input.hlo") {
        Ok(module) => {
            let printed = raw::print(&module);
            let again = raw::parse(printed.as_str(), "printed.hlo")
                .unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert_eq!(raw::print(&again), printed);
        }
        Err(diagnostics) => have_lines(&diagnostics),
    }
}

/// Any serialized module: what is read has a proto, and that reads as the same text. So does a text, where the input is one.
pub fn raw_proto(input: &[u8]) {
    let written =
        match std::str::from_utf8(input).ok().and_then(|source| raw::parse(source, "input.hlo").ok()) {
            Some(module) => module,
            None => match raw::from_proto(input, "input.hlo.pb", AsyncOps::Explicit) {
                Ok(found) => found.module,
                Err(diagnostics) => return drop(diagnostics.to_string()),
            },
        };
    // Constants without elements and values that XLA does not know have no proto.
    let Ok(proto) = raw::to_proto(&written, ProtoFile::ModuleWithConfig) else { return };
    let read = |bytes: &[u8]| {
        let found = raw::from_proto(bytes, "written.hlo.pb", AsyncOps::Explicit);
        found.unwrap_or_else(|error| panic!("{error}\n{}", raw::print(&written))).module
    };
    let first = read(&proto.bytes);
    let again = raw::to_proto(&first, ProtoFile::ModuleWithConfig);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{}", raw::print(&first)));
    assert_eq!(raw::print(&read(&again.bytes)), raw::print(&first));
}

/// A serialized `HloModuleProto`.
pub fn hlo_proto(input: &[u8]) {
    match proto::decode(input) {
        Ok(module) => oracle::round_trips(module),
        Err(error) => drop((error.to_string(), error.hint())),
    }
}

/// What a compiled module computes, of a serialized `HloModuleProtoWithConfig`.
pub fn hlo_values(input: &[u8]) {
    let _ = proto::computed_values(input);
}

/// A template that replaces one of ours: its name, a line end, its text.
pub fn template(input: &[u8]) {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return };
    let (name, text) = (&input[..end], &input[end + 1..]);
    let Ok(name) = std::str::from_utf8(name) else { return };
    if name.is_empty() || name.len() > 64 || name.contains(['/', '\0']) {
        return;
    }
    let files = Files::one(&format!("{name}.hlo"), text);
    let templates = match TemplateLibrary::replaced_from(files.folder(), Some("cpu"), &["cpu", "cuda"]) {
        Ok(templates) => templates,
        Err(error) => return drop((error.to_string(), error.hint())),
    };
    let config = model::config();
    let lora = model::lora(&config);
    let spec = StepSpec::new(model::workload(&config, &lora), &templates);
    match build(&spec, StepKind::Train) {
        Ok(program) => oracle::round_trips(program.module.into_module()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(".hlo:") || message.contains(".hlo`"), "names no line: {message}");
            drop(error.hint());
        }
    }
}

/// A mesh file, and one that it may extend.
pub fn mesh(input: &[u8]) {
    let files = Files::split(&["mesh.toml", "base.toml"], input);
    let Ok(loaded) = mesh::load(&files.path("mesh.toml")) else { return };
    let config = model::config();
    let lora = model::lora(&config);
    let workload = model::workload(&config, &lora);
    for devices in [1, 8] {
        let report = mesh::check(&loaded, &tensors(workload), Some(devices));
        report.problems.iter().for_each(|problem| drop(problem.to_string()));
        let Ok(plan) = loaded.plan(&tensors(workload), devices) else { continue };
        let templates = TemplateLibrary::embedded();
        let spec = StepSpec { mesh: Some(&plan), ..StepSpec::new(workload, &templates) };
        build(&spec, StepKind::Evaluate).expect("a step on a checked mesh");
    }
}

/// A model's `config.json`, and the same as TOML.
pub fn model_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for config in [Config::from_json(text, "config.json"), Config::from_toml(text, "config.toml")] {
        match config {
            Ok(config) => drop(config.param_count()),
            Err(diagnostics) => drop(diagnostics.to_string()),
        }
    }
}

/// The settings of a run.
pub fn run_file(input: &[u8]) {
    let files = Files::one("run.toml", input);
    let _ = hloom::cli::check_run_file(&files.path("run.toml"));
}

/// A safetensors file.
pub fn safetensors(input: &[u8]) {
    let files = Files::one("model.safetensors", input);
    let path = files.path("model.safetensors");
    if let Ok(checkpoint) = Checkpoint::open(&path) {
        read_all(&checkpoint);
    }
    let _ = read_safetensors(&path);
}

/// A GGUF file.
pub fn gguf(input: &[u8]) {
    let files = Files::one("model.gguf", input);
    let Ok(model) = ModelFiles::open(&files.path("model.gguf")) else { return };
    if let Ok(config) = model.config() {
        let _ = Config::from_hf(&config, "model.gguf");
    }
    let _ = tokenizer_of(&model);
    if let Ok(checkpoint) = model.checkpoint() {
        read_all(&checkpoint);
    }
}

/// A folder of shards: the index and a shard.
pub fn index(input: &[u8]) {
    let files = Files::split(&["model.safetensors.index.json", "model-1.safetensors"], input);
    if let Ok(checkpoint) = Checkpoint::open(files.folder()) {
        read_all(&checkpoint);
    }
}

/// An adapter: its config and its tensors.
pub fn adapter(input: &[u8]) {
    let files = Files::split(&["adapter_config.json", "adapter_model.safetensors"], input);
    let adapter = match read_adapter(files.folder()) {
        Ok(adapter) => adapter,
        Err(error) => return drop((error.to_string(), error.hint())),
    };
    let config = model::config();
    let _ = lora_spec(&adapter.config).resolve(&config);
    let _ = open_adapter(adapter, &config, "adapter");
}

/// The checkpoint of a training run.
pub fn checkpoint(input: &[u8]) {
    let files = Files::one("checkpoint.safetensors", input);
    if let Ok(saved) = checkpoint::read(files.folder()) {
        let _ = saved.check(&BTreeMap::new(), 10);
        let _ = (saved.steps(), saved.started());
    }
}

/// A bundle: its manifest, in which `MODULE_SHA256` is that of the module, and the module.
pub fn bundle(input: &[u8]) {
    let files = Files::split(&["manifest.json", "module.hlo.pb"], input);
    let module = std::fs::read(files.path("module.hlo.pb")).unwrap_or_default();
    if let Ok(manifest) = std::fs::read_to_string(files.path("manifest.json")) {
        files.write("manifest.json", manifest.replace("MODULE_SHA256", &sha256(&module)).as_bytes());
    }
    match Bundle::open(files.folder(), Contents::All) {
        Ok(bundle) => {
            let config = model::config();
            let lora = model::lora(&config);
            let templates = TemplateLibrary::embedded();
            let _ = bundle.check_model(&config);
            let _ = bundle.mesh_text();
            let _ = bundle.program(&StepSpec::new(model::workload(&config, &lora), &templates));
            let _ = bundle.executable("cpu:1", "");
        }
        Err(error) => drop((error.to_string(), error.hint())),
    }
}

/// Samples of training data.
pub fn rows(input: &[u8]) {
    match SampleFile::parse("samples.jsonl", input) {
        Ok(_) => {}
        Err(error) => drop((error.to_string(), error.hint())),
    }
}

/// A tokenizer: `tokenizer.json`, then `tokenizer_config.json`.
pub fn tokenizer(input: &[u8]) {
    let files = Files::split(&["tokenizer.json", "tokenizer_config.json"], input);
    files.write("config.json", b"{}");
    if let Ok(model) = ModelFiles::open(files.folder()) {
        let _ = tokenizer_of(&model);
    }
}

/// A chat template.
pub fn chat_template(input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else { return };
    let special = BTreeMap::from([("eos_token".to_owned(), "</s>".to_owned())]);
    let Ok(template) = ChatTemplate::new(source, special, now()) else { return };
    let _ = template.render(&conversation(), &TemplateInputs::default(), Ending::Closed);
    let _ = template.render(&conversation(), &TemplateInputs::default(), Ending::Prompt);
}

/// A device file.
pub fn device(input: &[u8]) {
    let files = Files::one("device.toml", input);
    match DeviceSpec::load(&files.path("device.toml")) {
        Ok(_) => {}
        Err(error) => drop(error.to_string()),
    }
}

/// The settings beside golden values.
pub fn golden(input: &[u8]) {
    let files = Files::one("expected.json", input);
    let _ = hloom::train::parity::check_settings(&files.path("expected.safetensors"));
}

fn read_all(checkpoint: &Checkpoint) {
    for name in checkpoint.names() {
        let _ = checkpoint.literal(name, DType::F32);
    }
}

fn tokenizer_of(model: &ModelFiles) -> Result<(), WeightsError> {
    let (tokenizer, config) = (model.tokenizer_json()?, model.tokenizer_config()?);
    let (config, chat_template) = (config.to_string(), model.chat_template()?);
    let additional_chat_templates = model.additional_chat_templates()?;
    let files = TokenizerFiles {
        tokenizer: &tokenizer,
        config: config.as_bytes(),
        chat_template: chat_template.as_deref(),
        additional_chat_templates: &additional_chat_templates,
        ..TokenizerFiles::default()
    };
    let Ok(tokenizer) = Tokenizer::new(files, now()) else { return Ok(()) };
    if let Ok(ids) = tokenizer.encode("a word, <s>\u{e4} 7") {
        let _ = tokenizer.decode(&ids, SpecialTokens::Keep);
    }
    if let Ok(template) = tokenizer.chat_template() {
        let _ = template.render(&conversation(), &TemplateInputs::default(), Ending::Prompt);
    }
    Ok(())
}

fn conversation() -> [Message; 2] {
    [Message::new(MessageRole::User, "a question"), Message::new(MessageRole::Assistant, "an answer")]
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}
