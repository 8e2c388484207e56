//! The language of messages and documents.

use super::source::Source;

/// Files whose strings are arguments of other programs.
const OTHER_PROGRAMS: &[&str] =
    &["src/store/pip.rs", "src/store/packages.rs", "src/runtime/compile_worker/stub_libs.rs"];

/// Phrases that CONTRIBUTING.md's style page rules out.
const PHRASES: &[&str] = &[
    "anew",
    "asked for",
    "at last,",
    "by reason of",
    "counted token",
    "filled up to",
    "gives back",
    "has it so",
    "in the end,",
    "is not right",
    "loom::",
    "mistake",
    "no such table",
    "nobody",
    "of a kind",
    "stands twice",
    "that stand in",
    "the same along",
    "trouble",
    "weaver.",
    "whoever",
    "woven",
];

/// Only `cli` knows how settings and commands are spelled on a command line.
pub fn flags(source: &Source<'_>) -> Vec<String> {
    let exempt = source.path.starts_with("src/cli/") || OTHER_PROGRAMS.contains(&source.path);
    if exempt || !source.path.starts_with("src/") {
        return vec![];
    }
    let strings = source.strings().into_iter().filter(|&(at, _)| !source.is_test(at));
    let speaks = |text: &str| {
        let flag = text
            .match_indices("--")
            .any(|(at, _)| text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()));
        flag || text.contains("hloom ")
    };
    strings
        .filter(|(_, text)| speaks(text))
        .map(|(at, text)| source.report(at, format!("only `cli` may spell a flag or a command: {text}")))
        .collect()
}

/// Phrases that are no engineers' English.
pub fn phrases(path: &str, text: &str) -> Vec<String> {
    let checked = path.starts_with("src/") && path.ends_with(".rs")
        || path.ends_with(".md")
        || path.starts_with("mesh-configs/")
        || path.starts_with("hlo-templates/");
    // The style page has to name them.
    if !checked || path == "CONTRIBUTING.md" {
        return vec![];
    }
    let lines = text.lines().zip(1..);
    let found = lines.flat_map(|(line, number)| {
        let line = line.to_lowercase();
        let here = PHRASES.iter().filter(move |phrase| contains_phrase(&line, phrase));
        here.map(move |phrase| format!("{path}:{number}: write it in other words: {phrase}"))
            .collect::<Vec<_>>()
    });
    found.collect()
}

/// Whether a phrase begins and ends at the borders of words.
fn contains_phrase(line: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase).any(|(at, _)| {
        let goes_on = phrase.ends_with(is_word) && line[at + phrase.len()..].starts_with(is_word);
        !(line[..at].ends_with(is_word) || goes_on)
    })
}

#[test]
fn flags_and_commands_are_found_in_strings() {
    let check = |path: &str, text: &str, count: usize| {
        assert_eq!(flags(&Source::new(path, text)).len(), count, "{text}");
    };
    check("src/train/a.rs", "const A: &str = \"raise --seq\";", 1);
    check("src/train/a.rs", "// raise --seq\nlet b = r#\"run `hloom train`\"#;", 1);
    check("src/cli/a.rs", "const A: &str = \"raise --seq\";", 0);
    check("src/train/a.rs", "const A: &str = \"a -- b, a--\"; x--;", 0);
    check("src/train/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"--seq\"; }", 0);
}

#[test]
fn phrases_are_found_as_words() {
    assert_eq!(phrases("src/a.rs", "// begins Anew").len(), 1);
    assert_eq!(phrases("src/a.rs", "// renewed, manewed").len(), 0);
    assert_eq!(phrases("docs/a.md", "this key stands twice").len(), 1);
    assert_eq!(phrases("tests/a.rs", "anew").len(), 0);
}
