//! Run files: the settings of `hloom train` as TOML, with `-` or `_` in their names.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Home, home::PathLike};
use crate::{
    app::{AppError, settings::Settings},
    base::{Diagnostic, Diagnostics, LineIndex, Location, did_you_mean, read_text},
};

/// Keys without a flag.
const TABLES: [&str; 2] = ["rank-pattern", "alpha-pattern"];

/// Reads a run file.
///
/// # Errors
/// If it cannot be read or is not TOML, or has unknown or invalid settings; with the line.
pub(super) fn read(path: &Path, home: &Home) -> Result<Settings, AppError> {
    let text =
        read_text(path, "settings in TOML").with_context(|| format!("cannot read: {}", path.display()))?;
    Ok(parse(&text, &path.display().to_string(), home)?)
}

/// Reads a run file and drops it.
///
/// # Errors
/// As [`read`].
#[cfg(fuzzing)]
pub fn check_run_file(path: &Path) -> Result<(), AppError> {
    read(path, &Home(None)).map(drop)
}

fn parse(text: &str, file: &str, home: &Home) -> Result<Settings, Diagnostics> {
    let lines = LineIndex::new(text);
    let location = |at: usize| Location::line(file, lines.line(at));
    let wrong = |error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        Diagnostics(vec![Diagnostic::error(location(at), error.message().trim_end())])
    };
    let table = DeTable::parse(text).map_err(wrong)?;
    let (span, table) = (table.span(), table.into_inner());
    let (known, paths) = (known(), paths());
    let mut diagnostics = Diagnostics::default();
    let mut renamed = DeTable::new();
    let mut values = Vec::new();
    for (key, mut value) in table {
        let name = key.get_ref().replace('_', "-");
        let location = location(key.span().start);
        values.push((value.span(), name.clone()));
        if let DeValue::String(path) = value.get_mut()
            && paths.contains(&name)
        {
            match home.expand(path) {
                Ok(expanded) => *path = expanded.into(),
                Err(problem) => diagnostics.push(Diagnostic::error(
                    location.clone().at(key.get_ref().as_ref()),
                    problem.to_string(),
                )),
            }
        }
        if !known.contains(&name) {
            let hint = did_you_mean(&name, known.iter().map(String::as_str), "known settings");
            diagnostics.push(
                Diagnostic::error(location.at(key.get_ref().as_ref()), "unknown setting").with_hint(hint),
            );
        } else if renamed.insert(Spanned::new(key.span(), name.into()), value).is_some() {
            diagnostics.push(Diagnostic::error(location.at(key.get_ref().as_ref()), "duplicate setting"));
        }
    }
    diagnostics.into_result(())?;
    Settings::deserialize(toml::Deserializer::from(Spanned::new(span, renamed))).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let key = values.into_iter().find(|(span, _)| span.contains(&at));
        let location = key.into_iter().fold(location(at), |location, (_, key)| location.at(key));
        Diagnostics(vec![Diagnostic::error(location, plain(error.message().trim_end()))])
    })
}

/// A message without Rust's names for numbers.
fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 4] =
        [("usize", "a whole number"), ("u64", "a whole number"), ("f32", "a number"), ("f64", "a number")];
    let named = WORDS.iter().find_map(|(name, word)| Some((message.strip_suffix(name)?, word)));
    named.map_or_else(|| message.to_owned(), |(before, word)| format!("{before}{word}"))
}

/// The names of the settings that are paths, or may be.
fn paths() -> Vec<String> {
    let flags = Settings::augment_args(clap::Command::new("train"));
    let paths = flags.get_arguments().filter(|flag| PathLike::of(flag).is_some());
    paths.filter_map(|flag| flag.get_long().map(str::to_owned)).collect()
}

/// The names of all settings: those of the flags, and the tables.
fn known() -> Vec<String> {
    let flags = Settings::augment_args(clap::Command::new("train"));
    let names = flags.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned));
    names.chain(TABLES.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        app::{Parsed, settings::Ordered},
        model::Targets,
    };

    fn check_wrong(text: &str, expect: &str) {
        assert_eq!(parse(text, "run.toml", &Home(Some("/me".into()))).unwrap_err().to_string(), expect);
    }

    #[test]
    fn names_may_have_hyphens_or_underscores() {
        let text = "lr = 1\nmax_grad_norm = 0.5\nsave-every = 10\ntargets = [\"q_proj\", \"v_proj\"]\n\
                    [rank_pattern]\nz = 4\na = 2\n";
        let expect = Settings {
            lr: Some(1.0),
            max_grad_norm: Some(0.5),
            save_every: Some(10),
            targets: Some(Parsed(Targets::Names(vec!["q_proj".into(), "v_proj".into()]))),
            rank_pattern: Some(Ordered(vec![("z".into(), 4), ("a".into(), 2)])),
            ..Settings::default()
        };
        assert_eq!(parse(text, "run.toml", &Home(Some("/me".into()))), Ok(expect));
    }

    #[test]
    fn an_unknown_setting_is_an_error_with_its_line() {
        check_wrong(
            "steps = 3\nwarm_up = 1\nmax-grad-nrom = 1\n",
            "run.toml:2: `warm_up`: unknown setting\n  hint: did you mean `warmup`?\n\
             run.toml:3: `max-grad-nrom`: unknown setting\n  hint: did you mean `max-grad-norm`?",
        );
        check_wrong("save-every = 1\nsave_every = 2", "run.toml:2: `save_every`: duplicate setting");
    }

    #[test]
    fn paths_may_begin_with_a_tilde() {
        let text =
            "model = \"~/m\"\ndata = \"~/d.jsonl\"\nout = \"~/o\"\nmesh = \"a/~/b\"\nquestion = \"~/q\"";
        let expect = Settings {
            model: Some("/me/m".into()),
            data: Some("/me/d.jsonl".into()),
            out: Some("/me/o".into()),
            mesh: Some("a/~/b".into()),
            question: Some("~/q".into()),
            ..Settings::default()
        };
        assert_eq!(parse(text, "run.toml", &Home(Some("/me".into()))), Ok(expect));
        check_wrong(
            "\nout = \"~bob/o\"",
            "run.toml:2: `out`: home folders of other users are not expanded: ~bob/o (write `./~bob/o`, or the absolute path)",
        );
    }

    #[test]
    fn an_invalid_value_is_an_error_with_its_line() {
        check_wrong(
            "# settings\nsteps = \"many\"",
            "run.toml:2: `steps`: invalid type: string \"many\", expected a whole number",
        );
        check_wrong(
            "\nschedule = \"cosin\"",
            "run.toml:2: `schedule`: unknown schedule: cosin (did you mean `cosine`?)",
        );
        check_wrong("steps 3", "run.toml:1: key with no value, expected `=`");
    }
}
