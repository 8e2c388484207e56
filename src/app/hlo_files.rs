//! Files with HLO modules: text or protos, also compressed, and folders with several stages of a module.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;

pub use super::module_file::ModuleFile;
use super::{AppError, dump_folder, module_file::choose};
use crate::{
    base::{Diagnostic, Diagnostics, FileKind, Location, Setting, wrong_format},
    hlo::raw::{self, MAX_TEXT, Module},
    runtime::bundle::{Bundle, Contents, MANIFEST, MODULE},
    train::TrainError,
};

/// A module at one stage of compilation.
#[derive(Debug)]
pub struct OpenedModule {
    /// The stage, by the name of the file: `before_optimizations`.
    pub stage: String,
    /// The module.
    pub module: Module,
    /// Computations as the file has them: a proto also has those that async ops wrap, which a text spells as one instruction.
    pub num_computations: usize,
    /// Instructions of all these computations.
    pub num_instructions: usize,
}

impl OpenedModule {
    /// A module that is not from a proto.
    pub fn new(stage: String, module: Module) -> Self {
        let (num_computations, num_instructions) = (module.num_computations(), module.num_instructions());
        Self { stage, module, num_computations, num_instructions }
    }
}

/// The files of a module in order of compilation: a file by itself, the stages in a folder of XLA's dumps, or those in a bundle,
/// where `target` chooses the executable. `module` is a part of the name of a module where a folder has several.
///
/// # Errors
/// A folder without modules, or with several of which none is chosen.
pub fn find(path: &Path, module: Option<&str>, target: Option<&str>) -> Result<Vec<ModuleFile>, AppError> {
    if !path.is_dir() {
        let name = path.file_name().map_or(path.to_string_lossy(), |name| name.to_string_lossy());
        return Ok(vec![ModuleFile { stage: name.into_owned(), path: path.to_owned() }]);
    }
    if path.join(MANIFEST).exists() {
        return in_bundle(path, target);
    }
    dump_folder::stages(path, module)
}

/// The module of a bundle, and its optimized module for a target.
fn in_bundle(folder: &Path, target: Option<&str>) -> Result<Vec<ModuleFile>, AppError> {
    let bundle = Bundle::open(folder, Contents::All)?;
    let targets = &bundle.manifest().targets;
    let names: Vec<&str> = targets.iter().map(|build| build.target.as_str()).collect();
    let file = |stage: String, name: &str| ModuleFile { stage, path: folder.join(name) };
    let mut files = vec![file("module".to_owned(), MODULE)];
    let chosen = match target {
        Some(target) => match targets.iter().find(|build| build.target == target) {
            Some(build) => Some(build),
            None => {
                let problem = format!("unknown target {target} of the bundle");
                return Err(choose(folder, problem, Setting::Target, &names));
            }
        },
        None => targets.iter().find(|build| build.optimized.is_some()),
    };
    if let Some(build) = chosen
        && let Some(optimized) = &build.optimized
    {
        files.push(file(format!("optimized for {}", build.target), optimized));
    }
    Ok(files)
}

/// Reads the last module of a file or folder: in a folder of dumps and in a bundle the optimized one.
///
/// # Errors
/// Those of [`find`] and of [`read`].
pub fn open(path: &Path) -> Result<OpenedModule, AppError> {
    let files = find(path, None, None)?;
    read(files.last().expect("a folder without modules is an error"))
}

/// Reads the module of a file: HLO text, or a proto that holds a module, alone or compressed by gzip.
///
/// # Errors
/// A file that cannot be read or is in another format; the errors of [`raw::parse`] and [`raw::from_proto`].
pub fn read(file: &ModuleFile) -> Result<OpenedModule, AppError> {
    let ModuleFile { stage, path } = file;
    let failed = |source| TrainError::Io { action: "read", path: path.clone(), source };
    let bytes = content(path).map_err(failed)?;
    let name = path.display().to_string();
    let stage = stage.clone();
    if is_proto(&bytes) {
        // The warnings are about fields that matter to a conversion only.
        let read = raw::from_proto(&bytes, &name, raw::AsyncOps::Sugar)?;
        let raw::FromProto { module, num_computations, num_instructions, .. } = read;
        return Ok(OpenedModule { stage, module, num_computations, num_instructions });
    }
    let invalid = |_| failed(wrong_format("HLO text or an HLO proto", FileKind::Binary));
    let text = String::from_utf8(bytes).map_err(invalid)?;
    if let Some(found) = other_language(&text) {
        let message = format!("expected HLO, found {found}");
        let hint = "XLA dumps the module as HLO where XLA_FLAGS has xla_dump_to";
        return Err(
            Diagnostics::from(Diagnostic::error(Location::line(name, 1), message).with_hint(hint)).into()
        );
    }
    Ok(OpenedModule::new(stage, raw::parse(text, &name)?))
}

/// The bytes of a file, decompressed, if they may be a module.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    if FileKind::of(&bytes) == FileKind::Gzip {
        let mut content = Vec::new();
        let limit = MAX_TEXT as u64 + 1;
        MultiGzDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut content)?;
        if content.len() > MAX_TEXT {
            let message = format!("expected at most {MAX_TEXT} bytes after decompression, found more");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        bytes = content;
    }
    match FileKind::of(&bytes) {
        FileKind::Binary => Ok(bytes),
        found if found.is_text() => Ok(bytes),
        // A proto can begin like anything: a message of 31 bytes in field 3 like a gzip file.
        found
            if is_proto(&bytes)
                && !matches!(found, FileKind::Html | FileKind::Xml | FileKind::LfsPointer) =>
        {
            Ok(bytes)
        }
        found => Err(wrong_format("HLO text or an HLO proto", found)),
    }
}

/// Whether bytes are a proto rather than text: its tags and lengths are control characters.
fn is_proto(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    start.iter().any(|&byte| byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x0c))
}

/// The language of a text that is not HLO.
fn other_language(text: &str) -> Option<&'static str> {
    let code = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    let is_mlir = code.starts_with("module {")
        || code.starts_with("module @")
        || code.starts_with("module attributes")
        || code.starts_with("builtin.module")
        || code.starts_with("func.func")
        || code.starts_with("#loc");
    is_mlir.then_some("MLIR, such as StableHLO")
}
