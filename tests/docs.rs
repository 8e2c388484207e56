//! The documentation: links resolve, and examples print what the program prints. `HLOOM_BLESS=1` rewrites the examples.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use hloom::mesh::MeshCode;

use crate::support::world::World;

const MESH_CONFIGS: &str = "docs/mesh-configs.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file that is meant for readers, relative to the root.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![];
    for folder in ["", "docs", "hlo-templates", "fuzz", "examples", "tests/files"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
        pages.extend(names.filter(|name| name.extension().is_some_and(|extension| extension == "md")));
    }
    pages.sort();
    pages
}

/// The targets of links, with their lines; text in code fences has none.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = vec![];
    let mut fenced = false;
    for (line, number) in text.lines().zip(1..) {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            links.extend(targets.map(|(target, _)| (number, target)));
        }
    }
    links
}

/// The fragment that a heading is linked by: lower case, punctuation removed, `-` for spaces.
fn fragment(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Links of `page` whose file or heading does not exist.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let mut broken = vec![];
    for (line, target) in links(text) {
        if target.starts_with("https://") {
            continue;
        }
        let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
        let linked =
            if file.is_empty() { root().join(page) } else { root().join(page).parent().unwrap().join(file) };
        let exists = linked.exists()
            && (wanted.is_empty() || {
                let text = fs::read_to_string(&linked).unwrap();
                text.lines().filter(|line| line.starts_with('#')).any(|line| fragment(line) == wanted)
            });
        if !exists {
            broken.push(format!("{}:{line}: {target}", page.display()));
        }
    }
    broken
}

#[test]
fn every_link_resolves() {
    let pages = pages();
    for page in ["README.md", "CONTRIBUTING.md", MESH_CONFIGS, "hlo-templates/README.md"] {
        assert!(pages.iter().any(|found| found == Path::new(page)), "{page}");
    }
    let read = |page: &PathBuf| fs::read_to_string(root().join(page)).unwrap();
    let broken: Vec<String> = pages.iter().flat_map(|page| broken(page, &read(page))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let text = "[a](../README.md) [b](none.md#x)\n```\n[c](code.md)\n```\n[d](#the-format) [e](#no-such)";
    let expected = ["docs/mesh-configs.md:1: none.md#x", "docs/mesh-configs.md:5: #no-such"];
    assert_eq!(broken(Path::new(MESH_CONFIGS), text), expected);
}

/// An example of a problem: `#### CODE`, a mesh config, and a command with what it prints about that code.
struct Example<'a> {
    code: &'a str,
    config: &'a str,
    command: &'a str,
    output: &'a str,
}

fn examples(text: &str) -> Vec<Example<'_>> {
    text.split("\n#### `")
        .skip(1)
        .map(|section| parse(section).unwrap_or_else(|| panic!("{section}")))
        .collect()
}

fn parse(section: &str) -> Option<Example<'_>> {
    let (code, rest) = section.split_once('`')?;
    let (_, rest) = rest.split_once("```toml\n")?;
    let (config, rest) = rest.split_once("```\n\n```text\n$ hloom ")?;
    let (command, rest) = rest.split_once('\n')?;
    let (output, _) = rest.split_once("```")?;
    Some(Example { code, config, command, output })
}

/// The first problem with this code, with its hint, out of what `check` prints.
fn problem(printed: &str, code: &str) -> String {
    let mark = format!("error[{code}]: ");
    let from_first = printed.lines().skip_while(|line| !line.starts_with(&mark));
    let lines = from_first.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with("  "));
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn problems_of_mesh_configs_are_as_the_page_says() {
    let file = root().join(MESH_CONFIGS);
    let text = fs::read_to_string(&file).unwrap();
    let mut now = text.clone();
    let examples = examples(&text);
    for Example { code, config, command, output } in &examples {
        let world = World::new();
        world.write("m.toml", config);
        let ran = world.hloom(command);
        assert_eq!(ran.code, Some(1), "{code}: {}", ran.err);
        let printed = problem(&ran.out, code);
        assert!(!printed.is_empty(), "`{command}` reports no {code}:\n{}", ran.out);
        let block = |output: &str| format!("{config}```\n\n```text\n$ hloom {command}\n{output}```");
        now = now.replacen(&block(output), &block(&printed), 1);
    }
    let documented: BTreeSet<&str> = examples.iter().map(|example| example.code).collect();
    let codes: BTreeSet<&str> = MeshCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(documented, codes);
    if env::var_os("HLOOM_BLESS").is_some() {
        fs::write(&file, now).unwrap();
    } else {
        assert!(now == text, "examples changed; HLOOM_BLESS=1 rewrites them in {MESH_CONFIGS}");
    }
}
