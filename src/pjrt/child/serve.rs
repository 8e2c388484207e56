use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::request::{
    ANSWER, Answer, Devices, EXECUTABLE, OPTIMIZED, PROGRAM, REQUEST, Report, Request, STAND_INS,
};
use crate::pjrt::{
    Client, ErrorCode, Executable, LoadedExecutable, NamedValue, PjrtError, Plugin, Program, Topology,
    cuda_toolkit, stand_ins, targets::Platform,
};

/// The child's side of [`compile_in_child`](super::compile_in_child): compiles what the request in `folder` asks for
/// and writes the answer beside it. A plugin's refusal is an answer like any other.
///
/// # Errors
/// If the request cannot be read, or the answer cannot be written.
pub fn serve(folder: &Path) -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(folder.join(REQUEST))?)?;
    let program = fs::read(folder.join(PROGRAM))?;
    let answer = match compile(&request, &program, folder) {
        Ok(done) => {
            fs::write(folder.join(EXECUTABLE), done.executable)?;
            fs::write(folder.join(OPTIMIZED), done.optimized)?;
            Answer::Compiled(done.report)
        }
        Err(error) => refusal(&error),
    };
    // The answer appears last and whole, so that a child that dies meanwhile has given none.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(&answer)?)?;
    file.persist(folder.join(ANSWER))?;
    Ok(())
}

fn refusal(error: &PjrtError) -> Answer {
    let (message, hint) = (error.to_string(), error.hint());
    match error {
        PjrtError::Failed { code: ErrorCode::ResourceExhausted, .. } => Answer::TooLarge { message, hint },
        _ => Answer::Refused { message, hint },
    }
}

struct Done {
    executable: Vec<u8>,
    optimized: Vec<u8>,
    report: Report,
}

/// What was compiled, and what keeps it.
enum Output {
    Ahead(Executable),
    Loaded(LoadedExecutable),
}

fn compile(request: &Request, program: &[u8], folder: &Path) -> Result<Done, PjrtError> {
    let path = &request.plugin;
    let mut stood_in = Vec::new();
    let mut options = request.options.clone();
    match (request.platform, &request.devices) {
        // Only here: a program could not run on libraries that do nothing.
        (Platform::Rocm, Devices::Described { .. }) => {
            stood_in = stand_ins::load(path, &folder.join(STAND_INS))?
        }
        (Platform::Cuda, _) => options = cuda_toolkit::locate(path, options)?,
        _ => {}
    }
    let plugin = Plugin::load(path)?;
    let program = Program { format: request.format, bytes: program };
    let (devices, compiled, seconds) = match &request.devices {
        Devices::Described { name, options: named } => {
            let topology = Topology::create(&plugin, name, &borrowed(named))?;
            let start = Instant::now();
            let executable = topology.compile_ahead(program, &options)?;
            (topology.devices().to_vec(), Output::Ahead(executable), start.elapsed())
        }
        Devices::Present { options: named } => {
            let client = Client::create(Arc::clone(&plugin), &borrowed(named))?;
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
    let report = Report {
        api_version: plugin.api_version(),
        memory: executable.memory()?,
        memory_limit: devices.iter().filter_map(|device| device.memory_limit()).min(),
        devices: devices.len(),
        hosts: hosts.len(),
        optimized_format,
        compile_seconds: seconds.as_secs_f64(),
        stand_ins: stood_in,
    };
    Ok(Done { executable: executable.serialize()?, optimized, report })
}

fn borrowed(options: &[(String, NamedValue)]) -> Vec<(&str, NamedValue)> {
    options.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}
