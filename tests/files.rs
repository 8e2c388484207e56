//! File tests: input and expected text in one file, under `tests/files/KIND`. `HLOOM_BLESS=1` rewrites the expected text.

mod kinds;
mod step;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use similar::TextDiff;

use kinds::{KINDS, Kind};

/// The line between the input and the expected text.
pub const SEPARATOR: &str = "// ---- expected ----\n";

/// The start of a line with a setting: `//@ key: value`.
const SETTING: &str = "//@ ";

/// Result of a file test. An `Err` is an invalid or failed test.
type TestResult<T> = Result<T, Box<dyn Error>>;

/// Whether a wrong expectation is an error or is replaced.
#[derive(Clone, Copy)]
enum Mode {
    Compare,
    Bless,
}

/// The input of a file test.
struct Input {
    /// File name, as diagnostics print it.
    name: String,
    settings: BTreeMap<String, String>,
    /// The text above the separator. Setting lines are blank, so that lines have the numbers of the file.
    text: String,
}

impl Input {
    /// Reads the settings of `text`, the part of a file above the separator.
    fn read(name: &str, text: &str, known: &[&str]) -> TestResult<Self> {
        let mut input = Self { name: name.to_owned(), settings: BTreeMap::new(), text: String::new() };
        for (line, number) in text.lines().zip(1..) {
            if let Some(setting) = line.strip_prefix(SETTING) {
                let found = setting.split_once(": ").filter(|(key, _)| known.contains(key));
                let Some((key, value)) = found else {
                    let keys = known.join(", ");
                    return Err(
                        format!("{name}:{number}: expected a setting among {keys}, found {setting}").into()
                    );
                };
                if input.settings.insert(key.to_owned(), value.trim().to_owned()).is_some() {
                    return Err(format!("{name}:{number}: duplicate setting: {key}").into());
                }
            } else {
                input.text.push_str(line);
            }
            input.text.push('\n');
        }
        Ok(input)
    }

    fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The value of a setting with names for its values.
    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)], default: T) -> TestResult<T> {
        let Some(value) = self.setting(key) else { return Ok(default) };
        let found = choices.iter().find(|(name, _)| *name == value);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            format!("{}: expected {key} to be one of {names}, found {value}", self.name).into()
        })
    }

    /// The numbers of a setting, separated by commas.
    fn numbers(&self, key: &str) -> TestResult<Vec<usize>> {
        let texts = self.setting(key).into_iter().flat_map(|value| value.split(','));
        texts
            .map(|text| {
                text.trim()
                    .parse()
                    .map_err(|_| format!("{}: expected {key} to be numbers, found {text}", self.name).into())
            })
            .collect()
    }
}

/// Runs one file test.
fn run(path: &Path, kind: &Kind, mode: Mode) -> TestResult<()> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("the file name is not UTF-8")?;
    let content = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let (above, expected) = match content.split_once(SEPARATOR) {
        Some((above, expected)) => (above, Some(expected)),
        None => (content.as_str(), None),
    };
    let input = Input::read(name, above, kind.settings)?;
    let mut found = (kind.run)(&input)?;
    found.truncate(found.trim_end().len());
    found.push('\n');
    match mode {
        Mode::Compare => compare(name, expected, &found),
        Mode::Bless if expected == Some(&found) => Ok(()),
        Mode::Bless => fs::write(path, format!("{}\n\n{SEPARATOR}{found}", above.trim_end()))
            .map_err(|error| format!("{name}: {error}").into()),
    }
}

