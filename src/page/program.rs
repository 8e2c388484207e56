//! What a page shows.

use super::pairs::Pair;
use crate::hlo::raw::Module;

/// A module at one stage of compilation.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'m> {
    /// The name of the stage or file, for the reader: `after optimization`.
    pub title: &'m str,
    /// The module.
    pub module: &'m Module,
    /// Memory over one run of the module.
    pub memory: Option<&'m MemoryCurve>,
}

/// One module, or two to compare.
#[derive(Clone, Copy, Debug)]
pub enum Stages<'m> {
    /// One module.
    One(Stage<'m>),
    /// Two modules side by side.
    Two {
        /// The module on the left.
        before: Stage<'m>,
        /// The module on the right.
        after: Stage<'m>,
        /// Which instructions correspond. Instructions in no pair count as removed or added. Without a list, they are paired by
        /// name, then by `op_name`.
        pairs: Option<&'m [Pair]>,
    },
}

/// Memory in use on one device over one run of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCurve {
    /// Bytes in use, in order of time.
    pub points: Vec<CurvePoint>,
    /// The buffers that make up these bytes.
    pub buffers: Vec<CurveBuffer>,
}

/// Memory in use while an instruction runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// Name of the instruction.
    pub instruction: String,
    /// Bytes in use.
    pub bytes: u64,
}

/// A buffer of a [`MemoryCurve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveBuffer {
    /// Name of the instruction whose value it holds.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Index of the first point at which it is in use.
    pub first: usize,
    /// Index of the last point at which it is in use.
    pub last: usize,
}
