//! Strings of a template.

use super::meter::Charge;

/// A text, with its number of characters.
#[derive(Debug)]
pub(super) struct Text {
    pub text: String,
    pub chars: usize,
    _charge: Charge,
}

impl Text {
    /// A text whose memory is counted by `charge`.
    pub(super) fn charged(text: String, charge: Charge) -> Self {
        Self { chars: text.chars().count(), text, _charge: charge }
    }

    /// A text of the template, whose memory is not counted.
    pub(super) fn constant(text: String) -> Self {
        Self { chars: text.chars().count(), text, _charge: Charge::default() }
    }
}
