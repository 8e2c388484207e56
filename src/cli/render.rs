//! Formats errors, setting names, byte counts and durations for people.

use std::{
    error::Error,
    io::{self, Write},
    time::Duration,
};

use crate::{
    app::AppError,
    base::{Diagnostic, Setting, Severity},
};

/// Formats an error with its causes and its hint; of an error that is a list of diagnostics, each diagnostic in turn.
pub(super) fn error(error: &AppError) -> String {
    let mut text = String::new();
    let mut line = |line: String| text.push_str(&(flags(&line) + "\n"));
    match error.diagnostics() {
        Some(diagnostics) => diagnostics.iter().for_each(|one| line(diagnostic(one))),
        None => {
            let message = error.to_string();
            line(format!("error: {message}"));
            let mut previous = message;
            let mut cause = error.source();
            while let Some(error) = cause {
                let message = error.to_string();
                if !previous.contains(&message) {
                    line(format!("  caused by: {message}"));
                }
                previous = message;
                cause = error.source();
            }
        }
    }
    if let Some(hint) = error.hint() {
        line(format!("\nhint: {hint}"));
    }
    text
}

/// Writes warnings, one line each.
pub(super) fn write_warnings(err: &mut dyn Write, warnings: &[Diagnostic]) -> io::Result<()> {
    warnings.iter().try_for_each(|warning| writeln!(err, "warning: {}", flags(&warning.to_string())))
}

/// Rewrites the names of settings and commands in a message for the command line: ``setting `lr` `` becomes `--lr`, and
/// ``command `train lr=1e-3` `` becomes `` `hloom train --lr 1e-3` ``.
pub(super) fn flags(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, word, quoted, after)) = next_name(rest) {
        result.push_str(before);
        match (word, quoted.split_once(" = ")) {
            ("setting", None) => result.push_str(&flag(quoted)),
            ("setting", Some((name, value))) => result.push_str(&format!("`{} {value}`", flag(name))),
            _ => {
                let words = quoted.split(' ').map(|word| match word.split_once('=') {
                    Some((name, value)) => format!("{} {value}", flag(name)),
                    None => word.to_owned(),
                });
                result.push_str(&format!("`hloom {}`", words.collect::<Vec<_>>().join(" ")));
            }
        }
        rest = after;
    }
    result + rest
}

/// Finds the first ``setting `...` `` or ``command `...` ``: the text before it, its keyword, the name in backquotes and the
/// text after it.
fn next_name(text: &str) -> Option<(&str, &str, &str, &str)> {
    let found = ["setting", "command"].into_iter().filter_map(|word| {
        let (before, after) = text.split_once(&format!("{word} `"))?;
        let (quoted, after) = after.split_once('`')?;
        Some((before, word, quoted, after))
    });
    found.min_by_key(|(before, ..)| before.len())
}

/// `--name` for a setting in lower case. Settings in capitals are positional arguments; they and other names are unchanged.
fn flag(name: &str) -> String {
    let is_setting = Setting::ALL.iter().any(|setting| setting.name() == name);
    if is_setting && name.chars().any(char::is_lowercase) { format!("--{name}") } else { name.to_owned() }
}

/// Formats a diagnostic with its severity, which a diagnostic with a code contains already: `error[code]: ...`.
pub(super) fn diagnostic(diagnostic: &Diagnostic) -> String {
    match (diagnostic.code, diagnostic.severity) {
        (Some(_), _) => diagnostic.to_string(),
        (None, Severity::Error) => format!("error: {diagnostic}"),
        (None, Severity::Warning) => format!("warning: {diagnostic}"),
    }
}

/// Formats a number of bytes in decimal units: `1.2 GB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    match unit {
        "bytes" if count == 1 => "1 byte".to_owned(),
        "bytes" => format!("{count} bytes"),
        _ if value < 9.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Formats a duration: `7s`, `3m 05s`, `2h 10m`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

/// Formats a count with its noun: `1 row`, `3 rows`.
pub(super) fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{Diagnostics, Location},
        data::DataError,
        train::TrainError,
    };

    #[test]
    fn a_hint_follows_an_empty_line() {
        let rendered = error(&TrainError::Occupied("out".into()).into());
        let expect = "error: the output folder already contains an adapter: out\n\n\
                      hint: set another folder with --out, or continue the run in it with --resume\n";
        assert_eq!(rendered, expect);
    }

    #[test]
    fn a_cause_that_repeats_the_message_is_omitted() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let io = TrainError::Io { action: "read", path: "run.toml".into(), source };
        assert_eq!(error(&io.into()), "error: cannot read: run.toml\n  caused by: entity not found\n");
        let setting = TrainError::Setting { setting: Setting::Lr, problem: "no".into(), hint: None };
        assert_eq!(error(&setting.into()), "error: --lr: no\n");
    }

    #[test]
    fn each_diagnostic_is_on_a_line_of_its_own() {
        let diagnostic = |line, text: &str| Diagnostic::error(Location::line("a.jsonl", line), text);
        let diagnostics = Diagnostics(vec![diagnostic(1, "no").with_hint("yes"), diagnostic(2, "neither")]);
        let expect = "error: a.jsonl:1: no\n  hint: yes\nerror: a.jsonl:2: neither\n";
        assert_eq!(error(&TrainError::Data(DataError::InvalidSamples(diagnostics)).into()), expect);
    }

    #[test]
    fn bytes_and_durations_are_rounded() {
        let check = |count, expect: &str| assert_eq!(bytes(count), expect);
        check(1, "1 byte");
        check(999, "999 bytes");
        check(1000, "1.0 kB");
        check(62_711_338, "63 MB");
        check(999_900_000, "1.0 GB");
        check(u64::MAX, "18447 PB");
        let check = |seconds, expect: &str| assert_eq!(duration(Duration::from_secs_f64(seconds)), expect);
        check(6.6, "7s");
        check(185.0, "3m 05s");
        check(7800.0, "2h 10m");
        assert_eq!(count(1, "row is", "rows are"), "1 row is");
        assert_eq!(count(3, "row is", "rows are"), "3 rows are");
    }

    #[test]
    fn settings_and_commands_become_flags_and_command_lines() {
        let check = |text: String, expect: &str| assert_eq!(flags(&text), expect);
        check(
            format!("raise {}, or lower {}", Setting::MaxGradNorm, Setting::Lr),
            "raise --max-grad-norm, or lower --lr",
        );
        check(format!("for example {}", Setting::Target.with("cpu:8")), "for example `--target cpu:8`");
        let compile = crate::base::command("compile", &[(Setting::Target, "v5e:2x4")]);
        check(format!("{compile} needs no device"), "`hloom compile --target v5e:2x4` needs no device");
        check(format!("{}: matches no tensor", Setting::Param), "PARAM: matches no tensor");
        check("a setting `of another kind`, a command `x".to_owned(), "a of another kind, a command `x");
    }
}
