//! One number for each distinct text or sequence of numbers, so that equality is that of numbers and exact.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

/// The number of a text or of a sequence of numbers. Texts and sequences are counted separately.
pub(super) type Number = u32;

/// The numbers given out so far, for both modules of a comparison.
#[derive(Default)]
pub(super) struct Numbers<'m> {
    texts: FxHashMap<Cow<'m, str>, Number>,
    sequences: FxHashMap<Box<[Number]>, Number>,
}

impl<'m> Numbers<'m> {
    /// The number of a text.
    pub(super) fn text(&mut self, text: Cow<'m, str>) -> Number {
        let next = next(self.texts.len());
        *self.texts.entry(text).or_insert(next)
    }

    /// The number of a sequence. The first number of each sequence says what the others are.
    pub(super) fn sequence(&mut self, sequence: &[Number]) -> Number {
        if let Some(&number) = self.sequences.get(sequence) {
            return number;
        }
        let number = next(self.sequences.len());
        self.sequences.insert(sequence.into(), number);
        number
    }
}

fn next(count: usize) -> Number {
    Number::try_from(count).expect("two modules have fewer distinct texts and sequences than bytes")
}
