//! PEFT's matching of module names: list entries match a suffix, expressions the full name.

use fancy_regex::{Error, Regex};

use super::python::{GlobalFlags, PythonRegexError, translate};

/// An expression that PEFT or `fancy_regex` rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("not a regular expression: {pattern}: {source}")]
    Python { pattern: String, source: PythonRegexError },
    #[error("not a regular expression, at character {position} of {pattern}: {reason}")]
    Parse { pattern: String, position: usize, reason: String },
    #[error("not a regular expression: {pattern}: {reason}")]
    Compile { pattern: String, reason: String },
    /// The backtracking limit of `fancy_regex` is reached.
    #[error("takes too many steps to match {name}: {pattern}")]
    Backtracking { pattern: String, name: String },
}

/// A regular expression with Python's syntax, look-around included.
#[derive(Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// An expression that must match a full name (`re.fullmatch`). Matching each of `names` must end.
    pub(super) fn full(pattern: &str, names: &[&str]) -> Result<Self, PatternError> {
        let regex = compile(pattern, GlobalFlags::Leading, |pattern| format!("^(?:{pattern})$"))?;
        Self::checked(pattern, regex, names)
    }

    /// A key of `rank_pattern` or `alpha_pattern`, which must match a full name or everything after one of its dots.
    pub(super) fn key(pattern: &str, names: &[&str]) -> Result<Self, PatternError> {
        let regex = compile(pattern, GlobalFlags::Refused, |pattern| format!(r"^(?:(.*\.)?({pattern})$)"))?;
        Self::checked(pattern, regex, names)
    }

    fn checked(pattern: &str, regex: Regex, names: &[&str]) -> Result<Self, PatternError> {
        match names.iter().find(|name| regex.is_match(name).is_err()) {
            Some(&name) => {
                Err(PatternError::Backtracking { pattern: pattern.to_owned(), name: name.to_owned() })
            }
            None => Ok(Self(regex)),
        }
    }

    /// Whether it matches a name. Those that it was made for do not reach the backtracking limit.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name).unwrap_or(false)
    }
}

/// An entry of `layers_pattern`: the name of the module list that `layers_to_transform` indexes.
#[derive(Debug)]
pub(super) struct LayerPattern(Regex);

impl LayerPattern {
    /// As in PEFT, the expression is not in a group of its own: `a|b` is `a`, or `b` and a number after it.
    pub(super) fn new(pattern: &str, names: &[&str]) -> Result<Self, PatternError> {
        let wrap = |pattern: &str| format!(r"^(?:(?:^|.*?\.){pattern}\.(?P<idx>\d+)\.)");
        if pattern.contains("(?P<idx>") {
            let source = PythonRegexError::DuplicateGroup("idx");
            return Err(PatternError::Python { pattern: pattern.to_owned(), source });
        }
        let regex = compile(pattern, GlobalFlags::Refused, wrap)?;
        Pattern::checked(pattern, regex, names).map(|Pattern(regex)| Self(regex))
    }

    /// The layer number in a module's name: `None` if the pattern does not match, `Some(None)` if it matches without a
    /// number.
    pub(super) fn layer(&self, module: &str) -> Option<Option<usize>> {
        let captures = self.0.captures(module).ok().flatten()?;
        Some(captures.name("idx").and_then(|layer| layer.as_str().parse().ok()))
    }
}

/// The bare pattern is read first, so that positions in errors are those the user sees.
fn compile(pattern: &str, flags: GlobalFlags, wrap: impl Fn(&str) -> String) -> Result<Regex, PatternError> {
    let translated = translate(pattern, flags)
        .map_err(|source| PatternError::Python { pattern: pattern.to_owned(), source })?;
    let error = |error| regex_error(pattern, &error);
    if translated == pattern {
        Regex::new(pattern).map_err(error)?;
    }
    Regex::new(&wrap(&translated)).map_err(error)
}

fn regex_error(pattern: &str, error: &Error) -> PatternError {
    let pattern = pattern.to_owned();
    match error {
        Error::ParseError(byte, reason) => {
            let position = 1 + pattern.char_indices().take_while(|&(at, _)| at < *byte).count();
            PatternError::Parse { pattern, position, reason: lowered(&reason.to_string()) }
        }
        other => PatternError::Compile { pattern, reason: lowered(&other.to_string()) },
    }
}

fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Whether a list entry matches a module: its full name, or everything after one of its dots.
pub(super) fn entry_matches(entry: &str, module: &str) -> bool {
    module.strip_suffix(entry).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_matches_whole_parts_only() {
        let module = "model.layers.0.self_attn.q_proj";
        assert!(
            entry_matches(module, module)
                && entry_matches("q_proj", module)
                && entry_matches("self_attn.q_proj", module)
        );
        assert!(
            !entry_matches("proj", module)
                && !entry_matches("layers.0.self_attn", module)
                && !entry_matches("0", module)
        );
    }

    #[test]
    fn expressions_match_whole_names_and_keys_match_ends() {
        let module = "model.layers.10.mlp.up_proj";
        let whole = |pattern| Pattern::full(pattern, &[]).unwrap().matches(module);
        assert!(whole(r".*\.up_proj") && whole("up_proj|model.*") && whole(r"(?!.*down).*"));
        assert!(!whole("up_proj") && !whole(r"model\.layers\.1\..*"));
        let key = |pattern| Pattern::key(pattern, &[]).unwrap().matches(module);
        assert!(key("up_proj") && key("mlp.up_proj") && key("down_proj|up_proj") && key("^model.*up_proj"));
        assert!(!key("proj") && !key("0.mlp.up_proj") && !key("mlp"));
    }

    #[test]
    fn a_malformed_expression_is_reported_with_its_position() {
        assert_eq!(
            Pattern::full("model.(q_proj", &[]).unwrap_err().to_string(),
            "not a regular expression, at character 14 of model.(q_proj: opening parenthesis without closing parenthesis"
        );
        assert_eq!(
            Pattern::key("é*a)", &[]).unwrap_err().to_string(),
            "not a regular expression, at character 4 of é*a): general parsing error: end of string not reached"
        );
    }

    #[test]
    fn an_expression_that_backtracks_without_end_is_refused() {
        let name = format!("{}b", "a".repeat(40));
        assert_eq!(
            Pattern::full(r"(?=a)(a|aa|\1)+(?!x)c", &[&name]).unwrap_err().to_string(),
            format!(r"takes too many steps to match {name}: (?=a)(a|aa|\1)+(?!x)c")
        );
    }
}
