use std::io;
use std::path::PathBuf;

use crate::{
    base::{Setting, command},
    hlo::proto::ProtoError,
};

/// What can be wrong with a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file could not be written or read.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder is not a bundle.
    #[error("not a bundle: {}: {reason}", path.display())]
    NotABundle {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder holds something else.
    #[error("the output folder exists, and is no bundle: {}", .0.display())]
    Occupied(PathBuf),
    /// A file is not the one that was written.
    #[error("{} has changed since the bundle was made: expected SHA-256 {expected}, found {found}", path.display())]
    Edited {
        /// The file.
        path: PathBuf,
        /// What the manifest says.
        expected: String,
        /// What it has.
        found: String,
    },
    /// The module computes something else than its manifest says.
    #[error(
        "{} is not the step that manifest.json describes: expected SHA-256 {expected}, found {found}",
        path.display()
    )]
    AnotherModule {
        /// The file.
        path: PathBuf,
        /// That of the module built from the manifest.
        expected: String,
        /// That of the file.
        found: String,
    },
    /// The module is not one of this version of hloom.
    #[error("cannot read {}", path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ProtoError,
    },
    /// The bundle was made for something else than it is to be used for.
    #[error("{setting}: the bundle was made for {made}, found: {found}")]
    Differs {
        /// Which setting or field.
        setting: String,
        /// What the manifest says.
        made: String,
        /// What was given.
        found: String,
    },
}

impl BundleError {
    /// What the reader can do about it.
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
