//! Suggestions for misspelled names.

/// Maximum number of bytes of a name that is compared.
const MAX_NAME: usize = 256;

/// The candidate nearest to `wanted` by edit distance, if the distance is that of a typo. Names of more than 256 bytes match
/// none.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = Letters::of(wanted)?;
    let distance = |candidate: &'a str| {
        let limit = candidate.chars().count().max(3) / 3;
        // Counting letters rules out most candidates without the quadratic distance.
        let near = Letters::of(candidate).is_some_and(|other| letters.min_distance(&other) <= limit);
        let distance = near.then(|| strsim::osa_distance(wanted, candidate))?;
        (distance <= limit).then_some((distance, candidate))
    };
    candidates.into_iter().filter_map(distance).min_by_key(|&(distance, _)| distance).map(|(_, name)| name)
}

/// Number of occurrences of each letter in a name, by the code of the letter modulo 64.
struct Letters([u16; 64]);

impl Letters {
    /// `None` for a name that is too long.
    fn of(name: &str) -> Option<Self> {
        let mut counts = [0; 64];
        if name.len() > MAX_NAME {
            return None;
        }
        name.chars().for_each(|letter| counts[letter as usize % 64] += 1);
        Some(Self(counts))
    }

    /// A lower bound of the edit distance.
    fn min_distance(&self, other: &Self) -> usize {
        let (mut more, mut fewer) = (0, 0);
        for (&a, &b) in self.0.iter().zip(&other.0) {
            more += usize::from(a.saturating_sub(b));
            fewer += usize::from(b.saturating_sub(a));
        }
        more.max(fewer)
    }
}

/// A hint for an unknown name: the nearest known one, else all of them, introduced by `what`.
pub fn did_you_mean<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    what: &str,
) -> String {
    let known = known.into_iter();
    let all = || format!("{what}: {}", known.clone().collect::<Vec<_>>().join(", "));
    nearest_hint(wanted, known.clone()).unwrap_or_else(all)
}

/// A hint for an unknown name: the nearest known one, if one is near.
pub(crate) fn nearest_hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wanted, known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_a_typo_and_nothing_far_away() {
        assert_eq!(nearest("tensr", ["fsdp", "tensor"]), Some("tensor"));
        assert_eq!(nearest("pipeline", ["fsdp", "tensor"]), None);
        assert_eq!(nearest("q_porj", ["k_proj", "q_proj"]), Some("q_proj"));
        assert_eq!(nearest("é", ["e", "è"]), Some("e"));
        assert_eq!(nearest("", ["a", "ab"]), Some("a"));
    }

    #[test]
    fn long_names_are_near_to_nothing() {
        let long = |length: usize| "a".repeat(length);
        assert_eq!(nearest(&long(256), [long(255).as_str()]), Some(long(255).as_str()));
        assert_eq!(nearest(&long(257), [long(256).as_str()]), None);
        let start = std::time::Instant::now();
        let names: Vec<String> = (0..60_000).map(|number| format!("{number:05}{}", long(200))).collect();
        let unlike = "b".repeat(205);
        assert_eq!(nearest(&long(60_000), [long(59_999).as_str()]), None);
        assert_eq!(nearest(&unlike, names.iter().map(String::as_str)), None);
        assert!(start.elapsed().as_secs() < 5, "took {:?}", start.elapsed());
    }
}
