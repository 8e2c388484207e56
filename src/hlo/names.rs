//! Names in HLO text.

/// Whether `text` is a valid name of an instruction, a computation or a module. XLA refuses the names of element types,
/// including those that hloom does not support.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(starts_name) && text.chars().all(continues_name) && !lists(TYPES, text)
}

pub(super) fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

pub(super) fn continues_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

const TYPES: &str = "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f4e2m1fn f8e3m4 \
    f8e4m3 f8e4m3fn f8e4m3fnuz f8e4m3b11fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu token opaque opaque_type \
    buffer tuple";

/// Whether a space-separated list contains a word.
pub(super) fn lists(words: &str, word: &str) -> bool {
    words.split(' ').any(|listed| listed == word)
}
