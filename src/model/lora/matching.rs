//! How PEFT matches module names: names by suffix, expressions by the whole name.

use fancy_regex::{Error, Regex};

use super::python::{Flags, translate};

/// A regular expression of a user, which may look around as Python's can.
#[derive(Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// An expression that must match the whole name (`re.fullmatch`), to be asked about some of `names`.
    pub fn whole(pattern: &str, names: &[&str]) -> Result<Self, String> {
        let regex = compile(pattern, Flags::Leading, |pattern| format!("^(?:{pattern})$"))?;
        Self::checked(pattern, regex, names)
    }

    /// A key of `rank_pattern` or `alpha_pattern`, which must match the whole name or all after a dot.
    pub fn key(pattern: &str, names: &[&str]) -> Result<Self, String> {
        let regex = compile(pattern, Flags::Refused, |pattern| format!(r"^(?:(.*\.)?({pattern})$)"))?;
        Self::checked(pattern, regex, names)
    }

    fn checked(pattern: &str, regex: Regex, names: &[&str]) -> Result<Self, String> {
        match names.iter().find(|name| regex.is_match(name).is_err()) {
            Some(name) => Err(format!("takes too many steps to match {name}: {pattern}")),
            None => Ok(Self(regex)),
        }
    }

    /// Whether one of the names given at the start matches; none of them runs out of steps.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name).unwrap_or(false)
    }
}

/// An entry of `layers_pattern`, the list of layers that the numbers of `layers_to_transform` count.
#[derive(Debug)]
pub(super) struct LayerPattern(Regex);

impl LayerPattern {
    /// As PEFT has it, the expression is not in a group of its own: `a|b` is `a`, or `b` and a number after it.
    pub fn new(pattern: &str, names: &[&str]) -> Result<Self, String> {
        let wrap = |pattern: &str| format!(r"^(?:(?:^|.*?\.){pattern}\.(?P<idx>\d+)\.)");
        if pattern.contains("(?P<idx>") {
            return Err(format!("not a regular expression: {pattern}: redefinition of group name idx"));
        }
        let regex = compile(pattern, Flags::Refused, wrap)?;
        Pattern::checked(pattern, regex, names).map(|Pattern(regex)| Self(regex))
    }

    /// The layer that it finds in a module's name: `None` if it does not match, `Some(None)` if it does without a number.
    pub fn layer(&self, module: &str) -> Option<Option<usize>> {
        let captures = self.0.captures(module).ok().flatten()?;
        Some(captures.name("idx").and_then(|layer| layer.as_str().parse().ok()))
    }
}

/// The bare pattern is read first, so that positions in errors are those the user sees.
fn compile(pattern: &str, flags: Flags, wrap: impl Fn(&str) -> String) -> Result<Regex, String> {
    let translated = translate(pattern, flags)
        .map_err(|reason| format!("not a regular expression: {pattern}: {reason}"))?;
    let described = |error| describe(pattern, &error);
    if translated == pattern {
        Regex::new(pattern).map_err(described)?;
    }
    Regex::new(&wrap(&translated)).map_err(described)
}

fn describe(pattern: &str, error: &Error) -> String {
    match error {
        Error::ParseError(byte, reason) => {
            let position = 1 + pattern.char_indices().take_while(|&(at, _)| at < *byte).count();
            let reason = reason.to_string();
            format!("not a regular expression, at character {position} of {pattern}: {}", lowered(&reason))
        }
        other => format!("not a regular expression: {pattern}: {}", lowered(&other.to_string())),
    }
}

fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Whether a list entry names this module: the name itself, or its end after a dot.
pub(super) fn names(entry: &str, module: &str) -> bool {
    module.strip_suffix(entry).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_matches_whole_parts_only() {
        let module = "model.layers.0.self_attn.q_proj";
        assert!(names(module, module) && names("q_proj", module) && names("self_attn.q_proj", module));
        assert!(!names("proj", module) && !names("layers.0.self_attn", module) && !names("0", module));
    }

    #[test]
    fn expressions_match_whole_names_and_keys_match_ends() {
        let module = "model.layers.10.mlp.up_proj";
        let whole = |pattern| Pattern::whole(pattern, &[]).unwrap().matches(module);
        assert!(whole(r".*\.up_proj") && whole("up_proj|model.*") && whole(r"(?!.*down).*"));
        assert!(!whole("up_proj") && !whole(r"model\.layers\.1\..*"));
        let key = |pattern| Pattern::key(pattern, &[]).unwrap().matches(module);
        assert!(key("up_proj") && key("mlp.up_proj") && key("down_proj|up_proj") && key("^model.*up_proj"));
        assert!(!key("proj") && !key("0.mlp.up_proj") && !key("mlp"));
    }

    #[test]
    fn a_broken_expression_is_met_with_its_place() {
        assert_eq!(
            Pattern::whole("model.(q_proj", &[]).unwrap_err(),
            "not a regular expression, at character 14 of model.(q_proj: opening parenthesis without closing parenthesis"
        );
        assert_eq!(
            Pattern::key("é*a)", &[]).unwrap_err(),
            "not a regular expression, at character 4 of é*a): general parsing error: end of string not reached"
        );
    }

    #[test]
    fn an_expression_that_backtracks_without_end_is_refused() {
        let name = format!("{}b", "a".repeat(40));
        assert_eq!(
            Pattern::whole(r"(?=a)(a|aa|\1)+(?!x)c", &[&name]).unwrap_err(),
            format!(r"takes too many steps to match {name}: (?=a)(a|aa|\1)+(?!x)c")
        );
    }
}
