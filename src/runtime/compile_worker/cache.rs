use std::{fs, io, path::Path};

use sha2::{Digest, Sha256};

use super::{
    CompileJob, CompileWorkerError, CompiledProgram, WorkerProgram, compile_in_worker,
    request::{EXECUTABLE, OPTIMIZED},
    run::request,
};
use crate::base::{
    hex,
    output::{sync_folder, temporary, write_file},
};

/// Written last into a folder of the cache: without it, the folder is incomplete.
const RECORD: &str = "compiled.json";

/// Origin of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileOrigin {
    /// Compiled by a worker.
    Compiler,
    /// Read from the cache.
    Cache,
}

/// Like [`compile_in_worker`], with compiled programs cached in the folder `cache`. `plugin_sha256` is the digest of the
/// plugin file. A cache that cannot be read or written is ignored.
///
/// # Errors
/// Those of [`compile_in_worker`].
pub fn compile_cached(
    job: &CompileJob<'_>,
    worker: &WorkerProgram,
    plugin_sha256: &str,
    cache: &Path,
) -> Result<(CompiledProgram, CompileOrigin), CompileWorkerError> {
    let folder = cache.join(key(job, plugin_sha256));
    if let Ok(compiled) = read(&folder) {
        return Ok((compiled, CompileOrigin::Cache));
    }
    let compiled = compile_in_worker(job, worker)?;
    if let Err(error) = write(&compiled, cache, &folder) {
        tracing::warn!(%error, cache = %cache.display(), "the compiled program is not kept");
    }
    Ok((compiled, CompileOrigin::Compiler))
}

/// Digest of everything that determines the compiled program.
fn key(job: &CompileJob<'_>, plugin_sha256: &str) -> String {
    let mut request = request(job);
    // The plugin's content matters, not its path.
    request.plugin = plugin_sha256.into();
    let mut digest = Sha256::new();
    digest.update(serde_json::to_vec(&request).unwrap_or_default());
    digest.update(job.program.bytes);
    hex(digest.finalize())
}

fn read(folder: &Path) -> io::Result<CompiledProgram> {
    let compiled: CompiledProgram = serde_json::from_slice(&fs::read(folder.join(RECORD))?)?;
    let (executable, optimized) = (fs::read(folder.join(EXECUTABLE))?, fs::read(folder.join(OPTIMIZED))?);
    Ok(CompiledProgram { executable, optimized, ..compiled })
}

/// Writes beside the folder, then renames; an existing folder is kept.
fn write(compiled: &CompiledProgram, cache: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(cache)?;
    let work = temporary(0o777).tempdir_in(cache)?;
    let write = |name: &str, bytes: &[u8]| write_file(&work.path().join(name), bytes);
    write(EXECUTABLE, &compiled.executable)?;
    write(OPTIMIZED, &compiled.optimized)?;
    write(RECORD, &serde_json::to_vec(compiled)?)?;
    match fs::rename(work.path(), folder) {
        Err(_) if read(folder).is_ok() => Ok(()),
        renamed => renamed.and_then(|()| sync_folder(cache)),
    }
}
