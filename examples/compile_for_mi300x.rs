//! Compiles a training step for eight MI300X that need not be present, and prints whether it fits.
//!
//! `cargo run --release --example compile_for_mi300x -- llama3.1-8b`
//!
//! The ROCm plugin is fetched into the store on first use. A plugin may end the process that it runs in, so it compiles in a
//! worker process: this program again, started with the folder of a request.

#![allow(clippy::print_stdout)]

use std::{env, error::Error, ffi::OsString, path::Path};

use hloom::{
    app::{
        CompileRequest, CompileTools, OwnedWorkload, Starter, compile,
        resolve::{self, BatchShards, load_mesh},
        resources::Resources,
        settings::Settings,
        target_devices,
    },
    runtime::compile_worker::{self, WorkerProgram},
    store::{Network, Silent},
    targets::Platform,
    templates::TemplateLibrary,
};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<OsString> = env::args_os().collect();
    if let [_, worker, folder] = &args[..]
        && worker == "worker"
    {
        return Ok(compile_worker::serve(Path::new(folder))?);
    }
    let model = args.get(1).and_then(|model| model.to_str()).unwrap_or("tiny");

    let folder = env::temp_dir().join("hloom-example");
    let store = env::var_os("HLOOM_STORE").map_or_else(|| folder.join("store"), Into::into);
    let mesh = load_mesh(&Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/mi300x-8-fsdp.toml"))?;
    let mesh_text = mesh.config.to_string();
    let devices = target_devices(&["mi300x:8".parse()?], Some(&mesh))?;
    let shards = BatchShards::from(&devices[0]);
    let settings = Settings { batch: Some(8), seq: Some(512), ..Settings::default() };
    let workload = OwnedWorkload::new(model, &settings, shards, &[Platform::Rocm])?;

    let worker = WorkerProgram {
        program: env::current_exe()?,
        args: vec!["worker".into()],
        environment: vec![],
        timeout: None,
        scratch: env::temp_dir(),
    };
    let tools = CompileTools {
        resources: &Resources::new(&store, Network::Allowed),
        plugin: None,
        starter: Starter::new(worker.clone(), &store, vec![]),
        worker,
        store,
    };
    let request = CompileRequest {
        model,
        workload: &workload,
        options: resolve::options(&settings, workload.shape, shards)?,
        optimizer: resolve::optimizer(&settings)?,
        max_grad_norm: resolve::max_grad_norm(&settings)?,
        templates: &TemplateLibrary::embedded(),
        devices: &devices,
        mesh_text: Some(&mesh_text),
        out: &folder.join("bundle"),
    };
    let report = compile(&request, &tools, &mut Silent)?;
    for target in &report.targets {
        let (needed, limit) = (target.report.device_bytes, target.report.limit_bytes);
        println!(
            "{}: fits: {}, {needed:?} of {limit:?} bytes a device",
            target.build.target, target.report.fits
        );
    }
    println!("bundle: {}", request.out.display());
    Ok(())
}
