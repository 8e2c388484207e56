//! Regular expressions of `tokenizer.json` that may backtrack.
//!
//! The tokenizers library searches with `fancy_regex`, which stops a search after a million backtracking steps; the library
//! then leaves the rest of the text unsplit, without an error. Such texts are errors here.

use std::time::{Duration, Instant};

use fancy_regex::{Error, Regex, RuntimeError};
use serde_json::Value;

use crate::base::Diagnostic;

/// Limit on the time of the searches in a text, and its increase for each byte: a hundred times what the patterns of common
/// models take.
const MAX_TIME: Duration = Duration::from_secs(1);
const MAX_TIME_OF_BYTE: Duration = Duration::from_micros(10);

/// A pattern that `regex` does not support, as it cannot be searched in linear time.
#[derive(Debug)]
pub(super) struct Backtracking {
    component: &'static str,
    regex: Regex,
}

/// Collects the backtracking patterns of a component and of those nested in it.
pub(super) fn collect(component: &'static str, value: &Value, patterns: &mut Vec<Backtracking>) {
    for key in ["normalizers", "pretokenizers"] {
        let inner = value.get(key).and_then(Value::as_array).into_iter().flatten();
        inner.for_each(|inner| collect(component, inner, patterns));
    }
    let pattern = value.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
    // The library searches with `regex` where it can, and rejects patterns that neither crate supports.
    if let Some(pattern) = pattern.filter(|pattern| regex::Regex::new(pattern).is_err())
        && let Ok(regex) = Regex::new(pattern)
    {
        patterns.push(Backtracking { component, regex });
    }
}

/// Searches `text` as the library does.
///
/// # Errors
/// If a search exceeds the library's limits or takes too long.
pub(super) fn check(patterns: &[Backtracking], text: &str) -> Result<(), Diagnostic> {
    let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let limit = MAX_TIME + MAX_TIME_OF_BYTE * bytes;
    let start = Instant::now();
    for Backtracking { component, regex } in patterns {
        let fails = |how: &str| {
            Err(Diagnostic::from(format!(
                "`{component}` of tokenizer.json: the regular expression `{regex}` {how} in a text of {bytes} bytes"
            )))
        };
        for found in regex.find_iter(text) {
            match found {
                Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) => {
                    return fails("backtracks more than a million times");
                }
                Err(Error::RuntimeError(RuntimeError::StackOverflow)) => {
                    return fails("keeps more than a million backtracking positions");
                }
                Err(error) => return fails(&format!("fails with `{error}`")),
                Ok(_) if start.elapsed() > limit => {
                    return fails(&format!("takes longer than {:.1} s", limit.as_secs_f64()));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}
