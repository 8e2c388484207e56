use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{
    WorkerStage,
    request::{
        CompileResponse, CompileTask, EXECUTABLE, OPTIMIZED, PROGRAM, PluginDescription, REQUEST, RESPONSE,
        RequestedDevices, STAGE, STUB_LIBS, WorkerRequest, WorkerResponse, WorkerTask,
    },
    stub_libs::{self, StubLibsError},
};
use crate::{
    base::output::write_file,
    pjrt::{
        Client, ErrorCode, Executable, LoadedExecutable, NamedValue, PjrtError, PjrtProgram, Plugin, Topology,
    },
    targets::{CudaToolkitError, Platform, cuda_toolkit},
};

/// The worker's side of [`compile_in_worker`](super::compile_in_worker) and [`start`](super::start()): does what the request in
/// `folder` asks for and writes the answer beside it. A plugin's refusal is an answer like any other.
///
/// # Errors
/// If the request cannot be read, or the response cannot be written.
pub fn serve(folder: &Path) -> io::Result<()> {
    let request: WorkerRequest = serde_json::from_slice(&fs::read(folder.join(REQUEST))?)?;
    let reach = |stage: WorkerStage| {
        // Without it, an error names the first stage.
        let _ = fs::write(folder.join(STAGE), serde_json::to_vec(&stage).unwrap_or_default());
    };
    let path = &request.plugin;
    let answer = match &request.task {
        WorkerTask::Compile(task) => {
            let program = fs::read(folder.join(PROGRAM))?;
            match compile(path, task, &program, folder, &reach) {
                Ok(done) => {
                    fs::write(folder.join(EXECUTABLE), done.executable)?;
                    fs::write(folder.join(OPTIMIZED), done.optimized)?;
                    WorkerResponse::Compiled(done.report)
                }
                Err(error) => error.response(),
            }
        }
        WorkerTask::Start { options } => with_plugin(path, &reach, |plugin| {
            reach(WorkerStage::Client);
            let client = Client::create(plugin, &borrowed(options))?;
            Ok(WorkerResponse::Started { platform: client.platform().to_owned() })
        }),
        WorkerTask::Describe => with_plugin(path, &reach, |plugin| {
            let (api_version, attributes) = (plugin.api_version(), plugin.attributes()?);
            Ok(WorkerResponse::Described(PluginDescription { api_version, attributes }))
        }),
    };
    // The response is written last and atomically, so that a worker that dies before has none.
    write_file(&folder.join(RESPONSE), &serde_json::to_vec(&answer)?)
}

/// Runs `work` with the plugin at `path`.
fn with_plugin(
    path: &Path,
    reach: &impl Fn(WorkerStage),
    work: impl FnOnce(Arc<Plugin>) -> Result<WorkerResponse, PjrtError>,
) -> WorkerResponse {
    let mut is_loaded = false;
    reach(WorkerStage::Load);
    let plugin = Plugin::load_in_steps(path, || {
        is_loaded = true;
        reach(WorkerStage::Initialize);
    });
    match plugin {
        Ok(plugin) => work(plugin).unwrap_or_else(|error| TaskError::from(error).response()),
        Err(error) if is_loaded => TaskError::from(error).response(),
        Err(error) => WorkerResponse::NotLoaded { message: error.to_string(), hint: error.hint() },
    }
}

/// A task that failed without ending the process.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    #[error(transparent)]
    Pjrt(#[from] PjrtError),
    #[error(transparent)]
    StubLibs(#[from] StubLibsError),
    #[error(transparent)]
    CudaToolkit(#[from] CudaToolkitError),
}

impl TaskError {
    fn response(&self) -> WorkerResponse {
        let message = self.to_string();
        let hint = match self {
            Self::Pjrt(error) => error.hint(),
            Self::StubLibs(error) => error.hint(),
            Self::CudaToolkit(error) => Some(error.hint()),
        };
        match self {
            Self::Pjrt(PjrtError::Failed { code: ErrorCode::ResourceExhausted, .. }) => {
                WorkerResponse::TooLarge { message, hint }
            }
            _ => WorkerResponse::Refused { message, hint },
        }
    }
}

struct CompileOutput {
    executable: Vec<u8>,
    optimized: Vec<u8>,
    report: CompileResponse,
}

/// What was compiled, and what keeps it.
enum Output {
    Ahead(Executable),
    Loaded(LoadedExecutable),
}

fn compile(
    path: &Path,
    task: &CompileTask,
    program: &[u8],
    folder: &Path,
    reach: &impl Fn(WorkerStage),
) -> Result<CompileOutput, TaskError> {
    let mut stood_in = Vec::new();
    let mut options = task.options.clone();
    reach(WorkerStage::Load);
    match (task.platform, &task.devices) {
        // Only here: a program could not run on libraries that do nothing.
        (Platform::Rocm, RequestedDevices::Described { .. }) => {
            stood_in = stub_libs::load(path, &folder.join(STUB_LIBS))?
        }
        (Platform::Cuda, _) => options = cuda_toolkit::locate(path, options)?,
        _ => {}
    }
    let plugin = Plugin::load_in_steps(path, || reach(WorkerStage::Initialize))?;
    let program = PjrtProgram { format: task.format, bytes: program };
    reach(WorkerStage::Client);
    let (devices, compiled, seconds) = match &task.devices {
        RequestedDevices::Described { name, options: named } => {
            let topology = Topology::create(&plugin, name, &borrowed(named))?;
            reach(WorkerStage::Compile);
            let start = Instant::now();
            let executable = topology.compile_ahead(program, &options)?;
            (topology.devices().to_vec(), Output::Ahead(executable), start.elapsed())
        }
        RequestedDevices::Present { options: named } => {
            let client = Client::create(Arc::clone(&plugin), &borrowed(named))?;
            reach(WorkerStage::Compile);
            let start = Instant::now();
            let executable = client.compile(program, &options)?;
            (client.devices().to_vec(), Output::Loaded(executable), start.elapsed())
        }
    };
    let executable = match &compiled {
        Output::Ahead(executable) => executable,
        Output::Loaded(executable) => executable.executable(),
    };
    let hosts: BTreeSet<i32> = devices.iter().map(|device| device.process_index).collect();
    let (optimized_format, optimized) = executable.optimized_program()?;
    let report = CompileResponse {
        api_version: plugin.api_version(),
        memory: executable.memory()?,
        memory_limit: devices.iter().filter_map(|device| device.memory_limit()).min(),
        devices: devices.len(),
        hosts: hosts.len(),
        optimized_format,
        compile_seconds: seconds.as_secs_f64(),
        stub_libs: stood_in,
    };
    Ok(CompileOutput { executable: executable.serialize()?, optimized, report })
}

fn borrowed(options: &[(String, NamedValue)]) -> Vec<(&str, NamedValue)> {
    options.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}
