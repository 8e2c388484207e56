use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{error::StoreError, packages::Package};

/// Written last into a package's folder: without it, the package is not installed.
const NAME: &str = "hloom-package.json";

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The package's key.
    pub key: String,
    /// Requirement of each wheel, as `NAME==VERSION`.
    pub requirements: Vec<String>,
    /// SHA-256 of each wheel.
    pub sha256: Vec<String>,
    /// The file to use, relative to the folder.
    pub file: PathBuf,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// The package's folder.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Installed {
    pub(super) fn of(package: &Package, bytes: u64) -> Self {
        Self {
            key: package.key.to_owned(),
            requirements: package.wheels.iter().map(|wheel| wheel.requirement()).collect(),
            sha256: package.wheels.iter().map(|wheel| wheel.sha256.to_owned()).collect(),
            file: package.file.into(),
            bytes,
            folder: PathBuf::new(),
        }
    }

    /// The path of the file to use.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.file)
    }

    /// Whether this is the pinned version of `package`.
    pub fn is(&self, package: &Package) -> bool {
        self.sha256.iter().map(String::as_str).eq(package.wheels.iter().map(|wheel| wheel.sha256))
            && self.file == Path::new(package.file)
    }
}

/// Reads the manifest of a package's folder; `None` if the package is not installed.
pub(super) fn read(folder: &Path) -> Option<Installed> {
    let text = std::fs::read_to_string(folder.join(NAME)).ok()?;
    let manifest: Installed = serde_json::from_str(&text).ok()?;
    let manifest = Installed { folder: folder.to_owned(), ..manifest };
    manifest.path().is_file().then_some(manifest)
}

/// Writes the manifest and syncs it to disk.
pub(super) fn write(folder: &Path, manifest: &Installed) -> Result<(), StoreError> {
    let path = folder.join(NAME);
    let io = |error| StoreError::io(&path, error);
    let text = serde_json::to_string_pretty(manifest).map_err(|error| io(error.into()))?;
    let mut file = File::create(&path).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)
}
