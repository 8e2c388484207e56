//! The choice of what a comparison ignores.

use crate::base::named_enum;

named_enum! {
    /// A part of a module that a comparison may ignore.
    pub enum Ignore {
        /// Channel ids of collectives and transfers.
        Ids = "ids";
        /// Names of the module, of computations and of instructions.
        Names = "names";
        /// Order of the instructions of a computation, control predecessors, and whether the order is a schedule.
        Order = "order";
        /// Layouts of shapes with tiles and memory spaces, and the attributes that constrain layouts.
        Layouts = "layouts";
        /// Metadata, origins, statistics and fingerprints.
        Metadata = "metadata";
        /// Shardings of HLO and of Shardy, custom calls that annotate them, and whether they propagate to parameters and results.
        Shardings = "shardings";
        /// Configurations of backends.
        BackendConfig = "backend-config";
        /// Frontend attributes other than those of Shardy.
        FrontendAttributes = "frontend-attributes";
    }
}

/// A set of parts that a comparison ignores.
///
/// ```
/// use hloom::diff::{Ignore, IgnoreSet};
///
/// let ignored = IgnoreSet::default().with(Ignore::Shardings).without(Ignore::Layouts);
/// assert!(ignored.has(Ignore::Shardings) && ignored.has(Ignore::Names) && !ignored.has(Ignore::Layouts));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoreSet(u16);

impl IgnoreSet {
    /// The empty set: everything is compared.
    pub const NONE: Self = Self(0);

    /// Whether a part is ignored.
    pub fn has(self, part: Ignore) -> bool {
        self.0 & Self::bit(part) != 0
    }

    /// The set with a part.
    #[must_use]
    pub fn with(self, part: Ignore) -> Self {
        Self(self.0 | Self::bit(part))
    }

    /// The set without a part.
    #[must_use]
    pub fn without(self, part: Ignore) -> Self {
        Self(self.0 & !Self::bit(part))
    }

    /// The parts in it.
    pub fn iter(self) -> impl Iterator<Item = Ignore> {
        Ignore::ALL.iter().copied().filter(move |&part| self.has(part))
    }

    fn bit(part: Ignore) -> u16 {
        1 << part as u16
    }
}

impl Default for IgnoreSet {
    /// Ids, names, order, layouts and metadata: what says nothing about the values computed.
    fn default() -> Self {
        let parts = [Ignore::Ids, Ignore::Names, Ignore::Order, Ignore::Layouts, Ignore::Metadata];
        parts.into_iter().fold(Self::NONE, Self::with)
    }
}
