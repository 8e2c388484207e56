use std::fmt;

/// Where a problem stands: a file, a line of it, a tensor, an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file or other source, as the user named it.
    pub file: String,
    /// The line, counted from one, where that is known.
    pub line: Option<usize>,
    /// What inside it: a tensor, an instruction, a key.
    pub item: Option<String>,
}

impl Place {
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

impl fmt::Display for Place {
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
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What was found and what was expected, in lower case and without a full stop.
    pub message: String,
    /// What the reader can do about it, where that is known.
    pub hint: Option<String>,
}

impl Finding {
    /// A problem without a hint.
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    /// The same problem with what to do about it.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Finding {
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
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds one problem.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// `Ok(value)` if nothing was found, else all that was.
    pub fn into_result<T>(self, value: T) -> Result<T, Findings> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.0.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// The candidate nearest to `wanted` by edit distance, if one is near enough to be what was meant.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(wanted, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= (candidate.chars().count().max(3)) / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in characters.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_item_and_hint() {
        let finding = Finding::new(Place::line("m.toml", 3).at("heads"), "unknown axis: tensr")
            .with_hint("did you mean `tensor`?");
        assert_eq!(
            finding.to_string(),
            "m.toml:3: `heads`: unknown axis: tensr\n  hint: did you mean `tensor`?"
        );
    }

    #[test]
    fn nearest_finds_a_typo_and_nothing_far_away() {
        assert_eq!(nearest("tensr", ["fsdp", "tensor"]), Some("tensor"));
        assert_eq!(nearest("pipeline", ["fsdp", "tensor"]), None);
    }
}
