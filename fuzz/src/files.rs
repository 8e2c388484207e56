use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A folder in memory, for readers that take a path.
pub struct Files(TempDir);

impl Files {
    /// One file for each name, from an input in which a line `----` separates them; files that the input does not reach are
    /// missing.
    pub fn split(names: &[&str], input: &[u8]) -> Self {
        let files = Self::new();
        let mut rest = Some(input);
        for name in names {
            let Some(text) = rest else { break };
            let (file, after) = match text.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
                Some(at) => (&text[..at], Some(&text[at + SEPARATOR.len()..])),
                None => (text, None),
            };
            files.write(name, file);
            rest = after;
        }
        files
    }

    /// One file.
    pub fn one(name: &str, input: &[u8]) -> Self {
        let files = Self::new();
        files.write(name, input);
        files
    }

    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self(folder.expect("a temporary folder"))
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a temporary file");
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// What separates the files of one input.
const SEPARATOR: &[u8] = b"\n----\n";
