//! Tensor names that differ from the expected ones by a prefix: a wrapper of the model was saved, or only a part of it.

use std::collections::{BTreeMap, BTreeSet};

/// A prefix of the names of a file that differs from the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub found: String,
    pub expected: String,
    /// The file's name to the expected one.
    pub renamed: BTreeMap<String, String>,
}

impl Prefix {
    /// Describes the difference; `outer` is a prefix of every expected name.
    pub(super) fn describe(&self, outer: &str) -> String {
        let Self { found, expected, .. } = self;
        let wanted = format!("{outer}{expected}");
        match (found.as_str(), wanted.as_str()) {
            ("", wanted) => format!("the tensor names lack the prefix `{wanted}`"),
            (found, "") => format!("the tensor names have the prefix `{found}`, which a Llama's do not have"),
            (found, wanted) => format!("the tensor names have the prefix `{found}`, expected `{wanted}`"),
        }
    }
}

/// Finds the prefix by which names of a file differ from the `expected` ones; the prefix of the most expected names if
/// there are several. `None` if expected names are present, or no prefix matches.
pub(super) fn find_prefix<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    expected: &BTreeSet<&str>,
) -> Option<Prefix> {
    // Names inside the layers are unambiguous.
    let in_layers = |name: &&&str| name.split('.').skip(1).any(is_number);
    let (first, _) = expected.iter().find(in_layers)?.split_once('.')?;
    let inner = format!("{first}.");
    let anchors: BTreeSet<&str> =
        expected.iter().filter(in_layers).filter_map(|name| name.strip_prefix(&inner)).collect();
    if names.clone().any(|name| name.strip_prefix(&inner).is_some_and(|rest| anchors.contains(rest))) {
        return None;
    }
    let starts = |name: &'a str| {
        std::iter::once(0)
            .chain(name.match_indices('.').map(|(at, _)| at + 1))
            .map(move |at| name.split_at(at))
    };
    let prefixes: BTreeSet<&str> = names
        .clone()
        .flat_map(starts)
        .filter(|(_, rest)| anchors.contains(rest))
        .map(|(before, _)| before)
        .collect();
    let candidates = prefixes.into_iter().filter_map(|found| rename(names.clone(), expected, &inner, found));
    // On a tie, the first.
    candidates
        .rev()
        .max_by_key(|prefix| prefix.renamed.values().filter(|name| expected.contains(name.as_str())).count())
}

/// The names after `found` become those after `inner`. `None` if two would become the same.
fn rename<'a>(
    names: impl Iterator<Item = &'a str>,
    expected: &BTreeSet<&str>,
    inner: &str,
    found: &str,
) -> Option<Prefix> {
    let outer = found.strip_suffix(inner).filter(|outer| is_prefix(outer));
    // Tensors outside the layers' module, such as the head, may have any prefix.
    let outside: Vec<&str> = expected.iter().copied().filter(|name| !name.starts_with(inner)).collect();
    let renamed = names.filter_map(|name| {
        let inside = name.strip_prefix(found).map(|rest| format!("{inner}{rest}"));
        let beside = outer.and_then(|outer| name.strip_prefix(outer)).map(str::to_owned);
        let end = || outside.iter().find(|end| ends_with(name, end));
        let known = |new: &String| expected.contains(new.as_str());
        let new = inside
            .clone()
            .filter(known)
            .or(beside.filter(known))
            .or_else(|| end().map(|end| end.to_string()));
        // An unknown name in the module is reported under its new name.
        Some((name.to_owned(), new.or(inside)?))
    });
    let renamed: BTreeMap<String, String> = renamed.filter(|(old, new)| old != new).collect();
    let targets: BTreeSet<&String> = renamed.values().collect();
    (targets.len() == renamed.len()).then(|| match outer {
        // A wrapper is a prefix of the full names.
        Some(outer) if !outer.is_empty() => {
            Prefix { found: outer.to_owned(), expected: String::new(), renamed: renamed.clone() }
        }
        _ => Prefix { found: found.to_owned(), expected: inner.to_owned(), renamed: renamed.clone() },
    })
}

/// Describes missing names; `None` if none is missing.
pub(super) fn describe_missing(missing: &[&str]) -> Option<String> {
    let first = missing.first()?;
    Some(match missing.len() {
        1 => format!("`{first}` is missing"),
        count => format!("`{first}` and {} more tensors are missing", count - 1),
    })
}

/// Whether `name` is `end` or ends in a dot and `end`.
fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(is_prefix)
}

fn is_prefix(before: &str) -> bool {
    before.is_empty() || before.ends_with('.')
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: [&str; 4] = [
        "model.embed_tokens.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    ];

    /// `expect` has what is found before the names and what is expected; the names must be the expected ones.
    #[track_caller]
    fn check(names: [&str; 4], expect: Option<(&str, &str)>) {
        let found = find_prefix(names.iter().copied(), &EXPECTED.into());
        assert_eq!(found.as_ref().map(|found| (found.found.as_str(), found.expected.as_str())), expect);
        let renamed = names.map(|name| match &found {
            Some(found) => found.renamed.get(name).map_or(name, String::as_str),
            None => name,
        });
        if found.is_some() {
            assert_eq!(renamed, EXPECTED);
        }
    }

    #[test]
    fn wrappers_and_parts_are_recognized() {
        check(EXPECTED, None);
        for wrapper in
            ["_orig_mod.", "module.", "base_model.model.", "language_model.", "module._orig_mod.", "model."]
        {
            let names = EXPECTED.map(|name| format!("{wrapper}{name}"));
            check(names.each_ref().map(String::as_str), Some((wrapper, "")));
        }
        let part = EXPECTED.map(|name| name.trim_start_matches("model."));
        check(part, Some(("", "model.")));
        let nested = EXPECTED.map(|name| name.replacen("model.", "model.language_model.", 1));
        check(nested.each_ref().map(String::as_str), Some(("model.language_model.", "model.")));
        let mixed = EXPECTED.map(|name| name.replacen("model.", "transformer.", 1));
        check(mixed.each_ref().map(String::as_str), Some(("transformer.", "model.")));
    }

    #[test]
    fn the_prefix_that_gives_the_most_names_is_taken() {
        let names = [
            "a.layers.0.mlp.up_proj.weight",
            "b.model.layers.0.mlp.up_proj.weight",
            "b.model.layers.1.mlp.up_proj.weight",
            "b.model.norm.weight",
        ];
        let found = find_prefix(names.into_iter(), &EXPECTED.into()).unwrap();
        assert_eq!(found.describe("base."), "the tensor names have the prefix `b.`, expected `base.`");
        assert_eq!(found.renamed["b.model.norm.weight"], "model.norm.weight");
        assert!(!found.renamed.contains_key(names[0]));
    }

    #[test]
    fn names_of_another_kind_are_left() {
        check(["a", "b.c", "xlayers.0.mlp.up_proj.weight", "lm_head.weight"], None);
        check(
            ["a.layers.0.mlp.up_proj.weight", "x.norm.weight", "a.lm_head.weight", "b.lm_head.weight"],
            None,
        );
    }
}
