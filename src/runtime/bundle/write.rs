use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{BundleError, MANIFEST, MANIFEST_SHA256, Manifest, open::read_manifest, sha256};
use crate::base::output::{parent, resolve_links, sync_folder, temporary, write_file};

/// Checks that a bundle can be written to `folder`: it does not exist, is empty, or is an older bundle.
///
/// # Errors
/// If it is anything else, or cannot be read.
pub(crate) fn claim(folder: &Path) -> Result<(), BundleError> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(BundleError::Occupied(folder.to_owned()));
        }
        Err(source) => return Err(BundleError::Io { action: "read", path: folder.to_owned(), source }),
    };
    if entries.next().is_none() || read_manifest(folder).is_ok() {
        return Ok(());
    }
    Err(BundleError::Occupied(folder.to_owned()))
}

/// The content of `manifest.sha256`.
fn digest_line(manifest: &[u8]) -> String {
    format!("{}  {MANIFEST}\n", sha256(manifest))
}

/// Writer of a bundle, into a temporary folder until it is complete.
#[derive(Debug)]
pub struct BundleWriter {
    folder: PathBuf,
    work: TempDir,
    files: BTreeMap<String, String>,
}

impl BundleWriter {
    /// Starts to write the bundle `folder`.
    ///
    /// # Errors
    /// If `folder` is neither empty nor an older bundle, or its parent cannot be created or written to.
    pub fn new(folder: &Path) -> Result<Self, BundleError> {
        claim(folder)?;
        let error = |source| BundleError::Io { action: "write to", path: parent(folder).to_owned(), source };
        // A link to a folder stays a link, and the folder behind it is replaced.
        let folder = resolve_links(folder).map_err(error)?;
        fs::create_dir_all(parent(&folder)).map_err(error)?;
        let work = temporary(0o777).tempdir_in(parent(&folder)).map_err(error)?;
        Ok(Self { folder, work, files: BTreeMap::new() })
    }

    /// Writes a file and syncs it to disk.
    ///
    /// # Errors
    /// [`BundleError::Io`] if it cannot be written.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        self.write(name, bytes)?;
        self.files.insert(name.to_owned(), sha256(bytes));
        Ok(())
    }

    /// Writes the manifest with the digests of the added files, and renames the bundle to its folder.
    ///
    /// # Errors
    /// If it cannot be written or renamed; an older bundle is then unchanged.
    pub fn finish(self, manifest: Manifest) -> Result<(), BundleError> {
        let manifest = Manifest { files: self.files.clone(), ..manifest };
        let text =
            serde_json::to_string_pretty(&manifest).map_err(|error| self.error(MANIFEST, error.into()))?;
        let text = text + "\n";
        self.write(MANIFEST, text.as_bytes())?;
        self.write(MANIFEST_SHA256, digest_line(text.as_bytes()).as_bytes())?;
        let Self { folder, work, .. } = self;
        let error = |source| BundleError::Io { action: "write", path: folder.clone(), source };
        sync_folder(work.path()).map_err(error)?;
        // An older bundle is moved first, since a rename does not replace a folder with content.
        let aside = temporary(0o777).tempdir_in(parent(&folder)).map_err(error)?;
        let old = aside.path().join("old");
        let replaced = folder.exists();
        if replaced {
            fs::rename(&folder, &old).map_err(error)?;
        }
        if let Err(source) = fs::rename(work.path(), &folder) {
            if replaced {
                fs::rename(&old, &folder).map_err(error)?;
            }
            return Err(error(source));
        }
        // The folder has been renamed, so there is nothing left to remove.
        let _ = work.keep();
        sync_folder(parent(&folder)).map_err(error)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        write_file(&self.work.path().join(name), bytes).map_err(|source| self.error(name, source))
    }

    fn error(&self, name: &str, source: io::Error) -> BundleError {
        BundleError::Io { action: "write", path: self.folder.join(name), source }
    }
}
