//! What a model's files leave open or contradict, and the values that transformers 5.24 computes from them.

use std::collections::BTreeMap;

use hloom::{
    base::{ArrayShape, DType, Diagnostic, Literal},
    data::Batch,
    model::LoraPlan,
    pjrt::ProgramFormat,
    runtime::Engine,
    step::{StepSpec, Workload},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
    train::{Model, Trainer},
};
use serde_json::json;

use crate::support::world::{Ran, TRAIN, World};

const EMBED: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";
const WEIGHTS: &str = "model/model.safetensors";

type Tensors = BTreeMap<String, Literal>;

fn with(tensors: impl FnOnce(&mut Tensors), tied: bool) -> World {
    let world = World::new();
    world.change_tensors(WEIGHTS, tensors);
    world.change_json("model/config.json", |config| config["tie_word_embeddings"] = json!(tied));
    world
}

/// What opening the model gives: whether it is tied, and what it warns of.
#[track_caller]
fn opened(world: &World) -> (bool, Vec<String>) {
    let model = Model::open(&world.path("model")).unwrap();
    let folder = format!("{}/", world.path(".").display()).replace("/./", "/");
    let text = |diagnostic: &Diagnostic| diagnostic.to_string().replace(&folder, "");
    (model.config.tie_word_embeddings, model.warnings.iter().map(text).collect())
}

fn as_type(literal: &Literal, dtype: DType) -> Literal {
    Literal::from_f64s(ArrayShape::new(dtype, literal.shape().dims.clone()), literal.to_f64s())
}

/// The mean loss of the token ids 3 to 34.
fn loss(world: &World) -> f64 {
    const SEQ: usize = 32;
    let model = Model::open(&world.path("model")).unwrap();
    let (lora, templates) = (LoraPlan::none(&model.config), TemplateLibrary::embedded());
    let workload = Workload::new(&model.config, &lora, DType::F32, 1, SEQ);
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), &Target::default(), ProgramFormat::Hlo).unwrap();
    let spec = StepSpec::new(workload, &templates);
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap();
    trainer.start(&Default::default()).unwrap();
    let ids = Literal::s32s([1, SEQ], &(3..35).collect::<Vec<i32>>());
    trainer.evaluate([Batch::new(ids.clone(), ids)]).unwrap()
}

/// The losses of `AutoModelForCausalLM.from_pretrained` of transformers 5.24 on the same files.
#[test]
fn losses_are_those_of_transformers() {
    let check = |world: World, expect: f64| {
        let found = loss(&world);
        assert!((found - expect).abs() < 1e-5 * expect, "expected {expect}, found {found}");
    };
    check(with(|_| {}, false), 5.749039649963379);
    check(with(|_| {}, true), 5.749039649963379);
    check(with(|tensors| drop(tensors.remove(HEAD)), true), 5.584107875823975);
    check(with(|tensors| drop(tensors.remove(EMBED)), true), 5.59319543838501);
    let doubles = |tensors: &mut Tensors| {
        tensors.values_mut().for_each(|tensor| *tensor = as_type(tensor, DType::F64));
    };
    check(with(doubles, false), 5.749039649963379);
    let bare = |tensors: &mut Tensors| {
        let bare = |name: String| name.trim_start_matches("model.").to_owned();
        *tensors = std::mem::take(tensors).into_iter().map(|(name, tensor)| (bare(name), tensor)).collect();
    };
    check(with(bare, false), 5.749039649963379);
    let world = World::new();
    world.change_json("model/config.json", |config| config["rope_parameters"] = json!(null));
    check(world, 5.772761344909668);
}

