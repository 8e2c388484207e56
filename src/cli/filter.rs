//! Filters of rows by opcode and size: `all-gather > 1MB`.

use std::str::FromStr;

/// A filter of collectives and buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// An opcode, of which the `-start` and `-done` are accepted too.
    opcode: Option<String>,
    size: Option<(Comparison, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::More),
    ("<", Comparison::Less),
    ("=", Comparison::Equal),
];

const UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("bytes", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error("expected an opcode, a comparison and a size, such as `all-gather > 1MB`, found `{0}`")]
    Form(String),
    #[error("expected a size such as `1MB` or `64KiB`, found `{0}`")]
    Size(String),
}

impl Filter {
    /// Whether a row with this opcode and this number of bytes is shown.
    pub(super) fn accepts(&self, opcode: &str, bytes: u64) -> bool {
        let same = |wanted: &String| {
            let base = opcode.strip_suffix("-start").or(opcode.strip_suffix("-done")).unwrap_or(opcode);
            wanted == opcode || wanted == base
        };
        let fits = |&(comparison, size): &(Comparison, u64)| match comparison {
            Comparison::Less => bytes < size,
            Comparison::AtMost => bytes <= size,
            Comparison::More => bytes > size,
            Comparison::AtLeast => bytes >= size,
            Comparison::Equal => bytes == size,
        };
        self.opcode.as_ref().is_none_or(same) && self.size.as_ref().is_none_or(fits)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let form = || FilterError::Form(text.to_owned());
        let at = text.find(['<', '>', '=']).unwrap_or(text.len());
        let (opcode, rest) = (text[..at].trim(), text[at..].trim());
        let is_opcode = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !opcode.chars().all(is_opcode) || (opcode.is_empty() && rest.is_empty()) {
            return Err(form());
        }
        let size = match rest {
            "" => None,
            rest => {
                let found = COMPARISONS
                    .iter()
                    .find_map(|&(mark, comparison)| Some((comparison, rest.strip_prefix(mark)?.trim())));
                let (comparison, size) = found.ok_or_else(form)?;
                Some((comparison, bytes(size).ok_or_else(|| FilterError::Size(size.to_owned()))?))
            }
        };
        Ok(Self { opcode: Some(opcode.to_owned()).filter(|opcode| !opcode.is_empty()), size })
    }
}

/// The number of bytes of `1.5 MB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let value = number.parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        #[track_caller]
        fn check(filter: &str, accepted: &[(&str, u64)], refused: &[(&str, u64)]) {
            let filter: Filter = filter.parse().unwrap();
            accepted
                .iter()
                .for_each(|&(opcode, bytes)| assert!(filter.accepts(opcode, bytes), "{opcode} {bytes}"));
            refused
                .iter()
                .for_each(|&(opcode, bytes)| assert!(!filter.accepts(opcode, bytes), "{opcode} {bytes}"));
        }
        check(
            "all-gather > 1MB",
            &[("all-gather-start", 1_000_001)],
            &[("all-gather", 1_000_000), ("all-reduce", 2_000_000)],
        );
        check(">= 1.5 KiB", &[("fusion", 1536)], &[("fusion", 1535)]);
        check("fusion", &[("fusion", 0)], &[("copy", 0)]);
        check("copy<=3", &[("copy", 3)], &[("copy", 4)]);
        check("=0 bytes", &[("copy", 0)], &[("copy", 1)]);
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = |text: &str| text.parse::<Filter>().unwrap_err().to_string();
        assert_eq!(
            refused("all gather > 1MB"),
            "expected an opcode, a comparison and a size, such as `all-gather > 1MB`, found `all gather > 1MB`"
        );
        assert_eq!(refused("> 1 mb"), "expected a size such as `1MB` or `64KiB`, found `1 mb`");
        assert_eq!(refused(">"), "expected a size such as `1MB` or `64KiB`, found ``");
        assert!(refused("").starts_with("expected an opcode"));
    }
}
