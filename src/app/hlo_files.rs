//! Files with HLO modules.

use std::path::Path;

use super::AppError;
use crate::{
    base::read_text,
    hlo::raw::{self, Module},
    train::TrainError,
};

/// Reads the module in a file of HLO text.
///
/// # Errors
/// A file that cannot be read or is not text; the errors of [`raw::parse`].
pub fn open(path: &Path) -> Result<Module, AppError> {
    let text = read_text(path, "HLO text").map_err(|source| TrainError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(raw::parse(text, &path.display().to_string())?)
}
