//! Templates that replace built-in ones: errors name the line that does not fit.

use std::{error::Error, fs, path::Path};

use hloom::{
    base::DType,
    model::{Config, LoraSpec, nn::Attention},
    step::{Packing, StepKind, StepOptions, StepSpec, Workload, build},
    templates::TemplateLibrary,
};
use tempfile::TempDir;

use crate::support::world::World;

const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 16, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64}"#;

/// Builds steps that use every template, with `text` in place of one: the first error, without the folder's name.
fn build_with(name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join(format!("{name}.hlo")), text).unwrap();
    // Built-in gradients are used only for built-in templates, so a gradient is replaced together with its primal.
    if let Some(primal) = name.strip_suffix(".grad") {
        fs::write(folder.path().join(format!("{primal}.hlo")), embedded(primal)).unwrap();
    }
    let templates = TemplateLibrary::replaced_from(folder.path(), None, &[])?;
    let full = Config::from_json(CONFIG, "config.json").unwrap();
    let windowed = Config { sliding_window: Some(3), ..full.clone() };
    let config = if name == "window_mask" { windowed } else { full };
    let lora = LoraSpec::all_linear(2, 4.0);
    let lora = LoraSpec { targets: hloom::model::Targets::Names(vec!["q_proj".into()]), ..lora };
    let lora = lora.resolve(&config).unwrap();
    for (packing, attention) in [(Packing::Off, Attention::Dense), (Packing::On, Attention::Blocks(2))] {
        let workload = Workload { packing, ..Workload::new(&config, &lora, DType::F32, 2, 4) };
        let spec = StepSpec::new(workload, &templates);
        let spec = StepSpec { options: StepOptions { attention, ..spec.options }, ..spec };
        build(&spec, StepKind::Train).map_err(|error| {
            let place = format!("{}/", folder.path().display());
            error.to_string().replace(&place, "")
        })?;
    }
    Ok(())
}

fn embedded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hlo-templates").join(format!("{name}.hlo"));
    fs::read_to_string(path).unwrap()
}

fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hlo-templates");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.strip_suffix(".hlo")?.to_owned())).collect();
    names.sort();
    names
}

/// The template with its root named `y`, and lines after it.
fn with_root(text: &str, more: &str) -> String {
    let (before, entry) = text.split_at(text.find("ENTRY").unwrap());
    let (body, root) = entry.split_once("  ROOT ").unwrap();
    let (_, value) = root.split_once(" = ").unwrap();
    let value = value.trim_end().strip_suffix('}').unwrap();
    format!("{before}{body}  y = {value}{more}\n}}\n")
}

/// The shape of the entry's result.
fn result(text: &str) -> &str {
    let (_, root) = text.split_once("ENTRY").unwrap().1.split_once("  ROOT ").unwrap();
    let value = root.split_once(" = ").unwrap().1;
    let end = if value.starts_with('(') { value.find(')').unwrap() + 1 } else { value.find(' ').unwrap() };
    &value[..end]
}

/// The template with one more parameter.
fn with_parameter(text: &str) -> String {
    let entry = &text[text.find("ENTRY").unwrap()..];
    let count = entry.matches(" parameter(").count();
    with_root(
        text,
        &format!("  extra = pred[] parameter({count})\n  ROOT z = {} opt-barrier(y)", result(text)),
    )
}

/// Whether the steps that [`build_with`] builds use the template: their weights are not quantized, and they drop nothing.
fn is_of_a_step(name: &str) -> bool {
    !name.ends_with("_dequant") && !["dropout", "threefry2x32"].contains(&name)
}

/// Checks that `text` in place of a template is refused at a line of it.
#[track_caller]
fn check_placed(name: &str, text: &str) {
    let error = build_with(name, text).expect_err(&format!("{name} is accepted:\n{text}")).to_string();
    // The line is followed by a column where the text cannot be parsed.
    let line = error.strip_prefix(&format!("{name}.hlo:")).and_then(|rest| rest.split(':').next());
    let line = line.and_then(|line| line.parse().ok());
    assert!(line.is_some_and(|line: usize| (1..=text.lines().count()).contains(&line)), "{name}: {error}");
}

