//! How long the weights of SmolLM2-135M, 538 MB in float32, take to eight devices of the CPU, and how much host memory
//! that takes at most: besides the model itself, which lies on devices whose memory is the host's, it should be less than
//! 200 MB. `cargo bench --bench load`.

#![allow(clippy::print_stdout)]

use std::{fs, path::Path, time::Instant};

use hloom::{
    base::DType,
    mesh,
    model::LoraSpec,
    pjrt::ProgramFormat,
    runtime::{DeviceMesh, Engine},
    step::{StepSpec, Workload},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin, package_file},
    train::{Model, Trainer},
};

/// The most memory that this process has had, in bytes; `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}

fn main() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/fsdp8.toml");
    let devices = DeviceMesh::new(None, Some(mesh::load(&file).expect("the mesh config is shipped")))
        .expect("eight devices have a mesh");
    let model = Model::open(&package_file("smollm2")).expect("the model opens");
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&model.config).expect("all linears are there");
    let workload = Workload::new(&model.config, &lora, DType::F32, 8, 128);
    let plan = devices.plan(workload).expect("the mesh config fits the model");
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), ProgramFormat::Hlo)
        .expect("the CPU is there");
    let before = peak_memory();
    let started = Instant::now();
    let mut bytes = 0;
    let trainer =
        Trainer::new(engine, spec, &model.checkpoint, |more| bytes += more).expect("the weights load");
    let took = started.elapsed();
    let held: u64 = trainer.device_bytes().expect("the plugin counts").iter().sum();
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "loaded {:.1} MB in {took:.1?}; eight devices hold {:.1} MB",
        megabytes(bytes as u64),
        megabytes(held)
    );
    match (before, peak_memory()) {
        (Some(before), Some(peak)) => println!(
            "peak host memory {:.1} MB, {:.1} MB beside the model; {:.1} MB before loading",
            megabytes(peak),
            megabytes(peak) - megabytes(held),
            megabytes(before)
        ),
        _ => println!("this system does not tell the peak of host memory"),
    }
}
