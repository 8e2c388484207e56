//! The architecture, and what a reader may rely on in every file.

mod circles;
mod source;
mod wording;

use std::{collections::BTreeMap, fs, path::Path};

use source::{Source, blank};

/// Which modules each module may use. `lib.rs` and `main.rs` may use all.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("hlo", &["base"]),
    ("templates", &["base", "hlo", "autodiff"]),
    ("autodiff", &["base", "hlo"]),
    ("mesh", &["base", "hlo"]),
    ("pjrt", &["base"]),
    ("store", &["base"]),
    ("targets", &["base", "pjrt"]),
    ("weights", &["base", "model"]),
    ("data", &["base"]),
    ("model", &["base", "hlo", "autodiff", "templates", "mesh"]),
    ("optim", &["base", "hlo", "templates"]),
    ("step", &["base", "hlo", "templates", "autodiff", "mesh", "model", "optim"]),
    ("runtime", &["base", "hlo", "pjrt", "targets", "mesh", "step", "weights", "model"]),
    ("analyze", &["base", "hlo"]),
    ("diff", &["base", "hlo", "analyze"]),
    ("page", &["base", "hlo", "analyze"]),
    (
        "train",
        &[
            "base",
            "hlo",
            "templates",
            "autodiff",
            "mesh",
            "pjrt",
            "targets",
            "weights",
            "data",
            "model",
            "optim",
            "step",
            "runtime",
            "analyze",
        ],
    ),
    (
        "app",
        &[
            "base",
            "hlo",
            "templates",
            "autodiff",
            "mesh",
            "pjrt",
            "store",
            "targets",
            "weights",
            "data",
            "model",
            "optim",
            "step",
            "runtime",
            "train",
            "analyze",
            "diff",
            "page",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "hlo",
            "templates",
            "autodiff",
            "mesh",
            "pjrt",
            "store",
            "targets",
            "weights",
            "data",
            "model",
            "optim",
            "step",
            "runtime",
            "train",
            "analyze",
            "diff",
            "app",
        ],
    ),
];

/// What the top level of the repository holds; the last line is what tools expect there.
const TOP_LEVEL: &[&str] = &[
    "Cargo.toml",
    "src",
    "hlo-templates",
    "mesh-configs",
    "models",
    "tests",
    "benches",
    "README.md",
    ".ci",
    ".git",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "LICENSE",
    "clippy.toml",
    "docs",
    "examples",
    "fuzz",
    "rustfmt.toml",
];

const MAX_LINES: usize = 600;

/// A `SAFETY` comment stands at most so many lines before its block.
const SAFETY_LINES: usize = 6;

/// The modules of this crate that `code` names after a `crate::`, each with its place.
fn used_modules(source: &Source<'_>) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for at in source.places("crate::") {
        let start = at + "crate::".len();
        let rest = &source.code[start..];
        let name = |text: &str| -> String {
            text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        if !rest.starts_with('{') {
            used.push((at, name(rest)));
            continue;
        }
        let mut depth = 0;
        for (offset, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(c, '{' | ',') {
                let after = &rest[offset + 1..];
                let space = after.len() - after.trim_start().len();
                used.push((start + offset + 1 + space, name(after)));
            }
        }
    }
    used.retain(|(_, name)| ARROWS.iter().any(|(module, _)| module == name));
    used
}

fn arrows(source: &Source<'_>) -> Vec<String> {
    let Some(module) = source.module() else { return vec![] };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
        return vec![source.report(0, format!("`{module}` has no place among the layers"))];
    };
    let forbidden = |name: &String| name != module && !allowed.contains(&name.as_str());
    let used = used_modules(source).into_iter().filter(|(_, name)| forbidden(name));
    used.map(|(at, name)| source.report(at, format!("`{module}` may not use `{name}`"))).collect()
}

fn length(source: &Source<'_>) -> Vec<String> {
    let lines = source.text.lines().count();
    let report = || format!("{}: {lines} lines, the limit is {MAX_LINES}", source.path);
    (lines > MAX_LINES).then(report).into_iter().collect()
}

fn unsafe_blocks(source: &Source<'_>) -> Vec<String> {
    let mut reports = Vec::new();
    let lines: Vec<&str> = source.text.lines().collect();
    let allowed = source.path.starts_with("src/pjrt/") || source.path == "src/weights/mapping.rs";
    for at in source.places("unsafe") {
        if !allowed {
            reports.push(source.report(at, "`unsafe` belongs into `pjrt` and the file mapping"));
        }
        let after = source.code[at + "unsafe".len()..].trim_start();
        let line = source.line_of(at);
        let explained =
            lines[line.saturating_sub(SAFETY_LINES + 1)..line].iter().any(|l| l.contains("// SAFETY:"));
        if (after.starts_with('{') || after.starts_with("impl")) && !explained {
            reports.push(source.report(at, "expected a `// SAFETY:` comment before this"));
        }
    }
    reports
}

