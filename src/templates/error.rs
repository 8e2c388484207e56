use std::path::PathBuf;

use super::embedded::{EMBEDDED, KERNELS, names};
use crate::base::{Diagnostics, Setting, nearest, nearest_hint};

/// What is wrong with a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// No template has this name.
    #[error("unknown template: {name}")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The template has a parameter without an argument.
    #[error("{file}:{line}: no argument for template parameter: ${parameter}")]
    MissingArgument {
        /// The template.
        file: String,
        /// Counted from one.
        line: usize,
        /// Its name.
        parameter: String,
        /// Template parameters that have an argument here.
        known: Vec<String>,
    },
    /// The instantiated template is not HLO.
    #[error(transparent)]
    Parse(Diagnostics),
    /// It does not fit where it is used.
    #[error(transparent)]
    Fit(#[from] Diagnostics),
    /// Attention is replaced, but not that of rows with several sequences.
    #[error("expected a template `{}` beside `{}`, since rows are packed", KERNELS[1], KERNELS[0])]
    NotPacked,
    /// Attention is replaced, but the replacement does not know of the model's sliding window.
    #[error("the template `{}` cannot replace attention with a sliding window of {window} positions", KERNELS[0])]
    NotWindowed {
        /// Positions that a query attends to.
        window: usize,
    },
    /// The user's folder cannot be read.
    #[error("cannot read template: {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the user's folder replaces nothing.
    #[error("{}: replaces no template", path.display())]
    ReplacesNothing {
        /// The file.
        path: PathBuf,
    },
}

impl TemplateError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { name } => {
                let near = nearest_hint(name, EMBEDDED.iter().map(|(known, _)| *known));
                Some(near.unwrap_or_else(|| format!("there are: {}", names().join(", "))))
            }
            Self::MissingArgument { parameter, known, .. } => {
                Some(match nearest(parameter, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `${near}`?"),
                    None => format!("there are: ${}", known.join(", $")),
                })
            }
            Self::ReplacesNothing { .. } => Some(format!("there are: {}", names().join(", "))),
            Self::NotPacked => {
                Some(format!("it takes the segments as its fourth parameter; or leave out {}", Setting::Pack))
            }
            Self::NotWindowed { window } => {
                Some(format!("leave the template out, or use rows of at most {window} positions"))
            }
            Self::Fit(_) => Some(FIT.to_owned()),
            Self::Parse(_) | Self::Read { .. } => None,
        }
    }
}

/// What to do where a template does not fit.
pub const FIT: &str = "a replaced template must keep its parameters and result";
