use super::Dim;
use crate::base::{Location, Partitioner};

/// What mesh files say, the extended ones first; every entry with the line that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// The whole mesh: the last `[mesh]`, or the file without one.
    pub location: Location,
    /// Its axes in the order of devices, slowest first.
    pub axes: Vec<AxisConfig>,
    /// Rules of stored tensors, one for a dimension.
    pub store: Vec<Rule>,
    /// Rules of values in computation, one for a dimension.
    pub compute: Vec<Rule>,
    /// What holds for some parameters at rest instead; later ones win.
    pub overrides: Vec<Override>,
    /// What to do where rules cannot be followed.
    pub policy: Policy,
    /// Which of XLA's partitioners goes by the annotations.
    pub partitioner: Partitioner,
}

/// An axis as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisConfig {
    /// An identifier.
    pub name: String,
    /// How many devices it has.
    pub size: AxisSize,
    /// Its line.
    pub location: Location,
}

/// The size of an axis as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisSize {
    /// At least one.
    Fixed(usize),
    /// What the other axes leave of the devices.
    Rest,
}

/// Which axes split a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The dimension.
    pub dim: Dim,
    /// The names of the axes, major to minor; none leaves it whole.
    pub axes: Vec<String>,
    /// Its line.
    pub location: Location,
}

/// Rules that hold for some parameters at rest, and for the adapters on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Which parameters, as [`matches`](super::matches) reads it.
    pub param: String,
    /// The line of `param`.
    pub location: Location,
    /// One rule for a dimension.
    pub rules: Vec<Rule>,
}

/// What is done where a rule cannot be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnViolation {
    /// It is a problem.
    #[default]
    Error,
    /// The dimension stays whole.
    Replicate,
    /// The last shards are filled up.
    Pad,
}

/// What is done where rules cannot be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Where a size is not a multiple of what it is split into.
    pub indivisible: OnViolation,
    /// Where an axis would split two dimensions of a tensor; never [`OnViolation::Pad`].
    pub axis_conflict: OnViolation,
    /// Where an axis splits nothing; never [`OnViolation::Pad`].
    pub unused_axis: OnViolation,
}

impl MeshConfig {
    /// The devices that the axes with a number make.
    pub fn written_devices(&self) -> usize {
        let sizes = self.axes.iter().map(|axis| match axis.size {
            AxisSize::Fixed(size) => size,
            AxisSize::Rest => 1,
        });
        sizes.fold(1, usize::saturating_mul)
    }
}

/// Puts `later` in the location of the entry that is about the same, or at the end.
pub(super) fn put<T>(entries: &mut Vec<T>, later: T, same: impl Fn(&T, &T) -> bool) {
    match entries.iter_mut().find(|entry| same(entry, &later)) {
        Some(entry) => *entry = later,
        None => entries.push(later),
    }
}
