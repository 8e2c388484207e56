//! Builds the training step of a small Llama, and prints its slots and the size of its module.
//!
//! `cargo run --example build_step`

#![allow(clippy::print_stdout)]

use std::error::Error;

use hloom::{
    base::DType,
    hlo::proto,
    model::{Config, LoraSpec},
    step::{self, StepKind, StepSpec, Workload},
    templates::TemplateLibrary,
};

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::builtin("tiny")?;
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&config)?;
    let workload = Workload::new(&config, &lora, DType::F32, 4, 64);
    let templates = TemplateLibrary::embedded();
    let program = step::build(&StepSpec::new(workload, &templates), StepKind::Train)?;

    for slot in &program.inputs {
        let donated = if program.is_donated(slot.role) { "donated" } else { "" };
        println!("{:<28}{:<24}{donated}", slot.role, slot.shape());
    }
    let module = program.module.module();
    let instructions: usize = module.computations.iter().map(|computation| computation.instrs.len()).sum();
    let bytes = proto::encode(&program.module).len();
    println!("{} computations, {instructions} instructions, {bytes} bytes", module.computations.len());
    Ok(())
}
