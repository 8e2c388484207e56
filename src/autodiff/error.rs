use crate::{
    base::{Diagnostics, Location},
    hlo::Opcode,
};

/// An error of differentiation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutodiffError {
    /// A path from the parameters to the result has an operation without a derivative rule.
    #[error("{location}: cannot differentiate {opcode}: {reason}")]
    NoRule {
        /// The instruction.
        location: Location,
        /// Its opcode.
        opcode: Opcode,
        /// Why there is no rule.
        reason: &'static str,
    },
    /// The backward computation is invalid, which is an error in a rule or in a custom VJP.
    #[error(transparent)]
    Build(#[from] Diagnostics),
}

impl AutodiffError {
    /// An action that fixes the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRule { .. } => {
                Some("put it into a computation of its own with a custom gradient".to_owned())
            }
            Self::Build(_) => None,
        }
    }
}