fn surroundings(source: &Source<'_>) -> Vec<String> {
    if source.path.starts_with("src/cli/") || source.path == "src/main.rs" {
        return vec![];
    }
    let words = ["println!", "eprintln!", "print!", "eprint!", "std::env", "process::exit"];
    let places = words.iter().flat_map(|word| source.places(word).into_iter().map(move |at| (at, word)));
    // Setting a variable is unsafe, and so belongs where the unsafe code is.
    let sets = |at: usize| source.code[at..].starts_with("std::env::set_var");
    let places = places.filter(|&(at, _)| !source.is_test(at) && !sets(at));
    places.map(|(at, word)| source.report(at, format!("only `cli` may use `{word}`"))).collect()
}

/// An error that is a text cannot have a location, a hint or a cause.
fn text_errors(source: &Source<'_>) -> Vec<String> {
    let found = source.places("Result<").into_iter().filter(|&at| {
        let arguments = &source.code[at + "Result<".len()..];
        let (mut depth, mut last) = (0, 0);
        for (offset, c) in arguments.char_indices() {
            match c {
                '>' if arguments[..offset].ends_with('-') => {}
                '>' if depth == 0 => {
                    let error = arguments[last..offset].trim().trim_end_matches(',');
                    return last > 0 && error == "String";
                }
                '<' | '(' | '[' => depth += 1,
                '>' | ')' | ']' => depth -= 1,
                ',' if depth == 0 && arguments[offset + 1..].trim_start().starts_with('>') => {}
                ',' if depth == 0 => last = offset + 1,
                _ => {}
            }
        }
        false
    });
    found.map(|at| source.report(at, "expected a typed error or a `Diagnostic`, found a `String`")).collect()
}

fn unfinished(source: &Source<'_>) -> Vec<String> {
    let words = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let places = words.iter().flat_map(|word| source.places(word).into_iter().map(move |at| (at, *word)));
    let mark = concat!("FIX", "ME");
    let marks = source.text.match_indices(mark).map(|(at, _)| (at, mark));
    let line = |at| source.text[..at].matches('\n').count() + 1;
    places.chain(marks).map(|(at, word)| format!("{}:{}: {word}", source.path, line(at))).collect()
}

fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let places = [concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let lines = text.lines().zip(1..);
    let found = lines.filter(|(line, _)| places.iter().any(|place| line.contains(place)));
    found.map(|(_, number)| format!("{path}:{number}: a path of one machine")).collect()
}

fn top_level<'a>(names: impl IntoIterator<Item = &'a str>, ignored: &str) -> Vec<String> {
    let known =
        |name: &str| TOP_LEVEL.contains(&name) || ignored.lines().any(|line| line.trim_matches('/') == name);
    names
        .into_iter()
        .filter(|name| !known(name))
        .map(|name| format!("{name}: not at the top level"))
        .collect()
}

const RULES: &[fn(&Source<'_>) -> Vec<String>] =
    &[arrows, length, unsafe_blocks, surroundings, text_errors, unfinished, wording::flags];

fn reports(path: &str, text: &str) -> Vec<String> {
    let mut found = machine_paths(path, text);
    found.extend(wording::phrases(path, text));
    if path.ends_with(".rs") {
        let source = Source::new(path, text);
        found.extend(RULES.iter().flat_map(|rule| rule(&source)));
    }
    found
}

/// What git ignores inside the fuzz crate: builds, logs and inputs of a run, which are none of the project's files.
const FUZZ_OUTPUT: &[&str] = &["fuzz/target", "fuzz/artifacts", "fuzz/found"];

/// Every text file under `folder`, by its path from the top.
fn read_all(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if TOP_LEVEL.contains(&path.as_str()) || !folder.is_empty() {
            if path == ".git" || FUZZ_OUTPUT.contains(&path.as_str()) {
                continue;
            } else if root.join(&path).is_dir() {
                read_all(root, &path, files);
            } else if let Ok(text) = fs::read_to_string(root.join(&path)) {
                files.insert(path, text);
            }
        }
    }
}

#[test]
fn every_file_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    read_all(root, "", &mut files);
    assert!(files.contains_key("src/base/mod.rs") && files.contains_key("tests/tidy.rs"));
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let code = blank(text);
        let count = |brace: char| code.matches(brace).count();
        assert_eq!((code.len(), count('{')), (text.len(), count('}')), "{path} was not read right");
    }
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.collect();
    let mut found = top_level(names.iter().map(String::as_str), &files[".gitignore"]);
    found.extend(files.iter().flat_map(|(path, text)| reports(path, text)));
    let sources: Vec<Source<'_>> = files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| Source::new(path, text))
        .collect();
    found.extend(circles::circles(&sources));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    assert_eq!(reports(path, text), expected);
}

