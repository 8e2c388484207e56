use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::base::{DType, Diagnostics, FileKind};

/// What a model path leads to, for errors.
pub(super) const MODEL: &str = "a Hugging Face folder or a GGUF file";

const FOLDER_HINT: &str = "a Hugging Face folder holds config.json, tokenizer.json, and model.safetensors or \
                           model.safetensors.index.json with its shards";

/// Why model files could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `open`, `map`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// A folder lacks a file that it must hold.
    #[error("no {file} in folder: {}", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The file name, or the alternatives.
        file: &'static str,
    },
    /// A file is in another format than its reader's.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reader's format.
        expected: &'static str,
        /// What the file seems to be.
        found: FileKind,
    },
    /// A symbolic link leads nowhere, as in a hub's cache whose downloads are incomplete.
    #[error("{} is a symbolic link to a file that does not exist: {}", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// What it names.
        target: PathBuf,
    },
    /// A path is not what it is given as, but something else that is recognized.
    #[error("{}: {problem}", path.display())]
    Layout {
        /// The folder or file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
        /// What to give or do instead.
        hint: String,
    },
    /// A JSON file does not parse, or lacks a field.
    #[error("malformed JSON in {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser found, with line and column.
        source: serde_json::Error,
    },
    /// A file ends before what its header promises.
    #[error("{} is cut short: expected {expected} bytes, found {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes the header asks for, itself included.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A header contradicts itself or its format.
    #[error("malformed header in {}: {problem}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A tensor's entry or its use is wrong.
    #[error("{}: tensor `{name}`: {problem}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        name: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A tensor holds NaN or an infinity.
    #[error("{}: tensor `{name}`: expected finite numbers, found {value} at {index:?}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The first such value of the part that was read.
        value: f32,
        /// Where it is in the tensor.
        index: Vec<usize>,
    },
    /// A finite value exceeds the element type that it is converted to.
    #[error("{}: tensor `{name}`: {value} at {index:?} exceeds the range of {dtype}", path.display())]
    Overflow {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The first such value of the part that was read.
        value: f32,
        /// Where it is in the tensor.
        index: Vec<usize>,
        /// The type.
        dtype: DType,
    },
    /// No file of the checkpoint holds the tensor.
    #[error("no tensor `{name}` in {}", path.display())]
    NoSuchTensor {
        /// The checkpoint.
        path: PathBuf,
        /// The Hugging Face name asked for.
        name: String,
    },
    /// A setting is missing, of the wrong kind, or asks for what is not supported.
    #[error("{}: `{key}`: {problem}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The JSON field or GGUF key.
        key: String,
        /// What was found and what was expected.
        problem: String,
        /// What works instead.
        hint: Option<&'static str>,
    },
    /// A sound file stores something that is not supported.
    #[error("{}: {problem}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
        /// What works instead.
        hint: &'static str,
    },
    /// Weights convert to three types only.
    #[error("weights cannot be read as {0}: expected f32, bf16 or f16")]
    TargetType(DType),
    /// Several problems of one check.
    #[error(transparent)]
    Problems(#[from] Diagnostics),
}

impl WeightsError {
    /// A file that could not be written.
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Io { action: "write", path: path.to_owned(), source }
    }

    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Format { found, expected, .. } => match found.hint() {
                Some(hint) => hint,
                None if *expected == MODEL => FOLDER_HINT,
                None => "download or copy the file again",
            },
            Self::DanglingLink { .. } => {
                "the download is incomplete or the target was moved: download it again, or copy it with links \
                 followed (`cp -rL`)"
            }
            Self::Layout { hint, .. } => return Some(hint.clone()),
            Self::NotFinite { .. } => {
                "the file is damaged, or its training diverged: download it again, or use an earlier checkpoint"
            }
            Self::Overflow { .. } => "compute in float32 or bfloat16, which have a larger range",
            Self::MissingFile { file, .. } if file.starts_with("adapter_") => {
                "an adapter folder holds adapter_config.json and adapter_model.safetensors"
            }
            Self::MissingFile { .. } => FOLDER_HINT,
            Self::Truncated { .. } => "download or copy the file again",
            Self::Setting { hint, .. } => (*hint)?,
            Self::Unsupported { hint, .. } => hint,
            Self::Io { source, .. }
                if matches!(
                    source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
                ) =>
            {
                "free some space, or write to another disk; what was there before is unchanged"
            }
            Self::Io { .. }
            | Self::Json { .. }
            | Self::Header { .. }
            | Self::Tensor { .. }
            | Self::NoSuchTensor { .. }
            | Self::TargetType(_)
            | Self::Problems(_) => return None,
        };
        Some(hint.to_owned())
    }
}
