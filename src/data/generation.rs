//! Finds the `{% generation %}` blocks with which a chat template marks the assistant's text.

use std::ops::Range;

/// Marks at the start and end of a block: private-use characters.
pub(super) const MARKS: [&str; 2] = ["\u{f0000}", "\u{f0001}"];
const MARK_CHARS: [char; 2] = ['\u{f0000}', '\u{f0001}'];

/// Byte ranges in `text` of the outermost blocks of `marked`, which is the same text with marks. `None` if the texts
/// differ apart from the marks, or the marks are not paired: then the template inspects the text of its blocks, or the
/// conversation contains the mark characters.
pub(super) fn blocks(text: &str, marked: &str) -> Option<Vec<Range<usize>>> {
    let [begin, end] = MARKS;
    let mut rest = text;
    let mut blocks = Vec::new();
    let (mut start, mut depth) = (0, 0usize);
    for part in marked.split_inclusive(MARK_CHARS) {
        let plain = part.trim_end_matches(MARK_CHARS);
        rest = rest.strip_prefix(plain)?;
        let at = text.len() - rest.len();
        if part.ends_with(begin) {
            if depth == 0 {
                start = at;
            }
            depth += 1;
        } else if part.ends_with(end) {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                blocks.push(start..at);
            }
        }
    }
    (rest.is_empty() && depth == 0).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, marked: &str, expect: Option<&[Range<usize>]>) {
        let [begin, end] = MARKS;
        let marked = marked.replace('[', begin).replace(']', end);
        assert_eq!(blocks(text, &marked).as_deref(), expect, "{text} {marked}");
    }

    #[test]
    fn blocks_are_found_by_their_marks() {
        check("éabcd", "é[ab]c[][d]", Some(&[2..4, 5..5, 5..6]));
        check("abcde", "[a[b]c]d[e]", Some(&[0..3, 4..5]));
        check("a", "a", Some(&[]));
    }

    #[test]
    fn unpaired_marks_are_no_blocks() {
        check("ab", "[a ]b", None);
        check("ab", "[a]", None);
        check("a", "a]", None);
        check("a", "[a", None);
        check("a\u{f0001}b", "[a]b]", None);
    }
}
