//! Parts of the text of a module.

/// A part of the text of a module: the text that was read, or the text that reading added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

/// Marks the start of a span of added text.
const ADDED: u32 = 1 << 31;

/// Maximum number of bytes of a text.
pub(crate) const MAX_TEXT: usize = (ADDED - 1) as usize;

impl Span {
    /// A span of the text that was read, which has at most [`MAX_TEXT`] bytes.
    pub(super) fn new(start: usize, len: usize) -> Self {
        debug_assert!(start + len <= MAX_TEXT);
        Self { start: start as u32, len: len as u32 }
    }

    /// A span of the added text of a computation.
    pub(super) fn added(start: usize, len: usize) -> Self {
        Self { start: start as u32 | ADDED, len: len as u32 }
    }

    pub(super) fn is_added(self) -> bool {
        self.start & ADDED != 0
    }

    pub(super) fn start(self) -> usize {
        (self.start & !ADDED) as usize
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start()..self.start() + self.len as usize
    }

    /// Whether the span has no text.
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}
