//! `metrics.jsonl`: a line of JSON for each update, and the lock of an output folder in use.

use std::{
    fs::{File, TryLockError},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{TrainError, checkpoint, events::StepRecord};

/// `metrics.jsonl`, one line per update, each flushed.
pub(super) struct Metrics {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Metrics {
    /// The file in `out`, truncated to the lines of the first `done` updates: a killed run may have written more after its last
    /// checkpoint.
    pub(super) fn open(out: &Path, done: usize) -> Result<Self, TrainError> {
        let path = out.join(checkpoint::METRICS);
        let error = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| TrainError::Io { action, path, source }
        };
        std::fs::create_dir_all(out).map_err(error("create", out))?;
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(&path).map_err(error("open", &path))?;
        // The lock ends with the process, even if that is killed.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TrainError::InUse(out.to_owned())),
            // Some network file systems have no locks; runs there are not protected from each other.
            Err(TryLockError::Error(source)) if source.kind() == std::io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(error("lock", &path)(source)),
        }
        let kept = bytes_of_updates(&file, done).and_then(|kept| file.set_len(kept));
        kept.map_err(error("read", &path))?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    pub(super) fn write(&mut self, record: &StepRecord) -> Result<(), TrainError> {
        let line = serde_json::to_string(record).map_err(std::io::Error::other);
        let written = line.and_then(|line| writeln!(self.file, "{line}").and_then(|()| self.file.flush()));
        written.map_err(|source| TrainError::Io { action: "write", path: self.path.clone(), source })
    }
}

/// Number of bytes of the complete lines of the first `done` updates.
fn bytes_of_updates(file: &File, done: usize) -> std::io::Result<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        step: usize,
    }
    let mut lines = BufReader::new(file);
    let mut bytes = 0;
    let mut line = Vec::new();
    loop {
        let read = lines.read_until(b'\n', &mut line)?;
        let numbered = serde_json::from_slice::<Numbered>(&line);
        if !line.ends_with(b"\n") || !numbered.is_ok_and(|record| record.step <= done) {
            return Ok(bytes);
        }
        bytes += read as u64;
        line.clear();
    }
}
