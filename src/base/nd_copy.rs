//! Copies between windows of row-major arrays.

use std::ops::Range;

/// A window of a row-major array: an index range for each dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayWindow<'a> {
    /// Dimensions of the array.
    pub dims: &'a [usize],
    /// Index range of each dimension.
    pub ranges: &'a [Range<usize>],
}

impl ArrayWindow<'_> {
    /// Element offsets in the array at which the window's rows start, in order. A scalar has one row of one element.
    fn row_starts(&self) -> impl Iterator<Item = usize> + '_ {
        let outer = self.ranges.split_last().map_or(&[][..], |(_, outer)| outer);
        let first = self.ranges.last().map_or(0, |last| last.start);
        let n_rows: usize = outer.iter().map(ExactSizeIterator::len).product();
        (0..n_rows).map(move |mut row| {
            let (mut start, mut stride) = (first, self.dims.last().copied().unwrap_or(1));
            for (range, size) in outer.iter().zip(self.dims).rev() {
                start += (range.start + row % range.len()) * stride;
                row /= range.len();
                stride *= size;
            }
            start
        })
    }

    fn row_len(&self) -> usize {
        self.ranges.last().map_or(1, ExactSizeIterator::len)
    }
}

/// Copies a window of `source` to a window of `target` with the same extents. `width` is the size of an element in bytes.
///
/// # Panics
/// If a window is not inside its array.
pub(crate) fn copy_window(
    source: &[u8],
    from: ArrayWindow<'_>,
    target: &mut [u8],
    to: ArrayWindow<'_>,
    width: usize,
) {
    let len = from.row_len() * width;
    for (from, to) in from.row_starts().zip(to.row_starts()) {
        let (from, to) = (from * width, to * width);
        target[to..to + len].copy_from_slice(&source[from..from + len]);
    }
}

/// The ranges of the same extents that start at zero.
pub(crate) fn at_origin(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    ranges.iter().map(|range| 0..range.len()).collect()
}

/// The ranges of a complete array.
pub(crate) fn full_window(dims: &[usize]) -> Vec<Range<usize>> {
    dims.iter().map(|&size| 0..size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_copied_row_by_row() {
        let source: Vec<u8> = (0..24).collect();
        let mut target = vec![0xff; 2 * 3 * 3];
        let (from, to) = ([1..2, 0..2, 1..4], [1..2, 1..3, 0..3]);
        let from = ArrayWindow { dims: &[2, 3, 4], ranges: &from };
        copy_window(&source, from, &mut target, ArrayWindow { dims: &[2, 3, 3], ranges: &to }, 1);
        let mut expect = vec![0xff; 18];
        expect[12..18].copy_from_slice(&[13, 14, 15, 17, 18, 19]);
        assert_eq!(target, expect);
    }

    #[test]
    fn a_scalar_is_one_row_of_one_element() {
        let mut target = [0; 4];
        let scalar = ArrayWindow { dims: &[], ranges: &[] };
        copy_window(&[1, 2, 3, 4], scalar, &mut target, scalar, 4);
        assert_eq!(target, [1, 2, 3, 4]);
    }

    #[test]
    fn an_empty_window_copies_nothing() {
        let mut target = [7; 4];
        let empty = ArrayWindow { dims: &[2, 2], ranges: &[2..2, 0..2] };
        copy_window(&[0; 4], empty, &mut target, empty, 1);
        assert_eq!(target, [7; 4]);
    }
}
