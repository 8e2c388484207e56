//! The HTML file: a skeleton with the style, the data and the scripts.

use super::{data, pairs, program::Stages};

const SKELETON: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/page.css");

/// One script in this order; each file uses those above it.
const SCRIPTS: &[&str] = &[
    include_str!("assets/dom.js"),
    include_str!("assets/table.js"),
    include_str!("assets/program.js"),
    include_str!("assets/shapes.js"),
    include_str!("assets/sharding.js"),
    include_str!("assets/pairs.js"),
    include_str!("assets/state.js"),
    include_str!("assets/outline.js"),
    include_str!("assets/list.js"),
    include_str!("assets/details.js"),
    include_str!("assets/layout.js"),
    include_str!("assets/graph.js"),
    include_str!("assets/collectives.js"),
    include_str!("assets/memory.js"),
    include_str!("assets/summary.js"),
    include_str!("assets/search.js"),
    include_str!("assets/main.js"),
];

/// The page of one module, or of two in step, as one HTML file. Attribute values and constants of more than 4,000 bytes are cut;
/// the page says so where it shows them.
pub fn html(stages: &Stages<'_>) -> String {
    let mut json = String::new();
    let title = match stages {
        Stages::One(stage) => {
            push_json(&mut json, "module-0", &data::module_json(stage));
            stage.title.to_owned()
        }
        Stages::Two { before, after, pairs } => {
            push_json(&mut json, "module-0", &data::module_json(before));
            push_json(&mut json, "module-1", &data::module_json(after));
            let found = pairs.is_none().then(|| pairs::by_name(before.module, after.module));
            let pairs = pairs.or(found.as_deref()).unwrap_or_default();
            push_json(&mut json, "pairs", &data::pairs_json(before.module, after.module, pairs));
            format!("{} and {}", before.title, after.title)
        }
    };
    let script = SCRIPTS.concat();
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    fill(SKELETON, &[("title", &title), ("style", STYLE), ("data", &json), ("script", &script)])
}

/// Adds JSON as an element that no script runs. A `<` in a string is escaped, so that no text ends the element or opens a
/// comment; so are the separators that were no part of a JavaScript string for long.
fn push_json(out: &mut String, id: &str, json: &str) {
    out.reserve(json.len());
    out.push_str("<script type=\"application/json\" id=\"");
    out.push_str(id);
    out.push_str("\">");
    let mut rest = json;
    while let Some(at) = rest.find(['<', '\u{2028}', '\u{2029}']) {
        out.push_str(&rest[..at]);
        let (escape, length) = match &rest[at..] {
            special if special.starts_with('<') => ("\\u003c", 1),
            special if special.starts_with('\u{2028}') => ("\\u2028", 3),
            _ => ("\\u2029", 3),
        };
        out.push_str(escape);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out.push_str("</script>\n");
}

/// Puts values in the places `<!--name-->`, which come in this order.
fn fill(skeleton: &str, values: &[(&str, &str)]) -> String {
    let mut out =
        String::with_capacity(values.iter().map(|(_, value)| value.len()).sum::<usize>() + skeleton.len());
    let mut rest = skeleton;
    for (name, value) in values {
        let (before, after) =
            rest.split_once(&format!("<!--{name}-->")).expect("the skeleton has all places");
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    out
}
