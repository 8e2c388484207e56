//! SmolLM2-135M-Instruct from its GGUF file, against what transformers says of it (golden/smollm2/expected.json).

use std::{collections::BTreeMap, fs, io, num::NonZeroUsize, path::Path, process::Command};

use crate::support::{Random, python, relative_error};
use hloom::{
    base::{DType, Literal},
    data::{Batch, Ending, Message, MessageRole, SpecialTokens, TemplateInputs, Tokenizer},
    model::{LoraPlan, LoraSpec, nn::Attention},
    pjrt::ProgramFormat,
    runtime::Engine,
    step::{Remat, StepOptions, StepSpec, Workload},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin, package_file},
    train::{Model, Trainer, adapter_config, generate::greedy, initial_factors, peft_tensors},
    weights::{Adapter, write_adapter},
};
use serde::Deserialize;

const SEQ: usize = 64;

#[derive(Deserialize)]
struct Expected {
    passages: Vec<Passage>,
    chats: Vec<Chat>,
}

#[derive(Deserialize)]
struct Passage {
    text: String,
    ids: Vec<u32>,
    loss: f64,
    top_ids: Vec<usize>,
    top_logits: Vec<f32>,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Turn>,
    prompt: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    greedy_text: String,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

#[test]
fn passages_and_chats_are_what_transformers_says() {
    let expected: Expected = serde_json::from_str(include_str!("golden/smollm2/expected.json")).unwrap();
    let model = Model::open(&package_file("smollm2")).unwrap();
    let tokenizer = model.tokenizer(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let lora = LoraSpec::all_linear(2, 4.0).resolve(&model.config).unwrap();
    let templates = TemplateLibrary::embedded();
    let mut trainer = trainer(&model, &lora, &templates, StepOptions::for_length(SEQ));
    trainer.start(&initial_factors(&model.config, &lora, 0)).unwrap();
    for passage in &expected.passages {
        check_passage(passage, &tokenizer, &mut trainer);
    }
    for chat in &expected.chats {
        check_chat(chat, &tokenizer, &mut trainer);
    }
}

/// The model, without adapters yet.
fn trainer<'a>(
    model: &'a Model,
    lora: &'a LoraPlan,
    templates: &'a TemplateLibrary,
    options: StepOptions,
) -> Trainer<'a> {
    let workload = Workload::new(&model.config, lora, DType::F32, 1, SEQ);
    let spec = StepSpec { options, ..StepSpec::new(workload, templates) };
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), &Target::default(), ProgramFormat::Hlo).unwrap();
    Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap()
}

/// Thirty layers, so that there are full groups and a shorter tail.
#[test]
fn gradients_do_not_depend_on_the_save_policy() {
    let model = Model::open(&package_file("smollm2")).unwrap();
    let lora = LoraSpec::all_linear(2, 4.0).resolve(&model.config).unwrap();
    let templates = TemplateLibrary::embedded();
    let mut random = Random::named("adapters and tokens");
    let factors: BTreeMap<_, _> = initial_factors(&model.config, &lora, 0)
        .into_iter()
        .map(|(id, literal)| (id, random.array(DType::F32, &literal.shape().dims, 0.05)))
        .collect();
    let ids: Vec<i32> = (0..SEQ).map(|_| random.below(model.config.vocab_size) as i32).collect();
    let batch = Batch::new(Literal::s32s([1, SEQ], &ids), Literal::s32s([1, SEQ], &ids));
    let gradients = |options: StepOptions| {
        let mut trainer = trainer(&model, &lora, &templates, options);
        trainer.start(&factors).unwrap();
        let (loss, gradients) = trainer.gradients(std::slice::from_ref(&batch)).unwrap();
        (loss, gradients.values().flat_map(Literal::to_f64s).collect::<Vec<f64>>())
    };
    let usual = StepOptions::for_length(SEQ);
    let (loss, expected) = gradients(StepOptions { remat: Some(Remat::Full), ..usual });
    let lean = StepOptions { attention: Attention::Blocks(20), loss_chunk: NonZeroUsize::new(7), ..usual };
    for (remat, every) in [(Remat::Dots, 4), (Remat::None, 7), (Remat::Offload, 9)] {
        let (remat, remat_every) = (Some(remat), NonZeroUsize::new(every));
        let (found_loss, found) = gradients(StepOptions { remat, remat_every, ..lean });
        assert!((found_loss - loss).abs() <= 1e-5 * loss, "{remat:?}: {found_loss} instead of {loss}");
        let error = relative_error(&found, &expected);
        assert!(error <= 1e-5, "{remat:?}, groups of {every}: {error:.1e}");
    }
}

