//! Output files: regular files are replaced atomically; everything else is written directly.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// Prefix of the temporary files beside an output file.
const PREFIX: &str = ".writing-";

/// Symbolic links followed before a chain counts as a loop; the limit of Linux (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Writes `bytes` to a file, see [`Pending`].
///
/// # Errors
/// The operating system's error; an existing regular file is then unchanged.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Pending::write(path, |out| out.write_all(bytes))?.commit()
}

/// Resolves symbolic links, also to a file that does not exist yet. The name of an open descriptor, such as `/dev/stdout`,
/// resolves to that descriptor and not to the file behind it.
///
/// # Errors
/// If a link cannot be read or the links form a loop.
pub fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if is_descriptor(&path) {
            return Ok(path);
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(&path)?;
                path = parent(&path).join(target);
            }
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("more than {MAX_LINKS} symbolic links in a row")))
}

/// Whether a path names an open descriptor of a process, as `/dev/fd/1` and `/proc/self/fd/1` do.
fn is_descriptor(path: &Path) -> bool {
    let folder = parent(path);
    folder == Path::new("/dev/fd") || folder.starts_with("/proc") && folder.ends_with("fd")
}

/// The parent folder of `path`; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes renames inside a folder durable.
///
/// # Errors
/// The operating system's error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Removes temporary files of a killed writer from a folder. Call it only while no other writer uses the folder.
///
/// # Errors
/// The path concerned and the operating system's error.
pub fn remove_leftovers(folder: &Path) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
        }
    }
    Ok(())
}

/// A builder of temporary files and folders beside an output, with the permissions `mode` less the user's umask.
pub fn temporary(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// The new content of a file, written to a temporary file beside it. [`Pending::commit`] renames the temporary file to the
/// path; dropping it instead removes the temporary file and leaves an existing file unchanged.
///
/// An existing file keeps its permissions. A symbolic link is followed: its target is replaced, and the link remains. Pipes,
/// devices and sockets cannot be replaced by a rename, so [`Pending::write`] writes to them directly, and nothing is pending.
#[derive(Debug)]
pub struct Pending(Option<Renamed>);

#[derive(Debug)]
struct Renamed {
    path: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    /// Writes `content` beside `path` and syncs it, or writes it directly if `path` is not a regular file.
    ///
    /// # Errors
    /// The operating system's error, or that of `content`.
    pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let existing = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let path = resolve_links(path)?;
        match &existing {
            Some(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Some(metadata) if !metadata.is_file() || is_descriptor(&path) => {
                // Appending keeps what an open descriptor has received before.
                buffered(&mut File::options().append(true).open(&path)?, content)?;
                return Ok(Self(None));
            }
            _ => {}
        }
        // The error of a missing folder names the folder, not the temporary file.
        fs::metadata(parent(&path))?;
        let mut file = temporary(0o666).tempfile_in(parent(&path))?;
        buffered(file.as_file_mut(), content)?;
        if let Some(metadata) = existing {
            file.as_file().set_permissions(metadata.permissions())?;
        }
        file.as_file().sync_all()?;
        Ok(Self(Some(Renamed { path, file })))
    }

    /// Renames the file into place and makes the rename durable.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn commit(self) -> io::Result<()> {
        let Some(Renamed { path, file }) = self.0 else { return Ok(()) };
        file.persist(&path).map_err(|error| error.error)?;
        sync_folder(parent(&path))
    }
}

fn buffered(file: &mut File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    content(&mut out)?;
    out.flush()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_failed_or_dropped_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_file(&path, b"old").unwrap();
        let full = Pending::write(&path, |out| {
            out.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop(Pending::write(&path, |out| out.write_all(b"never committed")).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for mode in [0o600, 0o644, 0o755, 0o400] {
            write_file(&path, b"old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write_file(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }

    #[test]
    fn links_are_followed_and_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        symlink("elsewhere/file", at("first")).unwrap();
        symlink(at("first"), at("second")).unwrap();
        for text in ["a file that was not there", "a file that was"] {
            write_file(&at("second"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(at("elsewhere/file")).unwrap(), text);
        }
        assert!(at("second").is_symlink() && at("first").is_symlink());
        assert_eq!(names(folder.path()), ["elsewhere", "first", "second"]);
        assert_eq!(names(&at("elsewhere")), ["file"]);
        symlink("loop", at("loop")).unwrap();
        assert!(write_file(&at("loop"), b"").is_err());
    }

    #[test]
    fn pipes_and_devices_are_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write_file(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        symlink("/dev/null", folder.path().join("null")).unwrap();
        write_file(&folder.path().join("null"), b"gone").unwrap();
        assert_eq!(names(folder.path()), ["null", "pipe"]);
        let error = write_file(folder.path(), b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
