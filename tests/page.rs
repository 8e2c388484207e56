//! The page in a browser: `page/check.py` searches, follows links, sorts and compares as a reader does.

use std::{fmt::Write, fs, path::Path, process::Command};

use crate::support::skip;
use hloom::{
    hlo::raw::{self, Module},
    page::{self, CurveBuffer, CurvePoint, MemoryCurve, Stage, Stages},
};

/// The variable that names a browser which is not in the path by one of these names.
const VARIABLE: &str = "HLOOM_CHROMIUM";
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

#[test]
fn a_reader_can_search_follow_sort_and_compare() {
    let Some(chromium) = browser() else { return };
    let before = module(include_str!("page/before.hlo"), "before.hlo");
    let after = module(include_str!("page/after.hlo"), "after.hlo");
    let curve = memory_curve();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, stages: Stages<'_>| {
        fs::write(folder.path().join(name), page::html(&stages)).unwrap();
    };
    let stage = |title, module| Stage { title, module, memory: None };
    write("one.html", Stages::One(Stage { memory: Some(&curve), ..stage("after", &after) }));
    write(
        "two.html",
        Stages::Two { before: stage("before", &before), after: stage("after", &after), pairs: None },
    );
    let large = module(&many_instructions(20_000), "large.hlo");
    write("large.html", Stages::One(stage("large", &large)));
    let shardings = module(include_str!("page/shardings.hlo"), "shardings.hlo");
    write("shardings.html", Stages::One(stage("shardings", &shardings)));

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/check.py");
    let mut command = Command::new("python3");
    // Python would leave its cache in the source tree.
    let output = command.arg("-B").arg(script).arg(chromium).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A browser, or `None` where there is none; then the test is skipped, aloud.
fn browser() -> Option<String> {
    let named = std::env::var(VARIABLE).ok();
    let runs =
        |name: &String| Command::new(name).arg("--version").output().is_ok_and(|run| run.status.success());
    let found = named.into_iter().chain(NAMES.map(str::to_owned)).find(runs);
    if found.is_none() {
        skip(
            "chromium",
            &format!("install Debian's package chromium, or set {VARIABLE} to a Chromium or Chrome"),
        );
    }
    found
}

fn module(text: &str, file: &str) -> Module {
    raw::parse(text, file).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// `input` is in use at all four points, `gathered` at the last two.
fn memory_curve() -> MemoryCurve {
    let point = |(instruction, bytes): (&str, u64)| CurvePoint { instruction: instruction.to_owned(), bytes };
    let points = [("input", 2048), ("loop", 2048), ("gathered", 10240), ("cut", 10240)];
    let buffer = |name: &str, bytes, first| CurveBuffer { name: name.to_owned(), bytes, first, last: 3 };
    MemoryCurve {
        points: points.map(point).into(),
        buffers: vec![buffer("input", 2048, 0), buffer("gathered", 8192, 2)],
    }
}

fn many_instructions(count: usize) -> String {
    let mut text = String::from("ENTRY main {\n  i.0 = f32[8] parameter(0)\n");
    for number in 1..count {
        writeln!(text, "  i.{number} = f32[8] negate(i.{})", number - 1).unwrap();
    }
    text.push('}');
    text
}
