//! Shards the training step of Llama 3.1 8B over eight devices by a mesh config in memory, and prints what each device
//! stores and how one weight is sharded.
//!
//! `cargo run --example shard_step`

#![allow(clippy::print_stdout)]

use std::{error::Error, path::Path};

use hloom::{
    base::DType,
    hlo::Sharding,
    mesh,
    model::{Config, LoraSpec},
    step::{self, StepKind, StepSpec, Workload},
    templates::TemplateLibrary,
};

const MESH: &str = r#"
[mesh]
fsdp = 8

[store]
embed = "fsdp"

[compute]
batch = "fsdp"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::builtin("llama3.1-8b")?;
    let lora = LoraSpec::all_linear(16, 32.0).resolve(&config)?;
    let workload = Workload::new(&config, &lora, DType::BF16, 8, 2048);

    // Every problem is reported, each with its line.
    let loaded = mesh::parse(MESH, Path::new("inline.toml"));
    let plan = loaded.plan(&step::tensors(workload), 8)?;
    let bytes = plan.device_bytes();
    println!("{} on {} devices", plan.mesh, plan.mesh.devices());
    println!("each device stores {} bytes of base weights", bytes.base);
    if let Some(weight) = plan.get("model.layers.*.self_attn.q_proj.weight") {
        print!("{}", mesh::explain(weight, &plan.mesh));
    }

    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: Some(&plan), ..StepSpec::new(workload, &templates) };
    let program = step::build(&spec, StepKind::Train)?;
    let sharded = program.inputs.iter().filter(|slot| slot.sharding != Sharding::Replicated).count();
    println!("{sharded} of {} arguments are sharded", program.inputs.len());
    Ok(())
}
