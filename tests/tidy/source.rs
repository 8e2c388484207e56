//! Rust files, read as far as the rules need it.

/// A Rust file.
pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
    /// The text with comments, strings and characters blanked out.
    pub code: String,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a str, text: &'a str) -> Self {
        Self { path, text, code: blank(text) }
    }

    pub fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    pub fn report(&self, at: usize, message: impl std::fmt::Display) -> String {
        format!("{}:{}: {message}", self.path, self.line_of(at))
    }

    /// Where `word` stands in the code, as a word of its own.
    pub fn places(&self, word: &str) -> Vec<usize> {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let whole = |&at: &usize| {
            let (before, after) = (&self.code[..at], &self.code[at + word.len()..]);
            !(before.ends_with(part) || word.ends_with(part) && after.starts_with(part))
        };
        self.code.match_indices(word).map(|(at, _)| at).filter(whole).collect()
    }

    /// Whether the place is in test code, which in this repository ends a file or is one.
    pub fn is_test(&self, at: usize) -> bool {
        let file = self.path.rsplit('/').next().unwrap_or_default();
        let own_file =
            matches!(file, "tests.rs" | "testing.rs" | "golden.rs") || !self.path.starts_with("src/");
        own_file || self.code.find("#[cfg(test)]\nmod ").is_some_and(|tests| tests < at)
    }

    /// The string literals, each with its position.
    pub fn strings(&self) -> Vec<(usize, &'a str)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.text.len() {
            let rest = &self.text[at..];
            let length = hidden(rest).unwrap_or(0);
            // An identifier before a quote is a prefix of the literal or a name; a name begins no literal.
            let word = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            if length > 0 {
                let literal = &rest[..length];
                let quoted = literal.trim_start_matches(['b', 'r', '#']);
                if quoted.starts_with('"') {
                    found.push((at, literal));
                }
                at += length;
            } else {
                at += word.max(rest.chars().next().map_or(1, char::len_utf8));
            }
        }
        found
    }

    /// The module of `src/` it belongs to.
    pub fn module(&self) -> Option<&'a str> {
        let (module, _) = self.path.strip_prefix("src/")?.split_once('/')?;
        Some(module)
    }
}

/// `text` with everything in comments, strings and characters replaced by spaces, line by line.
pub fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = hidden(rest).unwrap_or(0);
        let (skipped, after) = rest.split_at(length.max(first.len_utf8()));
        if length == 0 {
            code.push(first);
        } else {
            code.extend(skipped.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
        rest = after;
        if length == 0 && first.is_alphanumeric() {
            // The `r` of an identifier begins no raw string.
            let word = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            code.push_str(&rest[..word]);
            rest = &rest[word..];
        }
    }
    code
}

/// The length of the comment, string or character that `text` begins with.
fn hidden(text: &str) -> Option<usize> {
    let until = |start: usize, end: &str| {
        Some(text[start..].find(end).map_or(text.len(), |at| start + at + end.len()))
    };
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return until(2, "*/");
    }
    let raw = text.strip_prefix('b').unwrap_or(text);
    if let Some(after) = raw.strip_prefix('r') {
        let hashes = after.len() - after.trim_start_matches('#').len();
        if after[hashes..].starts_with('"') {
            let start = text.len() - after.len() + hashes + 1;
            return until(start, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    let quote = raw.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let start = text.len() - raw.len() + 1;
    if quote == '\'' && !text[start..].starts_with('\\') {
        // A lifetime has no closing quote after one character.
        let character = text[start..].chars().next()?.len_utf8();
        return text[start + character..].starts_with('\'').then_some(start + character + 1);
    }
    let mut escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(start + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}
