use std::fmt;

/// A location in the input: a file, a line and a column, a named item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file or other source, as the user named it.
    pub file: String,
    /// The line, counted from one.
    pub line: Option<usize>,
    /// The column in characters, counted from one.
    pub column: Option<usize>,
    /// The name of a tensor, an instruction or a key.
    pub item: Option<String>,
}

impl Location {
    /// A file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// A line of a file, counted from one.
    pub fn line(file: impl Into<String>, line: usize) -> Self {
        Self { file: file.into(), line: Some(line), ..Self::default() }
    }

    /// The same location, at a named item.
    pub fn at(self, item: impl Into<String>) -> Self {
        Self { item: Some(item.into()), ..self }
    }

    /// The same location without the item.
    pub fn without_item(&self) -> Self {
        Self { item: None, ..self.clone() }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in self.line.iter().chain(&self.column) {
            write!(f, ":{number}")?;
        }
        match &self.item {
            Some(item) if self.file.is_empty() => write!(f, "`{item}`"),
            Some(item) => write!(f, ": `{item}`"),
            None => Ok(()),
        }
    }
}