/// Which head is used, as transformers decides it.
#[test]
fn a_head_is_tied_where_the_files_agree_with_the_config() {
    let check = |tensors: fn(&mut Tensors), tied, expect: (bool, &[&str])| {
        let (found, warnings) = opened(&with(tensors, tied));
        assert_eq!(
            (found, warnings.iter().map(String::as_str).collect::<Vec<_>>()),
            (expect.0, expect.1.to_vec())
        );
    };
    let differs = "model: `lm_head.weight`: differs from `model.embed_tokens.weight`, though `tie_word_embeddings` is \
                   true: it is used as a head of its own\n  \
                   hint: set `tie_word_embeddings` to false in config.json, or remove the tensor if it is not meant";
    check(|_| {}, false, (false, &[]));
    check(|_| {}, true, (false, &[differs]));
    let copied = |tensors: &mut Tensors| drop(tensors.insert(HEAD.into(), tensors[EMBED].clone()));
    check(copied, true, (true, &[]));
    check(copied, false, (false, &[]));
    check(|tensors| drop(tensors.remove(HEAD)), true, (true, &[]));
    check(
        |tensors| drop(tensors.remove(EMBED)),
        true,
        (
            true,
            &["model: `lm_head.weight`: used for `model.embed_tokens.weight` too, which the files lack: \
               `tie_word_embeddings` is true"],
        ),
    );
    // The head in float16: another head, unless float16 holds the embedding exactly.
    let rounded = |tensors: &mut Tensors| {
        tensors.insert(HEAD.into(), as_type(&tensors[EMBED], DType::F16));
    };
    check(rounded, true, (false, &[differs]));
    let exact = |tensors: &mut Tensors| {
        tensors.insert(HEAD.into(), as_type(&tensors[EMBED], DType::F16));
        tensors.insert(EMBED.into(), as_type(&tensors[HEAD], DType::F32));
    };
    check(exact, true, (true, &[]));
}

#[test]
fn tied_weights_of_which_none_fits_are_refused() {
    let check = |tensors: fn(&mut Tensors), tied, expect: &str| with(tensors, tied).refuses(TRAIN, expect);
    check(|tensors| drop(tensors.remove(HEAD)), false, "error: model: `lm_head.weight`: missing\n");
    check(
        |tensors| {
            tensors.remove(HEAD);
            tensors.remove(EMBED);
        },
        true,
        "error: model: `model.embed_tokens.weight`: missing\n",
    );
    check(
        |tensors| drop(tensors.insert(HEAD.into(), Literal::f32s([2, 64], &[0.0; 128]))),
        true,
        "error: model/model.safetensors: `lm_head.weight`: expected shape [256, 64], found [2, 64]\n",
    );
}

#[test]
fn a_warning_of_the_files_is_printed() {
    let world = with(|_| {}, true);
    let ran = world.hloom(TRAIN.trim_end_matches(" --quiet"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("warning: model: `lm_head.weight`: differs from"), "{}", ran.err);
}

#[test]
fn prefixes_of_wrappers_are_left_out() {
    let check = |rename: &dyn Fn(&str) -> String, expect: &str| {
        let world = with(
            |tensors| {
                *tensors = std::mem::take(tensors).into_iter().map(|(name, t)| (rename(&name), t)).collect()
            },
            false,
        );
        let expect = format!("model: the tensor names {expect}; this difference is ignored");
        assert_eq!(opened(&world), (false, vec![expect]));
    };
    for prefix in ["_orig_mod.", "module.", "base_model.model.", "language_model.", "model."] {
        check(
            &|name| format!("{prefix}{name}"),
            &format!("have the prefix `{prefix}`, which a Llama's do not have"),
        );
    }
    check(&|name| name.trim_start_matches("model.").to_owned(), "lack the prefix `model.`");
    check(
        &|name| name.replacen("model.", "model.language_model.", 1),
        "have the prefix `model.language_model.`, expected `model.`",
    );
}

#[test]
fn a_prefix_that_is_not_the_only_difference_is_one_line() {
    let world = with(
        |tensors| {
            tensors.remove("model.norm.weight");
            *tensors = std::mem::take(tensors)
                .into_iter()
                .map(|(name, t)| (format!("_orig_mod.{name}"), t))
                .collect();
        },
        false,
    );
    world.refuses(
        TRAIN,
        "error: model: the tensor names have the prefix `_orig_mod.`, which a Llama's do not have; apart from the \
         prefix, `model.norm.weight` is missing\n",
    );
}

#[test]
fn layers_with_the_same_problem_are_one_line() {
    let world = with(
        |tensors| {
            for layer in 0..2 {
                let name = |module: &str| format!("model.layers.{layer}.{module}.weight");
                tensors.remove(&name("mlp.up_proj"));
                tensors.insert(name("input_layernorm"), Literal::f32s([2], &[1.0; 2]));
                tensors.insert(name("self_attn.q_norm"), Literal::f32s([2], &[1.0; 2]));
                let down = as_type(&tensors[&name("mlp.down_proj")], DType::S8);
                tensors.insert(name("mlp.down_proj"), down);
            }
        },
        false,
    );
    let ran = world.hloom(TRAIN);
    assert_eq!(ran.code, Some(2));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ran.err);
    for (line, expect) in lines.iter().zip([
        "error: model/model.safetensors: `model.layers.{0,1}.input_layernorm.weight`: expected shape [64], found [2]",
        "error: model: `model.layers.{0,1}.mlp.up_proj.weight`: missing",
        "error: model/model.safetensors: `model.layers.{0,1}.mlp.down_proj.weight`: expected element type ",
        "  hint: the weights are quantized: use the model's original weights, in 16 or 32 bits",
        "error: model/model.safetensors: `model.layers.{0,1}.self_attn.q_norm.weight`: no parameter of the model has \
         this name",
    ]) {
        assert!(line.starts_with(expect), "{line}");
    }
}

