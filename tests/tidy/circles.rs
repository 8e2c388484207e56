//! Circles between the files of a folder: a file uses another, which by some way uses the first.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// The segments of a module's path below `src`.
type Path = Vec<String>;

/// A module with the code of its file, tests left out.
struct Module {
    code: String,
    /// What it re-exports or imports from its children, by the name that it gets.
    imports: BTreeMap<String, Path>,
}

/// Every circle, with the files in it. `mod.rs` of a folder is one of its files.
pub fn circles(sources: &[Source<'_>]) -> Vec<String> {
    let modules = modules(sources);
    let mut edges: BTreeMap<Path, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (path, module) in &modules {
        for used in used_paths(&module.code) {
            let Some((start, rest)) = absolute(&modules, path, &used) else { continue };
            let target = resolve(&modules, start, &rest, 0);
            let common = path.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if target == *path || common == 0 {
                continue;
            }
            let child = |path: &Path| path.get(common).map_or("mod.rs", String::as_str).to_owned();
            let folder = edges.entry(path[..common].to_vec()).or_default();
            folder.entry(child(path)).or_default().insert(child(&target));
        }
    }
    let report = |(folder, graph): (Path, BTreeMap<String, BTreeSet<String>>)| {
        let circle: Vec<String> = graph.keys().filter(|name| reaches(&graph, name, name)).cloned().collect();
        let folder = folder.join("/");
        (!circle.is_empty()).then(|| format!("src/{folder}: files in a circle: {}", circle.join(", ")))
    };
    edges.into_iter().filter_map(report).collect()
}

/// Whether a way of one or more edges leads from `from` to `to`.
fn reaches(graph: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next = vec![from];
    while let Some(name) = next.pop() {
        for user in graph.get(name).into_iter().flatten() {
            if user == to {
                return true;
            }
            if seen.insert(user) {
                next.push(user);
            }
        }
    }
    false
}

fn modules(sources: &[Source<'_>]) -> BTreeMap<Path, Module> {
    let mut modules = BTreeMap::new();
    for source in sources {
        let Some(path) = source.path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        let mut path: Path = path.split('/').map(str::to_owned).collect();
        let file = path.last().map_or("", String::as_str);
        if ["tests", "testing", "golden", "main", "lib"].contains(&file) {
            continue;
        }
        if file == "mod" {
            path.pop();
        }
        let end = source.code.find("#[cfg(test)]\nmod tests {").unwrap_or(source.code.len());
        let code = source.code[..end].to_owned();
        modules.insert(path, Module { code, imports: BTreeMap::new() });
    }
    let names: BTreeSet<Path> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        for (used, name) in imports(&module.code) {
            let child = [&path[..], &used[..1]].concat();
            if names.contains(&child) {
                module.imports.insert(name, used);
            }
        }
    }
    modules
}

/// The module in which a path starts, and the segments that follow.
fn absolute(modules: &BTreeMap<Path, Module>, from: &Path, used: &Path) -> Option<(Path, Path)> {
    let rest = |skip: usize| used[skip..].to_vec();
    match used.first()?.as_str() {
        "crate" => Some((vec![], rest(1))),
        "self" => Some((from.clone(), rest(1))),
        "super" => {
            let up = used.iter().take_while(|segment| *segment == "super").count();
            Some((from[..from.len().checked_sub(up)?].to_vec(), rest(up)))
        }
        child => {
            let is_child = modules.contains_key(&[&from[..], &[child.to_owned()]].concat());
            is_child.then(|| (from.clone(), used.clone()))
        }
    }
}

/// The module that holds what a path names, through re-exports.
fn resolve(modules: &BTreeMap<Path, Module>, mut module: Path, rest: &[String], depth: usize) -> Path {
    let mut rest = rest;
    while let [first, others @ ..] = rest {
        let child = [&module[..], std::slice::from_ref(first)].concat();
        if !modules.contains_key(&child) {
            break;
        }
        (module, rest) = (child, others);
    }
    let import = rest.first().and_then(|name| modules.get(&module)?.imports.get(name));
    match import {
        Some(import) if depth < 8 => {
            let further = [&import[..], &rest[1..]].concat();
            resolve(modules, module.clone(), &further, depth + 1)
        }
        _ => module,
    }
}

/// The paths that `code` imports, and those that it names in full.
fn used_paths(code: &str) -> Vec<Path> {
    let mut paths: Vec<Path> = imports(code).into_iter().map(|(path, _)| path).collect();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            if code[..at].ends_with(|c: char| is_word(c) || c == ':') {
                continue;
            }
            let text: String = code[at..].chars().take_while(|&c| is_word(c) || c == ':').collect();
            // A tree in braces is one of the imports.
            if text.ends_with(':') {
                continue;
            }
            paths.push(text.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned).collect());
        }
    }
    paths
}

/// The paths of all `use` declarations, each with the name that it gives.
fn imports(code: &str) -> Vec<(Path, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end_matches(' ');
        if !(before.is_empty() || before.ends_with(['\n', ')', ';', '}']) || before.ends_with("pub")) {
            continue;
        }
        let Some(end) = code[at..].find(';') else { continue };
        expand(&code[at + "use ".len()..at + end], &[], &mut found);
    }
    found
}

fn expand(tree: &str, prefix: &[String], found: &mut Vec<(Path, String)>) {
    let mut depth = 0;
    let items = tree.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for item in items.map(str::trim).filter(|item| !item.is_empty()) {
        let segments = |path: &str| -> Path {
            let segments = path.split("::").map(str::trim).filter(|segment| !segment.is_empty());
            prefix.iter().cloned().chain(segments.map(str::to_owned)).collect()
        };
        if let Some((path, inner)) = item.split_once('{') {
            expand(inner.trim_end().trim_end_matches('}'), &segments(path), found);
            continue;
        }
        let (path, alias) =
            item.split_once(" as ").map_or((item, None), |(path, alias)| (path, Some(alias.trim())));
        let mut path = segments(path);
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            found.push((path, alias.map_or(last, str::to_owned)));
        }
    }
}

#[test]
fn circles_are_found_through_reexports() {
    let check = |files: &[(&str, &str)], expect: &[&str]| {
        let sources: Vec<Source<'_>> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        assert_eq!(circles(&sources), expect);
    };
    check(
        &[
            ("src/a/mod.rs", "mod b;\nmod c;\npub use b::{One, Two};\nuse c::Three;"),
            ("src/a/b.rs", "use super::c::Three;"),
            ("src/a/c.rs", "use crate::a::One;"),
            ("src/d/mod.rs", "pub mod e;\n"),
            ("src/d/e.rs", "use crate::a::One;\nuse super::e::x;"),
        ],
        &["src/a: files in a circle: b, c"],
    );
    check(
        &[
            ("src/a/mod.rs", "mod b;\npub struct One;\nfn f() -> b::Two {}\nuse b::Two;"),
            ("src/a/b.rs", "fn f(x: super::One) {}"),
        ],
        &["src/a: files in a circle: b, mod.rs"],
    );
    check(
        &[
            ("src/a/mod.rs", "mod b;\nmod c;\npub use c::One;"),
            ("src/a/b.rs", "use super::One;"),
            ("src/a/c.rs", "#[cfg(test)]\nmod tests {\n    use super::super::b;\n}"),
        ],
        &[],
    );
}