#[test]
fn an_error_that_is_a_text_is_found() {
    let report = |line: &usize| {
        format!("src/base/a.rs:{line}: expected a typed error or a `Diagnostic`, found a `String`")
    };
    let check = |text: &str, lines: &[usize]| {
        let expected: Vec<String> = lines.iter().map(report).collect();
        assert_eq!(reports("src/base/a.rs", text), expected, "{text}");
    };
    check("fn f() -> Result<(), String> {}", &[1]);
    check("type F = fn(u8) -> Result<\n    Map<u8, fn() -> u8>,\n    String,\n>;", &[1]);
    check("fn f() -> Result<String, Error> {}\nfn g() -> io::Result<String> {}", &[]);
    check(
        "fn f() -> Result<BTreeMap<u8, String>, Error> {}\nfn g() -> Result<Map<u8, Result<u8, String>>> {}",
        &[2],
    );
    check("// Result<u8, String>", &[]);
}

#[test]
fn an_arrow_upwards_is_found_in_every_form() {
    check(
        "src/hlo/verify.rs",
        "use super::Module;\nuse crate::{\n    base::{Diagnostics, Location},\n    model::{Config, hlo},\n};\n\
         fn f(x: crate::step::Role, y: &crate::base::Shape) {}\nfn g() { $crate::templates::TemplateArg }\n",
        &[
            "src/hlo/verify.rs:4: `hlo` may not use `model`",
            "src/hlo/verify.rs:6: `hlo` may not use `step`",
            "src/hlo/verify.rs:7: `hlo` may not use `templates`",
        ],
    );
    check("src/train/run.rs", "use crate::{cli, step};", &["src/train/run.rs:1: `train` may not use `cli`"]);
    check("src/weights/a.rs", "// crate::model\nconst A: &str = \"crate::model\";", &[]);
    check("src/extra/mod.rs", "", &["src/extra/mod.rs:1: `extra` has no place among the layers"]);
}

#[test]
fn long_files_are_found() {
    check("src/lib.rs", &"\n".repeat(600), &[]);
    check("src/lib.rs", &"\n".repeat(601), &["src/lib.rs: 601 lines, the limit is 600"]);
}

#[test]
fn unsafe_is_found_where_it_does_not_belong_and_where_it_is_not_explained() {
    check(
        "src/hlo/infer.rs",
        "#![deny(unsafe_code)]\n// SAFETY: none\nunsafe { f() }",
        &["src/hlo/infer.rs:3: `unsafe` belongs into `pjrt` and the file mapping"],
    );
    let unexplained = &["src/pjrt/a.rs:3: expected a `// SAFETY:` comment before this"];
    check("src/pjrt/a.rs", "/// # Safety\nunsafe fn f() {\n    unsafe { g() }\n}", unexplained);
    check("src/pjrt/a.rs", "// SAFETY: it is alive.\nlet x = unsafe { g() };", &[]);
    check("src/pjrt/a.rs", "\n\nunsafe impl Send for A {}", unexplained);
}

#[test]
fn prints_and_the_environment_are_found_outside_of_cli() {
    let text = "use std::env;\nfn f() {\n    println!(\"println!\");\n    std::process::exit(1)\n}\n\
                #[cfg(test)]\nmod tests {\n    fn f() { eprintln!() }\n}";
    check(
        "src/step/build.rs",
        text,
        &[
            "src/step/build.rs:3: only `cli` may use `println!`",
            "src/step/build.rs:1: only `cli` may use `std::env`",
            "src/step/build.rs:4: only `cli` may use `process::exit`",
        ],
    );
    check("src/cli/mod.rs", text, &[]);
    check("src/step/tests.rs", text, &[]);
}

#[test]
fn unfinished_work_is_found() {
    let mark = concat!("FIX", "ME");
    let text = format!("fn f() {{ todo!() }}\n#[ignore]\nfn g() {{ dbg!(1); unimplemented!() }}\n// {mark}");
    let found = ["1: todo!", "3: unimplemented!", "3: dbg!", "2: #[ignore", &format!("4: {mark}")];
    let found = found.map(|report| format!("benches/b.rs:{report}"));
    check("benches/b.rs", &text, &found.each_ref().map(String::as_str));
}

#[test]
fn paths_of_one_machine_are_found_in_any_file() {
    let text = format!("a = 1\nb = \"{}x\"", concat!("/ho", "me/"));
    check("models/x.toml", &text, &["models/x.toml:2: a path of one machine"]);
}

#[test]
fn strangers_at_the_top_level_are_found() {
    let found = top_level(["Cargo.toml", "target", "src", "notes.md"], "/target\n/out\n");
    assert_eq!(found, ["notes.md: not at the top level"]);
}