#[track_caller]
fn check_passage(passage: &Passage, tokenizer: &Tokenizer, trainer: &mut Trainer<'_>) {
    let Passage { text, ids, loss, top_ids, top_logits } = passage;
    assert_eq!(&tokenizer.encode(text).unwrap(), ids, "{text}");
    let padded = |fill: i32| {
        let mut row: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        row.resize(SEQ, fill);
        Literal::s32s([1, SEQ], &row)
    };
    let found = trainer.evaluate([Batch::new(padded(0), padded(Batch::IGNORED))]).unwrap();
    assert!((found - loss).abs() <= 1e-3, "{text}: expected the loss {loss}, found {found}");

    let position = Literal::s32s([1], &[ids.len() as i32 - 1]);
    let logits = trainer.next_logits(&padded(0), &position).unwrap().to_f32s();
    for (&id, &expected) in top_ids.iter().zip(top_logits) {
        let found = logits[id];
        assert!((found - expected).abs() <= 1e-3, "{text}: {id}: expected {expected}, found {found}");
    }
    assert!(logits.iter().all(|&logit| logit <= logits[top_ids[0]]), "{text}: another token is likelier");
}

#[track_caller]
fn check_chat(chat: &Chat, tokenizer: &Tokenizer, trainer: &mut Trainer<'_>) {
    let message = |turn: &Turn| {
        let role = MessageRole::ALL.into_iter().find(|role| role.name() == turn.role);
        Message::new(role.unwrap(), turn.content.clone())
    };
    let messages: Vec<Message> = chat.messages.iter().map(message).collect();
    let prompt = tokenizer
        .chat_template()
        .unwrap()
        .render(&messages, &TemplateInputs::default(), Ending::Prompt)
        .unwrap();
    assert_eq!(prompt, chat.prompt);
    let ids = tokenizer.encode_plain(&prompt).unwrap();
    assert_eq!(ids, chat.prompt_ids);
    let found = greedy(trainer, &ids, chat.greedy_ids.len(), tokenizer).unwrap();
    assert_eq!(found, chat.greedy_ids);
    assert_eq!(tokenizer.decode(&found, SpecialTokens::Keep).unwrap(), chat.greedy_text);
}

#[test]
fn peft_computes_the_same_from_the_adapter_we_write() {
    let Some(python) = python("peft", "HLOOM_PEFT_PYTHON") else { return };
    let gguf = package_file("smollm2");
    let model = Model::open(&gguf).unwrap();
    let spec = LoraSpec::all_linear(4, 8.0);
    let lora = spec.resolve(&model.config).unwrap();
    let templates = TemplateLibrary::embedded();
    let mut trainer = trainer(&model, &lora, &templates, StepOptions::for_length(SEQ));
    trainer.start(&initial_factors(&model.config, &lora, 0)).unwrap();
    let ids: Vec<i32> = (0..SEQ as i32).map(|i| 1000 + 37 * i).collect();
    let ids = Literal::s32s([1, SEQ], &ids);
    for _ in 0..4 {
        trainer.step(&Batch::new(ids.clone(), ids.clone()), 3e-3).unwrap();
    }

    let folder = tempfile::tempdir().unwrap();
    let tensors = peft_tensors(&trainer.trained().unwrap(), &model.config, &lora);
    let adapter = Adapter { config: adapter_config(&spec, None), tensors };
    write_adapter(folder.path(), &adapter).unwrap();
    let logits = trainer.next_logits(&ids, &Literal::s32s([1], &[SEQ as i32 - 1])).unwrap().to_f32s();
    let golden = folder.path().join("logits.json");
    let json = serde_json::json!({ "ids": ids.to_f64s().iter().map(|&id| id as u32).collect::<Vec<_>>(), "logits": logits });
    fs::write(&golden, json.to_string()).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peft_check.py");
    let output = Command::new(python).arg(script).args([&gguf, folder.path(), &golden]).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    io::Write::write_all(&mut io::stderr(), &output.stdout).unwrap();
}
