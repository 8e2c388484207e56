use serde::{Deserialize, Serialize};

/// One of XLA's partitioners; a module carries the annotations of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioner {
    /// GSPMD, which propagates the `sharding` of instructions.
    #[default]
    Gspmd,
    /// Shardy, which reads the `xla.sdy.*` frontend attributes.
    Shardy,
}

impl Partitioner {
    /// The spelling in mesh files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gspmd => "gspmd",
            Self::Shardy => "shardy",
        }
    }
}
