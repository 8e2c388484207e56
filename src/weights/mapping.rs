//! The one place where a file is mapped.
#![allow(unsafe_code)]

use std::{
    fs::File,
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
    /// Maps a file; its bytes are read only where they are touched.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let failed = |action| move |source| WeightsError::Io { action, path: path.to_owned(), source };
        let file = File::open(path).map_err(failed("open"))?;
        // SAFETY: the mapping is private to this struct, read-only, and handed out only as plain bytes, for which
        // any value is valid; what is parsed from them is copied out and checked once. That no other process
        // shortens the file meanwhile is what every reader of a mapped file relies on.
        let map = unsafe { Mmap::map(&file) }.map_err(failed("map"))?;
        Ok(Self { path: path.to_owned(), map })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