#[test]
fn values_that_are_not_finite_are_named_when_they_are_loaded() {
    let check = |at: usize, value: f32, expect: &str| {
        let world = with(
            |tensors| {
                let name = "model.layers.1.mlp.up_proj.weight";
                tensors.get_mut(name).unwrap().bytes_mut()[4 * at..4 * at + 4]
                    .copy_from_slice(&value.to_le_bytes());
            },
            false,
        );
        let ran = world.hloom(TRAIN);
        let tensor = "error: model/model.safetensors: tensor `model.layers.1.mlp.up_proj.weight`: ";
        assert_eq!((ran.code, ran.err), (Some(2), format!("{tensor}{expect}")));
    };
    let hint = "\n\nhint: the file is damaged, or its training diverged: download it again, or use an earlier checkpoint\n";
    check(65, f32::NAN, &format!("expected finite numbers, found NaN at [1, 1]{hint}"));
    check(0, f32::INFINITY, &format!("expected finite numbers, found inf at [0, 0]{hint}"));
}

#[test]
fn doubles_are_read_with_a_warning() {
    let world =
        with(|tensors| tensors.values_mut().for_each(|tensor| *tensor = as_type(tensor, DType::F64)), false);
    let expect = "model: 21 tensors are stored as f64, rounded to f32 when read";
    assert_eq!(opened(&world), (false, vec![expect.to_owned()]));
}

#[test]
fn a_base_that_is_assumed_is_said() {
    let world = World::new();
    world.change_json("model/config.json", |config| config["rope_parameters"] = json!(null));
    let expect = "model/config.json: `rope_theta`: missing, 10000 is assumed, as for the first Llama models\n  \
                  hint: Llama 3 models have 500000: copy config.json from the original model";
    assert_eq!(opened(&world), (false, vec![expect.to_owned()]));
}

#[test]
fn commands_without_weights_tell_the_warnings_too() {
    let world = World::new();
    world.change_json("model/config.json", |config| config["rope_parameters"] = json!(null));
    world.write("mesh.toml", "[mesh]\nfsdp = 1\n");
    let expect = "warning: model/config.json: `rope_theta`: missing, 10000 is assumed, as for the first Llama models\n  \
                  hint: Llama 3 models have 500000: copy config.json from the original model\n";
    for line in [
        "dump --model model --out module.hlo",
        "check mesh.toml --model model",
        "explain mesh.toml --model model *q_proj",
        "compile --model model --out bundle --quiet",
    ] {
        let Ran { code, err, .. } = world.hloom(line);
        assert_eq!((code, err.matches(expect).count()), (Some(0), 1), "{line}: {err}");
        assert_eq!(err.matches("warning").count(), 1, "{line}: {err}");
    }
}

const GENERATE: &str = "generate --model model --adapter adapter --prompt hi --max-new-tokens 1";

/// An adapter of the query projections, its tensors changed.
fn with_adapter(change: impl FnOnce(&mut Tensors)) -> World {
    let world = World::new();
    std::fs::create_dir(world.path("adapter")).unwrap();
    let config = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
        "init_lora_weights": "eva", "eva_config": {"rho": 2.0, "tau": 0.99}});
    world.write("adapter/adapter_config.json", config.to_string());
    let mut tensors = Tensors::new();
    for layer in 0..2 {
        let name =
            |half: &str| format!("base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{half}.weight");
        tensors.insert(name("A"), Literal::f32s([2, 64], &[0.5; 128]));
        tensors.insert(name("B"), Literal::f32s([64, 2], &[0.5; 128]));
    }
    change(&mut tensors);
    let path = world.path("adapter/adapter_model.safetensors");
    hloom::weights::write_safetensors(&path, &tensors, &BTreeMap::new()).unwrap();
    world
}

#[test]
fn an_adapter_that_eva_began_is_read() {
    with_adapter(|_| {}).succeeds(GENERATE);
}

