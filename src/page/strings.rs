//! Strings of a page, each once.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer, ser::SerializeSeq};

/// Maximum number of bytes of one string. The page says of a longer one how much is left out.
pub(super) const MAX_BYTES: usize = 4000;

/// A table of strings; 0 is the empty one.
pub(super) struct Strings<'m> {
    list: Vec<Cow<'m, str>>,
    indices: FxHashMap<Cow<'m, str>, u32>,
}

impl<'m> Strings<'m> {
    pub(super) fn new() -> Self {
        let mut strings = Self { list: vec![], indices: FxHashMap::default() };
        strings.index("");
        strings
    }

    pub(super) fn index(&mut self, text: impl Into<Cow<'m, str>>) -> u32 {
        let text = text.into();
        if let Some(&index) = self.indices.get(&text) {
            return index;
        }
        let index = u32::try_from(self.list.len()).expect("a text has fewer strings than bytes");
        self.list.push(text.clone());
        self.indices.insert(text, index);
        index
    }
}

impl Serialize for Strings<'_> {
    /// A list of strings; `[start, number of characters left out]` for one that is too long.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.list.len()))?;
        for text in &self.list {
            if text.len() <= MAX_BYTES {
                list.serialize_element(text)?;
            } else {
                let cut = (0..=MAX_BYTES).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
                let (start, rest) = text.split_at(cut);
                list.serialize_element(&(start, rest.chars().count()))?;
            }
        }
        list.end()
    }
}
