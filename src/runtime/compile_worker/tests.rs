//! The runner with this test binary as the worker, and each plugin that is installed.

use std::env;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::{
    pjrt::{PjrtProgram, Plugin, ProgramFormat},
    targets::{Hardware, Platform, Target, devices},
    testing::{CpuBuild, cpu_plugin_path, installed_package},
};

const ROLE: &str = "HLOOM_TEST_CHILD";
/// An `HloModuleProto` that adds two `f32[4]`.
const ADD: &[u8] = include_bytes!("../../pjrt/testdata/add.pb");

/// What the worker does in the tests below; nothing where this runs as a test of its own.
#[test]
fn child_side() {
    let Ok(role) = env::var(ROLE) else { return };
    let folder = env::args().next_back().unwrap();
    match role.as_str() {
        "serve" => serve(Path::new(&folder)).unwrap(),
        "abort" => {
            say("F1130 00:00:00.000000 1 module.cc:1] Check failed: it is good");
            std::process::abort()
        }
        "starve" => {
            say("terminate called after throwing an instance of 'std::bad_alloc'");
            std::process::abort()
        }
        "sleep" => {
            say("still at it");
            std::thread::sleep(Duration::from_secs(600));
        }
        "leave" => {}
        "babble" => std::fs::write(Path::new(&folder).join(request::RESPONSE), "{}").unwrap(),
        other => panic!("no such role: {other}"),
    }
}

/// Writes a line past the test harness.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn worker(role: &str, timeout: Duration) -> WorkerProgram {
    WorkerProgram {
        program: env::current_exe().unwrap(),
        args: ["runtime::compile_worker::tests::child_side", "--exact", "--nocapture"].map(Into::into).into(),
        environment: vec![(ROLE.into(), role.into())],
        timeout: Some(timeout),
        scratch: env::temp_dir(),
    }
}

fn compile(
    plugin: &Path,
    target: &str,
    bytes: &[u8],
    role: &str,
    seconds: f64,
) -> Result<CompiledProgram, CompileWorkerError> {
    let target: Target = target.parse().unwrap();
    let program = PjrtProgram { format: ProgramFormat::Hlo, bytes };
    let job = CompileJob { plugin, target: &target, program, options: &target.compile_options() };
    compile_in_worker(&job, &worker(role, Duration::from_secs_f64(seconds)))
}

fn failure(role: &str, seconds: f64) -> CompileWorkerError {
    compile(Path::new("/no/plugin.so"), "cpu:1", ADD, role, seconds).unwrap_err()
}

#[test]
fn a_child_compiles_for_the_cpu_what_another_process_runs() {
    let plugin = cpu_plugin_path(CpuBuild::Pinned);
    let compiled = compile(&plugin, "cpu:1", ADD, "serve", 300.0).unwrap();
    assert_eq!((compiled.memory.arguments, compiled.api_version), (32, (0, 115)));
    assert_eq!((compiled.optimized_format.as_str(), compiled.memory_limit), ("hlo_with_config", None));
    let client = crate::testing::cpu_client(CpuBuild::Pinned, 1);
    assert_eq!(client.deserialize(&compiled.executable).unwrap().executable().name().unwrap(), "add");
}

#[test]
fn a_refusal_comes_with_the_plugins_words() {
    let plugin = cpu_plugin_path(CpuBuild::Pinned);
    let error = compile(&plugin, "cpu:1", b"no proto", "serve", 300.0).unwrap_err();
    assert!(matches!(error, CompileWorkerError::Refused { .. }), "{error}");
    assert!(error.to_string().starts_with("PJRT_Client_Compile failed with "), "{error}");
    let error = failure("serve", 300.0);
    assert_eq!(error.to_string(), "cannot open plugin: /no/plugin.so");
    assert!(error.hint().unwrap().contains("command `plugin install "));
}

#[test]
fn a_child_that_aborts_is_an_error_with_its_last_words() {
    let error = failure("abort", 300.0);
    let text = error.to_string();
    assert!(matches!(error, CompileWorkerError::Crashed { signal: 6, .. }), "{text}");
    assert!(text.starts_with("the plugin crashed while compiling (signal 6, aborted); the last it wrote:\n"));
    assert!(text.ends_with("Check failed: it is good"), "{text}");
    assert!(matches!(failure("starve", 300.0), CompileWorkerError::OutOfMemory { .. }));
}

#[test]
fn a_child_that_takes_too_long_is_stopped() {
    let error = failure("sleep", 1.5);
    assert!(matches!(error, CompileWorkerError::TimedOut { .. }), "{error}");
    assert!(error.to_string().starts_with("the plugin was stopped after 1.5 s while compiling"), "{error}");
}

#[test]
fn a_child_without_an_answer_is_an_error() {
    assert!(matches!(failure("leave", 300.0), CompileWorkerError::Exited { code: 0, .. }));
    assert!(
        failure("babble", 300.0).to_string().starts_with("the plugin's process gave an invalid answer: ")
    );
    let mut nothing = worker("serve", Duration::from_secs(1));
    nothing.program = "/no/program".into();
    let target = Target::default();
    let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: ADD };
    let job = CompileJob {
        plugin: Path::new("/p.so"),
        target: &target,
        program,
        options: &target.compile_options(),
    };
    assert_eq!(compile_in_worker(&job, &nothing).unwrap_err().to_string(), "cannot start /no/program");
}

