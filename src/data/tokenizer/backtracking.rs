//! Regular expressions of tokenizer.json that may backtrack.
//!
//! The tokenizers library searches with `fancy_regex`, which gives a search up after a million steps back; the library
//! then leaves the rest of the text uncut, without an error. Such texts are refused here.

use std::time::{Duration, Instant};

use fancy_regex::{Error, Regex, RuntimeError};
use serde_json::Value;

/// Time that the searches of a text may take, and what is added to it for each byte: a hundred times what the patterns of
/// common models take.
const MAX_TIME: Duration = Duration::from_secs(1);
const MAX_TIME_OF_BYTE: Duration = Duration::from_micros(10);

/// A pattern that `regex` would not search in linear time.
#[derive(Debug)]
pub(super) struct Backtracking {
    component: &'static str,
    regex: Regex,
}

/// Adds the patterns in a component and in those inside it.
pub(super) fn collect(component: &'static str, value: &Value, patterns: &mut Vec<Backtracking>) {
    for key in ["normalizers", "pretokenizers"] {
        let inner = value.get(key).and_then(Value::as_array).into_iter().flatten();
        inner.for_each(|inner| collect(component, inner, patterns));
    }
    let pattern = value.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
    // What `regex` takes is searched by it, without a step back. What neither takes the library refuses.
    if let Some(pattern) = pattern.filter(|pattern| regex::Regex::new(pattern).is_err())
        && let Ok(regex) = Regex::new(pattern)
    {
        patterns.push(Backtracking { component, regex });
    }
}

/// Searches `text` as the library will, to find whether it would give up or take too long.
pub(super) fn check(patterns: &[Backtracking], text: &str) -> Result<(), String> {
    let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let limit = MAX_TIME + MAX_TIME_OF_BYTE * bytes;
    let start = Instant::now();
    for Backtracking { component, regex } in patterns {
        let refused = |what: &str| {
            Err(format!(
                "`{component}` of tokenizer.json: the regular expression `{regex}` {what} in a text of {bytes} bytes"
            ))
        };
        for found in regex.find_iter(text) {
            match found {
                Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) => {
                    return refused("backtracks more than a million times");
                }
                Err(Error::RuntimeError(RuntimeError::StackOverflow)) => {
                    return refused("keeps more than a million steps to go back to");
                }
                Err(error) => return refused(&format!("fails with `{error}`")),
                Ok(_) if start.elapsed() > limit => {
                    return refused(&format!("takes longer than {:.1} s", limit.as_secs_f64()));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}
