//! The grammar of HLO text, case by case: what XLA's parser reads and refuses, `hlo::raw` reads and refuses.
//!
//! A case is a text after a line `// ---- NAME`. `HLOOM_BLESS=1` rewrites the expected errors in `refused.hlo`.

use std::{collections::HashSet, env, fs, process::Command};

use crate::support::python;
use hloom::hlo::raw;

const ACCEPTED: &str = include_str!("grammar/accepted.hlo");
const REFUSED: &str = include_str!("grammar/refused.hlo");
/// What this version of XLA's parser refuses and other versions write: attributes and fields, which are kept as they are, and elements
/// of tuples without an instruction of their own.
const KEPT: &str = include_str!("grammar/kept.hlo");

const CASE: &str = "// ---- ";
const ERROR: &str = "// error: ";

/// Names and texts of the cases of a file.
fn cases(file: &str) -> Vec<(&str, String)> {
    let (first, rest) = file.split_once(CASE).expect("a file of cases");
    assert_eq!(first, "", "a text in front of the first case");
    let cases: Vec<_> = rest.trim_end_matches('\n').split(&format!("\n{CASE}")).collect();
    let names: HashSet<_> = cases.iter().map(|case| case.lines().next()).collect();
    assert_eq!(names.len(), cases.len(), "each case has a name of its own");
    cases
        .into_iter()
        .map(|case| case.split_once('\n').unwrap_or((case, "")))
        .map(|(name, text)| (name, format!("{text}\n")))
        .collect()
}

/// The errors of a text, each as a line.
fn errors(text: &str) -> Vec<String> {
    let Err(diagnostics) = raw::parse(text, "") else { return vec![] };
    let lines = diagnostics.0.iter().map(|diagnostic| {
        let at = &diagnostic.location;
        let (line, column) = (at.line.unwrap_or(0), at.column.unwrap_or(0));
        let hint = diagnostic.hint.as_ref().map_or(String::new(), |hint| format!("; hint: {hint}"));
        format!("{line}:{column}: {}{hint}", diagnostic.message)
    });
    lines.collect()
}

#[test]
fn accepted_texts_are_read_and_printed() {
    for (name, text) in cases(ACCEPTED).into_iter().chain(cases(KEPT)) {
        let module = raw::parse(text, name).unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"));
        let printed = raw::print(&module);
        let again = raw::parse(printed.clone(), name);
        let again = again.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}\n{printed}"));
        assert_eq!(raw::print(&again), printed, "{name}");
    }
}

#[test]
fn line_ends_of_other_systems_are_line_ends() {
    let text = "HloModule m // c\nENTRY e {\n  // note\n  a = f32[2] parameter(0) // p\n  ROOT b = f32[2] negate(a)\n}\n";
    for line_end in ["\r", "\r\n"] {
        let module = raw::parse(text.replace('\n', line_end), line_end.escape_debug().to_string().as_str());
        let module = module.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(module.num_instructions(), 2);
    }
}

#[test]
fn tuples_of_tuples_do_not_exhaust_memory() {
    let mut text = "ENTRY e { t0 = f32[] parameter(0)".to_owned();
    (1..64).for_each(|n| text.push_str(&format!("\n t{n} = tuple(t{0}, t{0})", n - 1)));
    text.push('}');
    assert!(errors(&text)[0].contains("missing shape of `tuple`"), "{:?}", errors(&text));
}

#[test]
fn refused_texts_are_refused_for_a_reason() {
    let mut blessed = String::new();
    for (name, case) in cases(REFUSED) {
        let text: String = case.split_inclusive('\n').filter(|line| !line.starts_with(ERROR)).collect();
        let found = errors(&text);
        assert!(!found.is_empty(), "{name} is accepted");
        blessed.push_str(&format!("{CASE}{name}\n{text}"));
        blessed.extend(found.iter().map(|error| format!("{ERROR}{error}\n")));
    }
    if env::var_os("HLOOM_BLESS").is_some() {
        fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grammar/refused.hlo"), blessed).unwrap();
    } else {
        assert_eq!(blessed, REFUSED, "HLOOM_BLESS=1 accepts the new errors");
    }
}

#[test]
fn xla_agrees_on_every_case() {
    let Some(python) = python("jax", "HLOOM_JAX_PYTHON") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    let mut files = Vec::new();
    let all = [(ACCEPTED, "read"), (REFUSED, "refused"), (KEPT, "refused")];
    for (file, what) in all {
        for (name, text) in cases(file) {
            let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with(ERROR)).collect();
            let path = folder.path().join(format!("{name}.hlo"));
            fs::write(&path, text).unwrap();
            files.push(path);
            expected.push(format!("{name} {what}"));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/xla_reads.py");
    let output = Command::new(python).arg(script).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}
