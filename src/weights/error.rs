use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::base::{DType, Diagnostics, FileKind};

/// Expected kinds of a model path, for errors.
pub(super) const MODEL: &str = "a Hugging Face folder or a GGUF file";

const FOLDER_HINT: &str = "a Hugging Face folder contains config.json, tokenizer.json, and model.safetensors or \
                           model.safetensors.index.json with its shards";

/// Error of reading or writing model files.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// A system error.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation: `open`, `map`, `read`, `create`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A required file is missing.
    #[error("no {file} in folder: {}", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The file name, or the alternatives.
        file: &'static str,
    },
    /// A file has another format than expected.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected format.
        expected: &'static str,
        /// The detected format.
        found: FileKind,
    },
    /// A dangling symbolic link, as in a hub's cache with an incomplete download.
    #[error("{} is a symbolic link to a file that does not exist: {}", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// A path is something else than expected that is recognized.
    #[error("{}: {problem}", path.display())]
    Layout {
        /// The folder or file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
        /// A hint.
        hint: String,
    },
    /// Malformed JSON, or a missing field.
    #[error("malformed JSON in {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },
    /// A file is shorter than its header says.
    #[error("{} is truncated: expected {expected} bytes, found {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Size according to the header, including it.
        expected: u64,
        /// Size of the file.
        found: u64,
    },
    /// A malformed header.
    #[error("malformed header in {}: {problem}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
    },
    /// An invalid tensor, or an invalid read of it.
    #[error("{}: tensor `{name}`: {problem}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        name: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A tensor contains NaN or an infinity.
    #[error("{}: tensor `{name}`: expected finite numbers, found {value} at {index:?}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The first such value of the window.
        value: f32,
        /// Its index in the tensor.
        index: Vec<usize>,
    },
    /// A finite value exceeds the element type that it is converted to.
    #[error("{}: tensor `{name}`: {value} at {index:?} exceeds the range of {dtype}", path.display())]
    Overflow {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The first such value of the window.
        value: f32,
        /// Its index in the tensor.
        index: Vec<usize>,
        /// The element type.
        dtype: DType,
    },
    /// The checkpoint does not contain the tensor.
    #[error("no tensor `{name}` in {}", path.display())]
    NoSuchTensor {
        /// The checkpoint.
        path: PathBuf,
        /// The requested Hugging Face name.
        name: String,
    },
    /// A setting is missing, has the wrong type, or is not supported.
    #[error("{}: `{key}`: {problem}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The JSON field or GGUF key.
        key: String,
        /// What was found and what was expected.
        problem: String,
        /// An alternative.
        hint: Option<&'static str>,
    },
    /// A valid file with unsupported content.
    #[error("{}: {problem}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
        /// An alternative.
        hint: &'static str,
    },
    /// The requested type is not f32, bf16 or f16.
    #[error("weights cannot be read as {0}: expected f32, bf16 or f16")]
    TargetType(DType),
    /// Several problems of one check.
    #[error(transparent)]
    Problems(#[from] Diagnostics),
}

impl WeightsError {
    /// An error of writing a file.
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Io { action: "write", path: path.to_owned(), source }
    }

    /// A hint for the user, if there is one.
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
