//! Trains an adapter on the CPU for a few updates, on samples in memory, and prints the losses.
//!
//! `cargo run --release --example train_on_cpu`
//!
//! The model (SmolLM2-135M-Instruct) and the CPU plugin are fetched into the store on first use.

#![allow(clippy::print_stdout)]

use std::{env, error::Error, sync::Arc};

use hloom::{
    app::{
        AppError,
        resolve::{self, BatchShards},
        resources::Resources,
        settings::Settings,
    },
    base::DType,
    model::BaseStorage,
    pjrt::{Plugin, ProgramFormat},
    runtime::{DeviceMesh, Engine},
    step::StepSpec,
    store::{Network, Silent},
    templates::TemplateLibrary,
    train::{
        Encoded, Event, Observer, RunConfig,
        run::{Ready, RunInput, run},
    },
};

/// Prints the loss of each update.
struct Losses;

impl Observer for Losses {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step(record) = event {
            println!("step {}: loss {:.4}", record.step, record.loss);
        }
    }

    fn wants_stop(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join("hloom-example");
    let store = env::var_os("HLOOM_STORE").map_or_else(|| folder.join("store"), Into::into);
    let resources = Resources::new(&store, Network::Allowed);
    let devices = DeviceMesh::new(None, None)?;
    let plugin = resources.plugin_file(devices.target(), None, &mut Silent)?;
    let model = resources.model(None, &mut Silent)?;

    let settings = Settings {
        steps: Some(5),
        batch: Some(2),
        seq: Some(64),
        held_out: Some(0),
        out: Some(tempfile::tempdir_in(env::temp_dir())?.keep()),
        ..Settings::default()
    };
    let data = resolve::data(&settings)?;
    let requested = resolve::run_settings(&settings, BatchShards::from(&devices), &folder)?;
    let data = Encoded::new(&requested, &model.model, &data)?;
    let config = RunConfig {
        schedule: resolve::schedule(&settings, requested.size.updates_per_epoch(data.sequences()))?,
        settings: requested,
        dtype: DType::F32,
        base_storage: BaseStorage::Plain(DType::F32),
        base_model: Some(model.base),
    };
    let templates = TemplateLibrary::embedded();
    let input = RunInput { model: &model.model, data: &data, mesh: None, templates: &templates };
    let start = |_: &StepSpec<'_>| {
        let plugin: Arc<Plugin> = Plugin::load(&plugin)?;
        Ok::<_, AppError>(Ready {
            engine: Engine::start(plugin, devices.target(), ProgramFormat::Hlo)?,
            step: None,
        })
    };
    let summary = run(&config, input, start, &mut Losses)?;
    println!("adapter: {}", summary.adapter.display());
    Ok(())
}
