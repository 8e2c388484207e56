//! Diagnostics that repeat for every layer, summarized.

use std::collections::{BTreeSet, HashMap};

use super::{Diagnostic, Diagnostics, Location};

/// Maximum number of diagnostics that are listed with the same message.
const MAX_ALIKE: usize = 20;

/// Maximum number of ranges in a name.
const MAX_RANGES: usize = 8;

impl Diagnostics {
    /// Merges diagnostics that differ only in a number of the item's name, with the numbers as ranges:
    /// `model.layers.{0..31}.mlp.up_proj.weight`. Of more than 20 with the same message, the others are only counted.
    /// `common` is the location of a diagnostic about several files.
    pub fn grouped(self, common: &str) -> Self {
        let mut groups: Vec<DiagnosticGroup> = Vec::new();
        let mut known: HashMap<(String, String, Option<String>), usize> = HashMap::new();
        for diagnostic in self.0 {
            let (pattern, number) = pattern(diagnostic.location.item.as_deref().unwrap_or_default());
            let at = *known
                .entry((pattern, diagnostic.message.clone(), diagnostic.hint.clone()))
                .or_insert_with(|| {
                    groups.push(DiagnosticGroup {
                        first: diagnostic.clone(),
                        numbers: BTreeSet::new(),
                        files: 1,
                    });
                    groups.len() - 1
                });
            let group = &mut groups[at];
            group.files += usize::from(group.first.location.file != diagnostic.location.file);
            group.numbers.extend(number);
        }
        let mut alike: HashMap<(String, Option<String>), usize> = HashMap::new();
        let mut shown = Vec::new();
        let mut more: Vec<(Diagnostic, usize)> = Vec::new();
        for group in groups {
            let (key, items) =
                ((group.first.message.clone(), group.first.hint.clone()), group.numbers.len().max(1));
            let count = alike.entry(key).or_default();
            *count += 1;
            let diagnostic = group.into_diagnostic(common);
            if *count <= MAX_ALIKE {
                shown.push(diagnostic);
            } else if let Some((_, count)) = more
                .iter_mut()
                .find(|(first, _)| first.message == diagnostic.message && first.hint == diagnostic.hint)
            {
                *count += items;
            } else {
                more.push((diagnostic, items));
            }
        }
        shown.extend(more.into_iter().map(|(first, count)| Diagnostic {
            location: Location::file(common),
            message: format!("{count} more: {}", first.message),
            ..first
        }));
        Self(shown)
    }
}

/// Diagnostics that differ only in a number.
struct DiagnosticGroup {
    first: Diagnostic,
    numbers: BTreeSet<u64>,
    files: usize,
}

impl DiagnosticGroup {
    fn into_diagnostic(self, common: &str) -> Diagnostic {
        let Self { mut first, numbers, files } = self;
        if let Some(item) = first.location.item.as_mut().filter(|_| numbers.len() > 1) {
            let (pattern, _) = pattern(item);
            *item = pattern.replacen('\0', &format!("{{{}}}", ranges(&numbers)), 1);
        }
        if files > 1 {
            first.location.file = common.to_owned();
        }
        first
    }
}

/// A name with a NUL in place of its first component that is a number, and that number.
fn pattern(name: &str) -> (String, Option<u64>) {
    let mut number = None;
    let parts: Vec<&str> = name
        .split('.')
        .map(|part| {
            let is_number = number.is_none() && part.bytes().all(|byte| byte.is_ascii_digit());
            match part.parse() {
                Ok(found) if is_number => {
                    number = Some(found);
                    "\0"
                }
                _ => part,
            }
        })
        .collect();
    (parts.join("."), number)
}

/// `0..3,7` for 0, 1, 2, 3 and 7.
fn ranges(numbers: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}..{last}"),
    };
    let mut text: Vec<String> = ranges.iter().take(MAX_RANGES).map(range).collect();
    if ranges.len() > MAX_RANGES {
        text.push("...".to_owned());
    }
    text.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: impl IntoIterator<Item = (String, String)>, expect: &[&str]) {
        let diagnostic =
            |(file, item): (String, String)| Diagnostic::error(Location::file(file).at(item), "missing");
        let diagnostics = Diagnostics(items.into_iter().map(diagnostic).collect()).grouped("model");
        assert_eq!(diagnostics.to_string().lines().collect::<Vec<_>>(), expect);
    }

    fn in_file(file: &str, item: impl Into<String>) -> (String, String) {
        (file.to_owned(), item.into())
    }

    #[test]
    fn layers_are_one_line() {
        let layers = (0..32).flat_map(|n| {
            ["q", "k"].map(|part| in_file("f", format!("model.layers.{n}.self_attn.{part}_proj.weight")))
        });
        let norm = in_file("f", "model.norm.weight");
        check(
            layers.chain([norm]),
            &[
                "f: `model.layers.{0..31}.self_attn.q_proj.weight`: missing",
                "f: `model.layers.{0..31}.self_attn.k_proj.weight`: missing",
                "f: `model.norm.weight`: missing",
            ],
        );
    }

    #[test]
    fn numbers_that_are_not_in_a_row_are_ranges() {
        let some = [7, 0, 3, 2, 9, 1].map(|n| in_file("f", format!("a.{n}.b.5")));
        check(some, &["f: `a.{0..3,7,9}.b.5`: missing"]);
        check([in_file("f", "a.4.b")], &["f: `a.4.b`: missing"]);
        let odd = (0..20).map(|n| in_file("f", format!("a.{}", 2 * n)));
        check(odd, &["f: `a.{0,2,4,6,8,10,12,14,...}`: missing"]);
        check(
            [in_file("f", "a.18446744073709551616"), in_file("f", "a.1x")],
            &["f: `a.18446744073709551616`: missing", "f: `a.1x`: missing"],
        );
    }

    #[test]
    fn layers_of_several_files_have_the_common_location() {
        check(
            [in_file("f", "a.0"), in_file("g", "a.1"), in_file("g", "b")],
            &["model: `a.{0,1}`: missing", "g: `b`: missing"],
        );
    }

    #[test]
    fn more_than_a_screen_is_counted() {
        let many = (0..30).flat_map(|n| [0, 1].map(|layer| in_file("f", format!("x{n}.{layer}"))));
        let lines: Vec<String> = (0..20).map(|n| format!("f: `x{n}.{{0,1}}`: missing")).collect();
        let lines = lines.iter().map(String::as_str).chain(["model: 20 more: missing"]);
        check(many, &lines.collect::<Vec<_>>());
    }
}
