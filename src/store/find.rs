use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{error::StoreError, folder::Store, packages::Package};

/// Origin of a package's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// Given by the user.
    Explicit,
    /// Installed in the store, in the pinned version.
    Store,
    /// Installed in Python's site-packages, in any version.
    SitePackages,
}

/// An existing file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The file.
    pub path: PathBuf,
    /// Its origin.
    pub origin: FileOrigin,
}

impl Store {
    /// Finds the package's file: the given one, else the one in the store. Installs nothing.
    ///
    /// # Errors
    /// If the given file does not exist, or is a folder.
    pub fn find(
        &self,
        package: &Package,
        explicit: Option<&Path>,
    ) -> Result<Option<PackageFile>, StoreError> {
        if let Some(path) = explicit {
            let metadata = std::fs::metadata(path).map_err(|error| StoreError::io(path, error))?;
            if metadata.is_dir() {
                return Err(StoreError::io(path, io::ErrorKind::IsADirectory.into()));
            }
            return Ok(Some(PackageFile { path: path.to_owned(), origin: FileOrigin::Explicit }));
        }
        Ok(self.installed(package).map(|path| PackageFile { path, origin: FileOrigin::Store }))
    }

    /// Finds the package's file in the folders of `sys.path`, which the Python interpreter prints.
    ///
    /// # Errors
    /// If the interpreter cannot be run.
    pub fn find_in_python(&self, package: &Package) -> Result<Option<PackageFile>, StoreError> {
        let output = Command::new(&self.python)
            .args(["-c", "import sys; print('\\n'.join(sys.path))"])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => StoreError::NoPython { program: self.python.clone() },
                _ => StoreError::io(&self.python, error),
            })?;
        let paths = String::from_utf8_lossy(&output.stdout).into_owned();
        let path = paths
            .lines()
            .filter(|folder| !folder.is_empty())
            .map(|folder| Path::new(folder).join(package.file))
            .find(|path| path.is_file());
        Ok(path.map(|path| PackageFile { path, origin: FileOrigin::SitePackages }))
    }
}
