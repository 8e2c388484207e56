//! The store: a folder of packages (plugins and a small pretrained model), pinned by version and SHA-256, which
//! Python's pip fetches with the user's own index, proxy and certificates.

mod packages;

mod error;

mod progress;

mod pip;

mod unpack;

mod manifest;

mod install;

mod find;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::StoreError;
pub use find::{FileOrigin, PackageFile};
pub use manifest::Installed;
pub use packages::{PACKAGES, Package, Wheel, package};
pub use progress::{Progress, Silent};

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
    root: PathBuf,
    python: PathBuf,
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

    fn folder(&self, package: &Package) -> PathBuf {
        self.root.join(package.key)
    }
}
