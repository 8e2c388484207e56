use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{error::StoreError, folder::Store, packages::Package};

/// Where a package's file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// The user named it.
    Explicit,
    /// The store holds it, in the pinned version.
    Store,
    /// Python has it installed, in whatever version.
    SitePackages,
}

/// A package's file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The file.
    pub path: PathBuf,
    /// Where it came from.
    pub origin: FileOrigin,
}

impl Store {
    /// The package's file without installing anything: the one the user named, else the store's.
    ///
    /// # Errors
    /// If the file that the user named is not there.
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

    /// The package's file where Python imports from, asked of the interpreter itself.
    ///
    /// # Errors
    /// If there is no Python.
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
