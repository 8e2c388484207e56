use crate::base::Location;

/// A module without a form in StableHLO for one of the partitioners.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StablehloError {
    /// A frontend attribute is not the text of Shardy's attributes.
    #[error("{location}: expected {expected} in {attribute}, found {found}")]
    ShardyText {
        /// Computation and instruction, or the module.
        location: Location,
        /// The frontend attribute.
        attribute: &'static str,
        /// The form of its text.
        expected: String,
        /// Its text.
        found: String,
    },
    /// A module with shardings for GSPMD and no mesh for Shardy.
    #[error("{location}: expected {attribute} of the module beside sharding={found}, found none")]
    NoMesh {
        /// Computation and instruction.
        location: Location,
        /// The frontend attribute with the meshes.
        attribute: &'static str,
        /// The sharding.
        found: String,
    },
}

impl StablehloError {
    /// An action that fixes the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ShardyText { .. } => "`hloom::hlo::shardy` writes the text of Shardy's attributes",
            Self::NoMesh { .. } => "print the module for the partitioner `gspmd`",
        }
    }
}
