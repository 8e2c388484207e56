//! Golden cases that are incomplete or exceed their limits.

use std::fs;

use hloom::base::Literal;

use crate::support::world::{Ran, World, golden};

const PARITY: &str = "parity --model model --adapter adapter --expected case.safetensors --quiet";

/// The adapter of one golden case beside the values of `llama31`.
fn world(adapter: &str) -> World {
    let world = World::new();
    fs::create_dir(world.path("adapter")).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(golden(adapter).join(file), world.path("adapter").join(file)).unwrap();
    }
    fs::copy(golden("llama31").join("expected.safetensors"), world.path("case.safetensors")).unwrap();
    fs::copy(golden("llama31").join("expected.json"), world.path("case.json")).unwrap();
    world
}

#[test]
fn an_adapter_of_another_model_is_refused() {
    let world = world("plain-rslora");
    let Ran { code, out, err } = world.hloom(PARITY);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    let first: Vec<&str> = err.lines().take(1).collect();
    assert_eq!(
        first,
        [
            "error: adapter/adapter_model.safetensors: `base_model.model.model.layers.{0,1}.self_attn.k_proj.lora_B.weight`: \
          expected the sizes [32, 8], found [64, 8]"
        ]
    );
    // The adapter's third layer alone would be a warning, as in PEFT.
    assert!(!err.contains("layers.2."), "{err}");
}

#[test]
fn missing_adapters_and_cases_are_reported() {
    let world = world("llama31");
    world.refuses(
        "parity --model model --expected case.safetensors --quiet",
        "error: --adapter: expected an adapter, found none in: model\n\n\
         hint: set the folder of the adapter with --adapter, or --train all if the case has none\n",
    );
    world.refuses(
        "parity --model model --adapter nowhere --expected case.safetensors --quiet",
        "error: no adapter_config.json in folder: nowhere\n\n\
         hint: an adapter folder holds adapter_config.json and adapter_model.safetensors\n",
    );
    world.refuses(
        "parity --model model --adapter adapter --expected none.safetensors --quiet",
        "error: cannot open none.safetensors\n  caused by: No such file or directory (os error 2)\n",
    );
}

#[test]
fn cases_without_a_required_tensor_are_refused() {
    let lacks = |name: &str| {
        let world = world("llama31");
        world.change_tensors("case.safetensors", |tensors| {
            tensors.remove(name).unwrap();
        });
        world.refuses(
            PARITY,
            &format!(
                "error: --expected: case.safetensors: `{name}` is missing\n\n\
                 hint: tests/golden/generate.py makes a complete case\n"
            ),
        );
    };
    lacks("labels");
    lacks("logits");
    let world = world("llama31");
    world.cut("case.safetensors", 100_000);
    world.refuses(
        PARITY,
        "error: case.safetensors is truncated: expected 523224 bytes, found 100000\n\n\
         hint: download or copy the file again\n",
    );
}

#[test]
fn a_value_beyond_its_limit_exits_with_1() {
    let world = world("llama31");
    world.change_tensors("case.safetensors", |tensors| {
        tensors.insert("loss".into(), Literal::f32s([], &[5.7001]));
    });
    let Ran { code, out, err } = world.hloom(&format!("{PARITY} --json"));
    assert_eq!((code, err.as_str()), (Some(1), ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["passed"], false);
    let rows = report["tensors"].as_array().unwrap();
    let beyond = rows.iter().filter(|row| row["error"].as_f64() > row["limit"].as_f64());
    let names: Vec<_> = beyond.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["loss"]);
}
