use std::path::{Path, PathBuf};

use super::{
    error::StoreError,
    manifest::{self, Installed},
    packages::Package,
};

/// Whether the store may fetch what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// It may.
    Allowed,
    /// It may not; a missing package is an error.
    Offline,
}

/// A folder that holds each installed package in `KEY/`. Several processes may share it.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) root: PathBuf,
    pub(super) python: PathBuf,
}

impl Store {
    /// The store in the folder `root`, which is made when something is installed. It calls `python3`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), python: "python3".into() }
    }

    /// The same store with another Python interpreter.
    pub fn with_python(self, python: impl Into<PathBuf>) -> Self {
        Self { python: python.into(), ..self }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is installed, by key.
    ///
    /// # Errors
    /// If the folder cannot be read. A store without a folder is empty.
    pub fn list(&self) -> Result<Vec<Installed>, StoreError> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(&self.root, error)),
        };
        let mut installed = Vec::new();
        for entry in entries {
            let folder = entry.map_err(|error| StoreError::io(&self.root, error))?.path();
            let hidden = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !hidden && let Some(manifest) = manifest::read(&folder) {
                installed.push(manifest);
            }
        }
        installed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(installed)
    }

    /// Folder of a package, whether or not it is installed.
    pub(super) fn folder(&self, package: &Package) -> PathBuf {
        self.root.join(package.key)
    }
}
