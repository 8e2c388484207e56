use std::path::{Path, PathBuf};

use super::{
    error::StoreError,
    manifest::{self, Installed},
    packages::Package,
};

/// Whether the store may download packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Downloads are allowed.
    Allowed,
    /// No downloads; a missing package is an error.
    Offline,
}

/// A folder with each installed package in `KEY/`. Several processes may share it.
///
/// # Examples
/// ```
/// use hloom::store::{Network, Silent, Store, StoreError, package};
///
/// let store = Store::at("no-such-folder");
/// assert!(store.list()?.is_empty());
///
/// let cpu = package("cpu").unwrap();
/// assert_eq!(store.find(cpu, None)?, None);
/// let error = store.ensure(cpu, Network::Offline, &mut Silent).unwrap_err();
/// assert_eq!(error.to_string(), "package is not installed, and downloads are not allowed: cpu");
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) root: PathBuf,
    pub(super) python: PathBuf,
}

impl Store {
    /// A store in the folder `root`, which is created on installation. It runs `python3`.
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

    /// Installed packages, sorted by key; empty if the folder does not exist.
    ///
    /// # Errors
    /// If the folder cannot be read.
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