/// Compiles for every kind of device of a platform, and for `shapes`, where its plugin is installed.
#[track_caller]
fn ahead(platform: Platform, shapes: &[&str]) {
    let Some(plugin) = installed_package(platform.name()) else { return };
    let all = devices().iter().filter(|device| device.platform() == platform).map(|device| {
        let shape = match &device.hardware {
            Hardware::Tpu(info) => info.topologies[0].as_str(),
            _ => "1",
        };
        format!("{}:{shape}", device.name)
    });
    for text in all.chain(shapes.iter().map(|&shape| shape.to_owned())) {
        let compiled =
            compile(&plugin, &text, ADD, "serve", 300.0).unwrap_or_else(|error| panic!("{text}: {error}"));
        let target: Target = text.parse().unwrap();
        assert_eq!(compiled.devices, target.shape().devices(), "{text}");
        assert!(compiled.memory.arguments >= 32 && compiled.memory.peak > 0, "{text}: {:?}", compiled.memory);
        assert!(!compiled.executable.is_empty() && !compiled.optimized.is_empty(), "{text}");
        assert!(compiled.warnings.is_empty(), "{text}: {:?}", compiled.warnings);
        let (limit, memory) = (compiled.memory_limit, target.device().unwrap().memory_bytes);
        assert!(limit.is_none_or(|limit| memory.unwrap() <= limit), "{text}: {memory:?} of {limit:?}");
        assert_eq!(compiled.hosts, target.shape().hosts(), "{text}");
    }
}

#[test]
fn amd_gpus_need_not_be_here() {
    ahead(Platform::Rocm, &["mi300x:8", "mi300x:4x8"]);
}

#[test]
fn running_on_amd_gpus_needs_rocm() {
    let Some(path) = installed_package("rocm") else { return };
    // Where ROCm is installed there is nothing to see.
    let Err(error) = Plugin::load(&path) else { return };
    let text = error.to_string();
    let start = "cannot find ROCm, which the plugin needs to run: librocprofiler-sdk.so.1 is neither in ";
    assert!(text.starts_with(start), "{text}");
    assert!(error.hint().unwrap().ends_with("command `compile` for AMD GPUs needs none"));
}

#[test]
fn nvidia_gpus_need_not_be_here() {
    ahead(Platform::Cuda, &["h100:8", "rtx4090:2", "h200:2x8"]);
}

/// StableHLO of a matrix product whose result takes 69 GB.
const LARGE: &str = "
    func.func @main(%a: tensor<131072x16xf32>, %b: tensor<16x131072xf32>) -> tensor<131072x131072xf32> {
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<131072x16xf32>, tensor<16x131072xf32>) -> tensor<131072x131072xf32>
      return %c : tensor<131072x131072xf32>
    }";

#[test]
fn a_program_that_exceeds_the_device_memory_is_too_large() {
    let Some(plugin) = installed_package("tpu") else { return };
    let target: Target = "v5e:1x1".parse().unwrap();
    let program = PjrtProgram { format: ProgramFormat::Mlir, bytes: LARGE.as_bytes() };
    let job = CompileJob { plugin: &plugin, target: &target, program, options: &target.compile_options() };
    let error = compile_in_worker(&job, &worker("serve", Duration::from_secs(300))).unwrap_err();
    assert!(matches!(error, CompileWorkerError::TooLarge { .. }), "{error}");
    assert!(error.hint().unwrap().contains("the program exceeds the device's memory"));
}

#[test]
fn tpus_need_not_be_here() {
    ahead(Platform::Tpu, &["v5e:2x4", "v5p:4x4x4", "v6e:2x4", "tpu7x:2x2x2"]);
}

fn start_on(plugin: &Path, target: &str, worker: &WorkerProgram, cache: &Path) -> Result<(), StartError> {
    let target: Target = target.parse().unwrap();
    start(&StartJob { plugin, target: &target, variables: &[] }, worker, cache)
}

#[test]
fn a_cpu_plugin_that_started_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("started");
    let plugin = cpu_plugin_path(CpuBuild::Pinned);
    let serve = worker("serve", Duration::from_secs(300));
    start_on(&plugin, "cpu:2", &serve, &cache).unwrap();
    let none = WorkerProgram { program: "/no/program".into(), ..serve };
    start_on(&plugin, "cpu:2", &none, &cache).unwrap();
    // Other options, or another file, are another start.
    let error = start_on(&plugin, "cpu:3", &none, &cache).unwrap_err();
    assert_eq!(error.to_string(), "cannot start /no/program");
    let copy = folder.path().join("plugin.so");
    std::fs::copy(&plugin, &copy).unwrap();
    assert!(start_on(&copy, "cpu:2", &none, &cache).is_err());
}

#[test]
fn a_start_that_failed_is_tried_again() {
    let cache = tempfile::tempdir().unwrap();
    let plugin = cpu_plugin_path(CpuBuild::Pinned);
    for (role, expect) in [
        ("abort", "the plugin crashed while loading (signal 6, aborted); the last it wrote:\n"),
        ("sleep", "the plugin was stopped after 1.5 s while loading; the last it wrote:\n"),
        ("leave", "the plugin ended its process with code 0 while loading"),
    ] {
        let error = start_on(&plugin, "cpu:1", &worker(role, Duration::from_secs_f64(1.5)), cache.path());
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with(expect), "{text}");
    }
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
}

#[test]
fn every_plugin_describes_itself_without_devices() {
    for (key, version) in [("cpu", (0, 115)), ("cpu-0.81", (0, 81)), ("cuda", (0, 116)), ("tpu", (0, 117))] {
        let Some(plugin) = installed_package(key) else { continue };
        let found = describe(&plugin, &worker("serve", Duration::from_secs(60))).unwrap();
        assert_eq!(found.api_version, version, "{key}");
        assert!(found.attributes.contains_key("xla_version"), "{key}");
    }
}
