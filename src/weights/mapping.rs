//! Memory-mapped files.
#![allow(unsafe_code)]

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use super::WeightsError;

/// A file mapped for reading.
#[derive(Debug)]
pub(super) struct Mapping {
    path: PathBuf,
    map: Mmap,
}

impl Mapping {
    /// Maps a file; pages are read when they are accessed.
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let failed = |action| move |source| WeightsError::Io { action, path: path.to_owned(), source };
        let file = File::open(path).map_err(failed("open"))?;
        // SAFETY: the mapping is private to this struct, read-only, and handed out only as plain bytes, for which
        // any value is valid; what is parsed from them is copied out and checked once. That no other process
        // shortens the file meanwhile is what every reader of a mapped file relies on.
        let map = unsafe { Mmap::map(&file) }.map_err(failed("map"))?;
        Ok(Self { path: path.to_owned(), map })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Releases the memory of pages; they are read from the file again on the next access.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the pages are those of a file mapped for reading, which cannot have been written to through it: dropping them
            // changes no byte that is seen through the mapping. Borrowed bytes stay valid, since the mapping stays.
            let done = unsafe { self.map.unchecked_advise_range(advice, range.start, range.len()) };
            // A failure only costs memory.
            drop(done);
        }
    }
}
