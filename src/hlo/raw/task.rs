//! What is known of computations while they are read.

use rustc_hash::FxHashMap;

use super::{cursor::Cursor, module::Computation, shape::ShapeReader, span::Span};

/// XLA's name of the module, computation and instruction of a text of one instruction without a name.
pub(super) const SINGLE: &str = "_";

/// The header of a computation and where the text of its instructions is.
pub(super) struct Outline {
    /// `None` for a text of one instruction.
    pub(super) name: Option<Span>,
    /// Shape of the result, where the header has one.
    pub(super) result: Option<usize>,
    /// From the first byte after `{` to `}`.
    pub(super) body: std::ops::Range<usize>,
    pub(super) thread: Option<Span>,
    pub(super) is_entry: bool,
}

/// The computations that attributes of a computation name, in order, with the attributes.
pub(super) type References = Vec<(u32, Callee)>;

/// A computation that an attribute names.
#[derive(Clone, Copy)]
pub(super) enum Callee {
    Named(Span),
    /// Its instructions are inside the attribute; it is so many computations in front of its caller.
    Inline(usize),
}

/// What the computations of a task share while they are read.
pub(super) struct Task<'t> {
    pub(super) shapes: ShapeReader<'t>,
    pub(super) known: Known<'t>,
}

/// The computations that attributes may name.
#[derive(Default)]
pub(super) struct Known<'t> {
    /// The computations so far, with those inside their attributes in front of each.
    pub(super) done: Vec<(Computation, References)>,
    /// Those that have a name, by it.
    pub(super) names: FxHashMap<&'t [u8], usize>,
    /// Computations inside attributes of the present one; [`Callee::Inline`] is an index of them.
    pub(super) inline: Vec<(Computation, References)>,
}

impl Task<'_> {
    pub(super) fn new() -> Self {
        Self { shapes: ShapeReader::new(), known: Known::default() }
    }
}

impl<'t> Known<'t> {
    /// A called computation; `None` if another task reads it, or it does not exist.
    pub(super) fn get(&self, callee: Callee, cursor: &Cursor<'t>) -> Option<&Computation> {
        let (computation, _) = match callee {
            Callee::Named(name) => &self.done[*self.names.get(cursor.bytes(name.range()))?],
            Callee::Inline(index) => self.inline.get(index)?,
        };
        Some(computation)
    }
}