/// What a command wrote to standard error about the adapter.
fn said_of_adapter(world: &World) -> Vec<String> {
    let ran = world.hloom(GENERATE);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.err.lines().filter(|line| line.contains("adapter/")).map(str::to_owned).collect()
}

#[test]
fn modules_of_an_adapter_that_the_model_lacks_are_ignored_with_a_warning() {
    let world = with_adapter(|tensors| {
        for half in ["A", "B"] {
            let name = format!("base_model.model.visual.blocks.0.qkv.lora_{half}.weight");
            tensors.insert(name, Literal::f32s([2, 3], &[1.0; 6]));
        }
    });
    world.change_json("adapter/adapter_config.json", |config| {
        config["target_modules"] = json!(["q_proj", "qkv"]);
        config["rank_pattern"] = json!({"blocks.0.qkv": 4});
    });
    let plain = with_adapter(|_| {}).succeeds(GENERATE);
    assert_eq!(world.succeeds(GENERATE), plain);
    let said = said_of_adapter(&world);
    let lines: Vec<&str> =
        said.iter().map(|line| line.strip_prefix("warning: adapter/").unwrap_or(line)).collect();
    assert_eq!(
        lines,
        [
            "adapter_config.json: `target_modules`: matches no linear of the model: qkv; ignored",
            "adapter_config.json: `rank_pattern`: matches no adapted linear: blocks.0.qkv; ignored",
            "adapter_model.safetensors: 2 tensors belong to no adapted module of this model and are ignored: \
             `base_model.model.visual.blocks.0.qkv.lora_A.weight`, ...",
        ]
    );
}

#[test]
fn an_adapter_of_a_wrapped_model_is_read_with_a_warning() {
    let world = with_adapter(|tensors| {
        let wrapped = |name: String| name.replace("model.model.model.", "model.model.language_model.model.");
        *tensors = std::mem::take(tensors).into_iter().map(|(name, t)| (wrapped(name), t)).collect();
    });
    let plain = with_adapter(|_| {}).succeeds(GENERATE);
    assert_eq!(world.succeeds(GENERATE), plain);
    let expect = "warning: adapter/adapter_model.safetensors: the tensor names have the prefix \
                  `base_model.model.language_model.`, expected `base_model.model.`; this difference is ignored";
    assert_eq!(said_of_adapter(&world), [expect]);
}

#[test]
fn adapters_that_are_damaged_are_refused() {
    let check = |change: fn(&mut Tensors), expect: &str| with_adapter(change).refuses(GENERATE, expect);
    check(
        |tensors| {
            let last = tensors.last_entry().unwrap().into_mut();
            last.bytes_mut()[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
        },
        "error: adapter/adapter_model.safetensors: tensor \
         `base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight`: expected finite numbers, found NaN at [1, 0]\n\n\
         hint: the file is damaged, or its training diverged: download it again, or use an earlier checkpoint\n",
    );
    check(
        |tensors| tensors.retain(|name, _| name.contains("lora_A")),
        "error: adapter/adapter_model.safetensors: \
         `base_model.model.model.layers.{0,1}.self_attn.q_proj.lora_A.weight`: missing .lora_B.weight of the pair\n",
    );
    check(
        |tensors| {
            *tensors = std::mem::take(tensors).into_iter().map(|(n, t)| (n.replace("q_", "x_"), t)).collect()
        },
        "error: adapter/adapter_model.safetensors: no tensor belongs to an adapted module of this model: expected names \
         such as `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`, found \
         `base_model.model.model.layers.0.self_attn.x_proj.lora_A.weight`\n",
    );
    check(
        |tensors| tensors.retain(|name, _| name.contains("layers.0")),
        "error: adapter/adapter_model.safetensors: \
         `base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight`: this tensor is missing\n\
         error: adapter/adapter_model.safetensors: \
         `base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight`: this tensor is missing\n",
    );
}

#[test]
fn the_size_of_an_unknown_type_is_not_believed() {
    let world = with_adapter(|_| {});
    let header = br#"{"w":{"dtype":"F99","shape":[4294967295,64],"data_offsets":[0,4]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    world.write("adapter/adapter_model.safetensors", file);
    let ran = world.hloom(GENERATE);
    let expect = "error: adapter/adapter_model.safetensors: tensor `w`: expected element type ";
    assert!(ran.code == Some(2) && ran.err.starts_with(expect), "{}", ran.err);
}
