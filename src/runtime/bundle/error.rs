use std::io;
use std::path::PathBuf;

use crate::{
    base::{Setting, command},
    hlo::proto::ProtoError,
};

/// Error of reading or writing a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file could not be written or read.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder is not a bundle.
    #[error("not a bundle: {}: {reason}", path.display())]
    NotABundle {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The output folder has other content.
    #[error("the output folder exists and is not a bundle: {}", .0.display())]
    Occupied(PathBuf),
    /// A file differs from its digest in the manifest.
    #[error("{} has changed since the bundle was made: expected SHA-256 {expected}, found {found}", path.display())]
    Edited {
        /// The file.
        path: PathBuf,
        /// Digest in the manifest.
        expected: String,
        /// Digest of the file.
        found: String,
    },
    /// The module is not the one built from the manifest.
    #[error(
        "{} is not the step that manifest.json describes: expected SHA-256 {expected}, found {found}",
        path.display()
    )]
    AnotherModule {
        /// The file.
        path: PathBuf,
        /// Digest of the module built from the manifest.
        expected: String,
        /// Digest of the file.
        found: String,
    },
    /// The module cannot be decoded.
    #[error("cannot read {}", path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// The decoder's error.
        source: ProtoError,
    },
    /// A setting differs from that of the bundle.
    #[error("{setting}: the bundle was made for {made}, found: {found}")]
    Differs {
        /// The setting or field.
        setting: String,
        /// Value in the manifest.
        made: String,
        /// Given value.
        found: String,
    },
}

impl BundleError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::NotABundle { .. } => {
                Some(format!("{} writes one", command("compile", &[(Setting::Out, "DIR")])))
            }
            Self::Occupied(_) => {
                Some(format!("set another folder with {}; only a bundle is replaced", Setting::Out))
            }
            Self::Edited { .. } | Self::AnotherModule { .. } | Self::Module { .. } => {
                Some(format!("copy the bundle again, or write another with {}", command("compile", &[])))
            }
            Self::Differs { .. } => Some(format!(
                "leave the setting out, or write another bundle with {}",
                command("compile", &[])
            )),
        }
    }
}