/// Reports a difference of the expected and the found text as a unified diff.
fn compare(name: &str, expected: Option<&str>, found: &str) -> TestResult<()> {
    let hint = "hint: HLOOM_BLESS=1 writes the found text; read the diff before you commit it";
    match expected {
        None => Err(format!("{name}: no expected text\n{hint}").into()),
        Some(expected) if expected == found => Ok(()),
        Some(expected) => {
            let diff = TextDiff::from_lines(expected, found);
            let diff = diff.unified_diff().context_radius(3).header("expected", "found").to_string();
            Err(format!("{name}:\n{diff}{hint}").into())
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// The files with tests of this kind, sorted.
fn files(kind: &Kind) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder().join(kind.name)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs every file with tests of a kind, and reports all that fail.
#[track_caller]
fn check(name: &str) {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    let mode = if env::var_os("HLOOM_BLESS").is_some() { Mode::Bless } else { Mode::Compare };
    let files = files(kind);
    assert!(files.len() > 1, "expected at least two files of the kind {name}");
    let failures = files.iter().filter_map(|path| run(path, kind, mode).err());
    let failures: Vec<String> = failures.map(|error| error.to_string()).collect();
    assert!(failures.is_empty(), "tests/files/{name}:\n{}", failures.join("\n\n"));
}

#[test]
fn read() {
    check("read");
}

#[test]
fn round_trip() {
    check("round_trip");
}

#[test]
fn proto() {
    check("proto");
}

#[test]
fn stablehlo() {
    check("stablehlo");
}

#[test]
fn autodiff() {
    check("autodiff");
}

#[test]
fn annotation() {
    check("annotation");
}

#[test]
fn lowering() {
    check("lowering");
}

#[test]
fn host_offload() {
    check("host_offload");
}

#[test]
fn every_folder_is_a_kind_and_has_only_file_tests() {
    for entry in fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name();
        assert!(KINDS.iter().any(|kind| kind.name == name), "unknown kind: {}", name.display());
    }
    for path in KINDS.iter().flat_map(files) {
        assert_eq!(path.extension().unwrap(), "hlo", "{}", path.display());
    }
}

/// For every kind, a file that expects another last line fails, and blessing restores it.
#[test]
fn a_changed_expectation_fails_and_is_blessed() {
    let scratch = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let original = files(kind).pop().unwrap();
        let name = original.file_name().unwrap().to_str().unwrap();
        let content = fs::read_to_string(&original).unwrap();
        assert!(content.contains(SEPARATOR), "{name}: no expected text");
        let copy = scratch.path().join(name);
        let (others, last_line) = content.trim_end().rsplit_once('\n').unwrap();
        fs::write(&copy, format!("{others}\nchanged {last_line}\n")).unwrap();
        let error = run(&copy, kind, Mode::Compare).unwrap_err().to_string();
        let difference = format!("\n-changed {last_line}\n+{last_line}\nhint: HLOOM_BLESS=1 ");
        assert!(error.starts_with(&format!("{name}:\n--- expected\n+++ found\n@@ ")), "{error}");
        assert!(error.contains(&difference), "{error}");
        run(&copy, kind, Mode::Bless).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), content, "{name}");
    }
}

#[test]
fn a_file_without_expected_text_fails_and_is_blessed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("new.hlo");
    let kind = KINDS.iter().find(|kind| kind.name == "round_trip").unwrap();
    fs::write(&path, "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n").unwrap();
    let error = run(&path, kind, Mode::Compare).unwrap_err().to_string();
    assert!(error.starts_with("new.hlo: no expected text\nhint: HLOOM_BLESS=1 "), "{error}");
    run(&path, kind, Mode::Bless).unwrap();
    run(&path, kind, Mode::Compare).unwrap();
    let blessed = fs::read_to_string(&path).unwrap();
    assert!(blessed.ends_with("\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"), "{blessed}");
}

#[test]
fn invalid_settings_are_reported_with_their_line() {
    let check = |text: &str, expect: &str| {
        let error = Input::read("x.hlo", text, &["wrt", "save"]).err().unwrap();
        assert_eq!(error.to_string(), expect);
    };
    check("\n//@ wrong: 1\n", "x.hlo:2: expected a setting among wrt, save, found wrong: 1");
    check("//@ wrt 1\n", "x.hlo:1: expected a setting among wrt, save, found wrt 1");
    check("//@ wrt: 1\n//@ wrt: 1\n", "x.hlo:2: duplicate setting: wrt");
}
