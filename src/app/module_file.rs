//! Files with modules before they are read.

use std::path::{Path, PathBuf};

use super::AppError;
use crate::base::{Diagnostic, Diagnostics, Location, Setting};

/// A file with a module, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The stage: `before_optimizations`, or the name of a file that is given by itself.
    pub stage: String,
    /// The file.
    pub path: PathBuf,
}

/// The error of a folder of which a part must be chosen.
pub(super) fn choose(folder: &Path, problem: String, setting: Setting, names: &[&str]) -> AppError {
    let hint = format!("choose one of these with {setting}: {}", names.join(", "));
    let location = Location::file(folder.display().to_string());
    Diagnostics::from(Diagnostic::error(location, problem).with_hint(hint)).into()
}
