use serde::{Deserialize, Serialize};

/// One of XLA's partitioners; a module carries the annotations of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioner {
    /// The older one, which goes by the `sharding` of instructions.
    #[default]
    Gspmd,
    /// The newer one, which goes by the `xla.sdy.*` frontend attributes.
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
