/// Line numbers of a text by byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineIndex {
    /// Byte offset of every line but the first.
    starts: Vec<usize>,
}

impl LineIndex {
    /// The index of a text.
    pub(crate) fn new(text: &str) -> Self {
        Self { starts: text.match_indices('\n').map(|(at, _)| at + 1).collect() }
    }

    /// The line of the byte at `offset`, counted from one; the last line for offsets past the end.
    pub(crate) fn line(&self, offset: usize) -> usize {
        1 + self.starts.partition_point(|&start| start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[usize]) {
        let index = LineIndex::new(text);
        let found: Vec<usize> = (0..=text.len()).map(|offset| index.line(offset)).collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn a_line_feed_ends_its_line() {
        check("", &[1]);
        check("ab", &[1, 1, 1]);
        check("a\nb\n", &[1, 1, 2, 2, 3]);
        check("\n\r\n", &[1, 2, 2, 3]);
        assert_eq!(LineIndex::new("a\nb").line(99), 2);
    }
}
