use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use super::WeightsError;

const PREFIX: &str = ".writing-";

/// Removes what writers that were killed left in a folder. Nobody may be writing there.
///
/// # Errors
/// If the folder cannot be read, or a file in it not removed.
pub fn remove_leftovers(folder: &Path) -> Result<(), WeightsError> {
    let error = |action, path: &Path| {
        let path = path.to_owned();
        move |source| WeightsError::Io { action, path, source }
    };
    for entry in fs::read_dir(folder).map_err(error("read", folder))? {
        let entry = entry.map_err(error("read", folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            fs::remove_file(entry.path()).map_err(error("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// A file written in full and synced beside its place, which it takes on [`Pending::commit`]; dropped, it is gone.
pub(super) struct Pending {
    path: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    pub fn write(
        path: &Path,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Self, WeightsError> {
        let pending = || {
            let mut file = create_beside(path)?;
            let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
            content(&mut out)?;
            out.flush()?;
            drop(out);
            file.as_file().sync_all()?;
            Ok(Self { path: path.to_owned(), file })
        };
        pending().map_err(|source| WeightsError::Io { action: "write", path: path.to_owned(), source })
    }

    /// Renames the file into place and makes the rename durable.
    pub fn commit(self) -> Result<(), WeightsError> {
        let Self { path, file } = self;
        let renamed = file.persist(&path).map_err(|e| e.error).and_then(|_| sync_folder(&path));
        renamed.map_err(|source| WeightsError::Io { action: "write", path, source })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn create_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    // A temporary file is private to its owner; a model file is what the user's umask makes of it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder_of(path))?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        Pending::write(&path, |out| out.write_all(b"old")).unwrap().commit().unwrap();
        let full = Pending::write(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(full.err().unwrap().to_string(), format!("cannot write {}", path.display()));
        drop(Pending::write(&path, |out| out.write_all(b"never committed")).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