#[test]
fn what_does_not_fit_is_refused_at_its_line_whatever_the_template() {
    for name in names().into_iter().filter(|name| is_of_a_step(name)) {
        let text = embedded(&name);
        let shape = result(&text);
        build_with(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        check_placed(&name, &with_root(&text, "  ROOT z = pred[] constant(true)"));
        check_placed(&name, &with_root(&text, &format!("  ROOT z = ({shape}) tuple(y)")));
        check_placed(&name, &with_root(&text, "  ROOT z = () tuple()"));
        check_placed(&name, &with_parameter(&text));
        check_placed(&name, "HloModule m\n\nENTRY e {\n  ROOT z = pred[] constant(true)\n}\n");
        if let Some((dtype, dims)) = shape.split_once('[').filter(|(dtype, _)| !dtype.starts_with('(')) {
            check_placed(&name, &with_root(&text, &format!("  ROOT z = f64[{dims} convert(y)")));
            let dims = if dims == "]" { "1]".to_owned() } else { format!("1,{dims}") };
            check_placed(&name, &with_root(&text, &format!("  ROOT z = {dtype}[{dims} reshape(y)")));
        } else {
            check_placed(&name, &with_root(&text, "  ROOT z = pred[] constant(true)"));
        }
        // Without its first parameter, and with one that is not what it was.
        check_placed(&name, &text.replacen("parameter(0)", "parameter(7)", 1));
        check_placed(&name, "HloModule m\n\nENTRY e {\n  ROOT z = f64[3] parameter(0)\n}\n");
    }
}

#[track_caller]
fn check(name: &str, text: &str, expect: &str) {
    assert_eq!(build_with(name, text).unwrap_err().to_string(), expect);
}

#[test]
fn errors_say_what_was_expected_and_found() {
    check(
        "embed",
        "HloModule e\n\nENTRY e {\n  table = f32[16,8] parameter(0)\n  ids = s32[2,4] parameter(1)\n  \
         ROOT x = f32[] constant(0)\n}\n",
        "embed.hlo:6: `x`: expected f32[2,4,8] as the result, found f32[]",
    );
    check(
        "next_token",
        "HloModule n\nENTRY n {\n  ROOT labels = s32[$seq,$batch] parameter(0)\n}\n",
        "next_token.hlo:3: `labels`: expected s32[2,4] as parameter 0, found s32[4,2]\n\
         next_token.hlo:3: `labels`: expected (s32[2,4], s32[]) as the result, found s32[4,2]",
    );
    check(
        "swiglu",
        "HloModule s\n\nENTRY s {\n  ROOT gate = $t[$batch,$seq,$mlp] parameter(0)\n}\n",
        "swiglu.hlo:3: `s`: parameter 1 is missing: expected f32[2,4,12]",
    );
    check(
        "swiglu",
        "HloModule s\n\nENTRY s {\n  gate = $t[$batch,$seq,$mlp] parameter(0)\n  up = $t[$batch,$seq,$mlp] \
         parameter(0)\n  ROOT y = $t[$batch,$seq,$mlp] multiply(gate, up)\n}\n",
        "swiglu.hlo:5:3: `up`: duplicate parameter number 0; first used by `gate`",
    );
    check(
        "swiglu",
        "HloModule s\n\nENTRY s {\n  gate = $t[$batch,$seq,$mlp] parameter(0)\n  up = $t[$batch,$seq,$mlp] \
         parameter(2)\n  ROOT y = $t[$batch,$seq,$mlp] multiply(gate, up)\n}\n",
        "swiglu.hlo:5:3: `up`: expected parameter numbers 0 to 1, found 2",
    );
    check(
        "swiglu",
        "HloModule s\n\nENTRY s {\n  gate = $t[$batch,$seq,$mlp] parameter(0)\n  up = $t[$batch,$seq,$mlp] \
         parameter(1)\n  ROOT y = $t[$batch,$seq,$mlp] custom-call(gate, up), custom_call_target=\"gate\"\n}\n",
        "swiglu.hlo:6: `y`: cannot differentiate custom-call: the derivative of a custom call is unknown",
    );
    check(
        "attention_packed",
        "HloModule a\n\nENTRY a {\n  ROOT q = $t[$batch,$seq,$heads,$head_dim] parameter(0)\n}\n",
        "attention_packed.hlo:3: `a`: parameter 1 is missing: expected f32[2,4,1,4]\n\
         attention_packed.hlo:3: `a`: parameter 2 is missing: expected f32[2,4,1,4]\n\
         attention_packed.hlo:3: `a`: parameter 3 is missing: expected s32[2,4]\n\
         attention_packed.hlo:4: `q`: expected (f32[2,4,2,4], f32[2,4,2]) as the result, found f32[2,4,2,4]",
    );
}

#[test]
fn the_program_says_so_too() {
    let world = World::new();
    fs::create_dir(world.path("mine")).unwrap();
    world.write("mine/embed.hlo", "HloModule e\n\nENTRY e {\n  ROOT x = f32[] constant(0)\n}\n");
    world.refuses(
        "dump --model model --batch 4 --seq 32 --templates mine",
        "error: mine/embed.hlo:3: `e`: parameter 0 is missing: expected f32[256,64]\n\
         mine/embed.hlo:3: `e`: parameter 1 is missing: expected s32[4,32]\n\
         mine/embed.hlo:4: `x`: expected f32[4,32,64] as the result, found f32[]\n\n\
         hint: a replaced template must keep its parameters and result\n",
    );
}
