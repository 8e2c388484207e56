//! Boxes of row-major arrays, one index range a dimension.

use std::ops::Range;

/// A row-major array and a box of it.
#[derive(Clone, Copy, Debug)]
pub struct Boxed<'a> {
    /// The sizes of the array.
    pub sizes: &'a [usize],
    /// The box, inside the array.
    pub window: &'a [Range<usize>],
}

impl Boxed<'_> {
    /// Where the rows of the box begin in the array, in order. An array without dimensions has one row, of one element.
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let outer = self.window.split_last().map_or(&[][..], |(_, outer)| outer);
        let first = self.window.last().map_or(0, |last| last.start);
        let n_rows: usize = outer.iter().map(ExactSizeIterator::len).product();
        (0..n_rows).map(move |mut row| {
            let (mut start, mut stride) = (first, self.sizes.last().copied().unwrap_or(1));
            for (range, size) in outer.iter().zip(self.sizes).rev() {
                start += (range.start + row % range.len()) * stride;
                row /= range.len();
                stride *= size;
            }
            start
        })
    }

    fn row_len(&self) -> usize {
        self.window.last().map_or(1, ExactSizeIterator::len)
    }
}

/// Copies a box of `source` over a box of `target` with the same extents. Elements have `width` bytes.
///
/// # Panics
/// If a box is not inside its array.
pub fn copy(source: &[u8], from: Boxed<'_>, target: &mut [u8], to: Boxed<'_>, width: usize) {
    let len = from.row_len() * width;
    for (from, to) in from.rows().zip(to.rows()) {
        let (from, to) = (from * width, to * width);
        target[to..to + len].copy_from_slice(&source[from..from + len]);
    }
}

/// The box of the same extents at the origin.
pub fn at_origin(window: &[Range<usize>]) -> Vec<Range<usize>> {
    window.iter().map(|range| 0..range.len()).collect()
}

/// The whole of an array.
pub fn whole(sizes: &[usize]) -> Vec<Range<usize>> {
    sizes.iter().map(|&size| 0..size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_copied_row_by_row() {
        let source: Vec<u8> = (0..24).collect();
        let mut target = vec![0xff; 2 * 3 * 3];
        let (from, to) = ([1..2, 0..2, 1..4], [1..2, 1..3, 0..3]);
        let from = Boxed { sizes: &[2, 3, 4], window: &from };
        copy(&source, from, &mut target, Boxed { sizes: &[2, 3, 3], window: &to }, 1);
        let mut expect = vec![0xff; 18];
        expect[12..18].copy_from_slice(&[13, 14, 15, 17, 18, 19]);
        assert_eq!(target, expect);
    }

    #[test]
    fn a_scalar_is_one_row_of_one_element() {
        let mut target = [0; 4];
        let scalar = Boxed { sizes: &[], window: &[] };
        copy(&[1, 2, 3, 4], scalar, &mut target, scalar, 4);
        assert_eq!(target, [1, 2, 3, 4]);
    }

    #[test]
    fn an_empty_box_moves_nothing() {
        let mut target = [7; 4];
        let empty = Boxed { sizes: &[2, 2], window: &[2..2, 0..2] };
        copy(&[0; 4], empty, &mut target, empty, 1);
        assert_eq!(target, [7; 4]);
    }
}
