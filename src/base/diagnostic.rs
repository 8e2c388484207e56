use std::fmt;

/// Where a problem stands: a file, a line of it, a tensor, an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file or other source, as the user named it.
    pub file: String,
    /// The line, counted from one, where that is known.
    pub line: Option<usize>,
    /// What inside it: a tensor, an instruction, a key.
    pub item: Option<String>,
}

impl Location {
    /// A whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, item: None }
    }

    /// A line of a file, counted from one.
    pub fn line(file: impl Into<String>, line: usize) -> Self {
        Self { file: file.into(), line: Some(line), item: None }
    }

    /// The same place, at a named thing inside it.
    pub fn at(self, item: impl Into<String>) -> Self {
        Self { item: Some(item.into()), ..self }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.item {
            Some(item) if self.file.is_empty() => write!(f, "`{item}`"),
            Some(item) => write!(f, ": `{item}`"),
            None => Ok(()),
        }
    }
}

/// One problem: where it stands, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub place: Location,
    /// What was found and what was expected, in lower case and without a full stop.
    pub message: String,
    /// What the reader can do about it, where that is known.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A problem without a hint.
    pub fn new(place: Location, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    /// The same problem with what to do about it.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Every problem of one check, so that none hides behind another. Never empty as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one problem.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// `Ok(value)` if nothing was found, else all that was.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Longer names are no typos of each other.
const MAX_NAME: usize = 256;

/// The candidate nearest to `wanted` by edit distance, if one is near enough to be what was meant. Names of more than 256
/// bytes are near to nothing.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = Letters::of(wanted)?;
    let distance = |candidate: &'a str| {
        let limit = candidate.chars().count().max(3) / 3;
        // Most candidates are told apart by their letters, without the quadratic distance.
        let near = Letters::of(candidate).is_some_and(|other| letters.least_distance(&other) <= limit);
        let distance = near.then(|| strsim::osa_distance(wanted, candidate))?;
        (distance <= limit).then_some((distance, candidate))
    };
    candidates.into_iter().filter_map(distance).min_by_key(|&(distance, _)| distance).map(|(_, name)| name)
}

/// How often a name has each letter; letters share a place where their codes agree modulo 64.
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

    /// No fewer edits turn one name into the other.
    fn least_distance(&self, other: &Self) -> usize {
        let (mut more, mut fewer) = (0, 0);
        for (&a, &b) in self.0.iter().zip(&other.0) {
            more += usize::from(a.saturating_sub(b));
            fewer += usize::from(b.saturating_sub(a));
        }
        more.max(fewer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_item_and_hint() {
        let diagnostic = Diagnostic::new(Location::line("m.toml", 3).at("heads"), "unknown axis: tensr")
            .with_hint("did you mean `tensor`?");
        assert_eq!(
            diagnostic.to_string(),
            "m.toml:3: `heads`: unknown axis: tensr\n  hint: did you mean `tensor`?"
        );
    }

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
