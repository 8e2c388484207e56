//! `{% generation %}` blocks, by which a chat template marks the assistant's text.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::Regex;

/// Characters that are written where a block begins and ends, and which no text has.
const MARKS: [&str; 2] = ["\u{f0000}", "\u{f0001}"];

/// The source with marks written at both ends of each block, and the whitespace around the blocks as it was; `None` if
/// it has no blocks.
pub(super) fn with_marks(source: &str) -> Option<String> {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(\{%[-+]?\s*)(end)?generation(\s*[-+]?%\})").expect("a constant pattern")
    });
    let [begin, end] = MARKS;
    let replaced = TAG.replace_all(source, |tag: &regex::Captures<'_>| {
        let (left, right) = (&tag[1], &tag[3]);
        match tag.get(2) {
            None => format!("{left}generation %}}{{{{ '{begin}' }}}}{{% if true{right}"),
            Some(_) => format!("{left}endif %}}{{{{ '{end}' }}}}{{% endgeneration{right}"),
        }
    });
    match replaced {
        Cow::Borrowed(_) => None,
        Cow::Owned(marked) => Some(marked),
    }
}

/// A text and the bytes of it that were in `{% generation %}` blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marked {
    pub text: String,
    pub blocks: Vec<Range<usize>>,
}

impl Marked {
    /// Takes the marks out of a text.
    pub fn new(marked: &str) -> Self {
        let [begin, end] = MARKS;
        let mut text = String::with_capacity(marked.len());
        let mut blocks = Vec::new();
        let mut parts = marked.split(begin);
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (inside, after) = part.split_once(end).unwrap_or((part, ""));
            blocks.push(text.len()..text.len() + inside.len());
            text.push_str(inside);
            text.push_str(after);
        }
        Self { text, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_out() {
        let [begin, end] = MARKS;
        let found = Marked::new(&format!("é{begin}ab{end}c{begin}{end}{begin}d{end}"));
        assert_eq!(found, Marked { text: "éabcd".to_owned(), blocks: vec![2..4, 5..5, 5..6] });
        assert_eq!(Marked::new("a"), Marked { text: "a".to_owned(), blocks: vec![] });
    }
}
