//! How errors and numbers look.

use std::{error::Error, time::Duration};

use crate::{
    base::{Diagnostic, Diagnostics, Severity},
    data::DataError,
    step::StepError,
    templates::TemplateError,
    train::TrainError,
    weights::WeightsError,
};

/// An error as the user reads it: what, why, and what to do about it. Several problems stand one under the other.
pub fn error(error: &TrainError) -> String {
    let mut text = String::new();
    let mut line = |line: String| text.push_str(&(line + "\n"));
    match diagnostics(error) {
        Some(diagnostics) => diagnostics.0.iter().for_each(|one| line(diagnostic(one))),
        None => {
            let message = error.to_string();
            line(format!("error: {message}"));
            let mut above = message;
            let mut cause = error.source();
            while let Some(error) = cause {
                let message = error.to_string();
                if !above.contains(&message) {
                    line(format!("  caused by: {message}"));
                }
                above = message;
                cause = error.source();
            }
        }
    }
    if let Some(hint) = error.hint() {
        line(format!("\nhint: {hint}"));
    }
    text
}

/// A diagnostic with its severity, which comes with the code where there is one.
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    match (diagnostic.code, diagnostic.severity) {
        (Some(_), _) => diagnostic.to_string(),
        (None, Severity::Error) => format!("error: {diagnostic}"),
        (None, Severity::Warning) => format!("warning: {diagnostic}"),
    }
}

/// The problems that an error is a list of.
fn diagnostics(error: &TrainError) -> Option<&Diagnostics> {
    match error {
        TrainError::Diagnostics(diagnostics)
        | TrainError::Data(DataError::InvalidSamples(diagnostics))
        | TrainError::Weights(WeightsError::Problems(diagnostics))
        | TrainError::Step(
            StepError::Build(diagnostics) | StepError::Template(TemplateError::Parse(diagnostics)),
        ) => Some(diagnostics),
        _ => None,
    }
}

/// `1.2 GB`; units of a thousand, as shops and `pip` count.
pub fn bytes(count: u64) -> String {
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

/// `7s`, `3m 05s`, `2h 10m`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

/// `1 row`, `3 rows`.
pub fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Diagnostic, Location};

    #[test]
    fn a_hint_stands_apart() {
        let rendered = error(&TrainError::Occupied("out".into()));
        let expect = "error: the output folder already holds an adapter: out\n\n\
                      hint: give another folder with --out, or go on from it with --resume\n";
        assert_eq!(rendered, expect);
    }

    #[test]
    fn causes_are_told_once() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let io = TrainError::Io { action: "read", path: "run.toml".into(), source };
        assert_eq!(error(&io), "error: cannot read: run.toml\n  caused by: entity not found\n");
        let setting = TrainError::Setting { setting: "--lr", problem: "no".into(), hint: None };
        assert_eq!(error(&setting), "error: --lr: no\n");
    }

    #[test]
    fn every_finding_has_its_own_line() {
        let diagnostic = |line, text: &str| Diagnostic::error(Location::line("a.jsonl", line), text);
        let diagnostics = Diagnostics(vec![diagnostic(1, "no").with_hint("yes"), diagnostic(2, "neither")]);
        let expect = "error: a.jsonl:1: no\n  hint: yes\nerror: a.jsonl:2: neither\n";
        assert_eq!(error(&TrainError::Data(DataError::InvalidSamples(diagnostics))), expect);
    }

    #[test]
    fn numbers_are_short() {
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
}
