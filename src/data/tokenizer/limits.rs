//! Limits on the memory and time that `tokenizer.json` may request.

use serde::Deserialize;
use serde_json::Value;

use super::backtracking::{self, Backtracking};
use crate::base::Diagnostic;

/// Nested components, such as a sequence of sequences.
const MAX_DEPTH: usize = 16;
/// Bytes that are added before or after each piece of a text.
const MAX_AFFIX: usize = 16;
/// Bytes with which `Precompiled` may replace a character.
const MAX_REPLACEMENT: usize = 64;
/// Pieces of a template, and ids of each of its special tokens.
const MAX_PIECES: usize = 16;
/// Copies of a subexpression that the counted repetitions of a regular expression expand to.
const MAX_REPETITIONS: u64 = 10_000;
/// Characters of a word that `WordPiece` splits, in quadratic time.
const MAX_WORD: u64 = 1000;
/// Bytes that any text may grow to, and the factor by which longer texts may grow.
const MAX_GROWN: f64 = (1 << 18) as f64;
const MAX_FACTOR: f64 = 4.0;

/// The components of `tokenizer.json` that are checked.
#[derive(Deserialize)]
struct Components {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Option<WordLimits>,
}

#[derive(Deserialize)]
struct WordLimits {
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<u64>,
}

/// Factors by which texts may grow in the normalizer and the decoder, and the patterns that may backtrack.
#[derive(Debug)]
pub(super) struct Limits {
    normalizer: f64,
    decoder: f64,
    backtracking: Vec<Backtracking>,
}

impl Limits {
    /// Checks a text before it is encoded.
    ///
    /// # Errors
    /// If the text may grow too much, or its search takes too many steps.
    pub(super) fn check_encode(&self, text: &str) -> Result<(), Diagnostic> {
        check("normalizer", self.normalizer, text.len())?;
        backtracking::check(&self.backtracking, text)
    }

    /// Checks tokens of `bytes` bytes before they are decoded.
    ///
    /// # Errors
    /// If the text may grow too much.
    pub(super) fn check_decode(&self, bytes: usize) -> Result<(), Diagnostic> {
        check("decoder", self.decoder, bytes)
    }
}

fn check(component: &str, factor: f64, bytes: usize) -> Result<(), Diagnostic> {
    let most = (MAX_FACTOR * bytes as f64).max(MAX_GROWN);
    if factor * bytes as f64 <= most {
        return Ok(());
    }
    Err(format!("`{component}` of tokenizer.json may make {bytes} bytes {factor:.0} times longer").into())
}

/// Checks the components of `tokenizer.json` before the library builds them.
///
/// # Errors
/// If the file is not JSON or a component exceeds a limit.
pub(super) fn read(file: &[u8]) -> Result<Limits, Diagnostic> {
    let Components { normalizer, pre_tokenizer, post_processor, decoder, model } =
        serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let mut limits = Limits { normalizer: 1.0, decoder: 1.0, backtracking: Vec::new() };
    for (name, component, factor) in [
        ("normalizer", &normalizer, &mut limits.normalizer),
        ("pre_tokenizer", &pre_tokenizer, &mut 1.0),
        ("post_processor", &post_processor, &mut 1.0),
        ("decoder", &decoder, &mut limits.decoder),
    ] {
        if let Some(component) = component {
            check_component(component, MAX_DEPTH, factor)
                .map_err(|problem| format!("`{name}`: {problem}"))?;
        }
    }
    for (name, component) in [("normalizer", &normalizer), ("pre_tokenizer", &pre_tokenizer)] {
        if let Some(component) = component {
            backtracking::collect(name, component, &mut limits.backtracking);
        }
    }
    if let Some(model) = model {
        let affixes = [model.continuing_subword_prefix, model.end_of_word_suffix];
        affixes.iter().flatten().try_for_each(|affix| check_affix(affix))?;
        if let Some(found @ MAX_WORD..) = model.max_input_chars_per_word.filter(|&found| found > MAX_WORD) {
            return Err(
                format!("`max_input_chars_per_word`: expected at most {MAX_WORD}, found {found}").into()
            );
        }
    }
    Ok(limits)
}

/// Checks a component and those nested in it; multiplies `growth` by their factors.
fn check_component(component: &Value, depth: usize, growth: &mut f64) -> Result<(), Diagnostic> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("expected at most {MAX_DEPTH} nested components").into());
    };
    for key in ["normalizers", "pretokenizers", "processors", "decoders"] {
        let inner = component.get(key).and_then(Value::as_array).into_iter().flatten();
        for inner in inner {
            check_component(inner, depth, growth)?;
        }
    }
    if let Some(pattern) = component.get("pattern") {
        let regex = pattern.get("Regex").and_then(Value::as_str);
        regex.map_or(Ok(()), check_regex)?;
        if let Some(content) = component.get("content").and_then(Value::as_str) {
            let string = pattern.get("String").and_then(Value::as_str);
            *growth *= replacement_factor(string, regex, content);
        }
    }
    component.get("prepend").and_then(Value::as_str).map_or(Ok(()), check_affix)?;
    if let Some(map) = component.get("precompiled_charsmap").and_then(Value::as_str) {
        check_charsmap(map)?;
    }
    let pieces = component.get("single").and_then(Value::as_array).map_or(0, Vec::len);
    let special = component.get("special_tokens").and_then(Value::as_object);
    let ids = |token: &Value| token.get("ids").and_then(Value::as_array).map_or(0, Vec::len);
    match special.into_iter().flat_map(|tokens| tokens.values()).map(ids).chain([pieces]).max() {
        Some(found) if found > MAX_PIECES => {
            Err(format!("expected a template of at most {MAX_PIECES} tokens, found {found}").into())
        }
        _ => Ok(()),
    }
}

fn check_affix(affix: &str) -> Result<(), Diagnostic> {
    if affix.len() <= MAX_AFFIX {
        return Ok(());
    }
    let found = affix.len();
    Err(format!("expected at most {MAX_AFFIX} bytes before or after a piece of text, found {found}").into())
}

/// Largest number of bytes that a replacement makes of one.
fn replacement_factor(string: Option<&str>, regex: Option<&str>, content: &str) -> f64 {
    let content = content.len() as f64;
    match (string, regex) {
        (Some(string), _) if !string.is_empty() => (content / string.len() as f64).max(1.0),
        (_, Some(regex)) if !may_be_empty(regex) => content.max(1.0),
        _ => 1.0 + content,
    }
}

/// Whether a match may be empty; assumed where a match depends on the text around it.
fn may_be_empty(regex: &str) -> bool {
    let looks_around = ["(?=", "(?!", "(?<", r"\b", r"\B", r"\G"].iter().any(|part| regex.contains(part));
    looks_around || fancy_regex::Regex::new(regex).is_ok_and(|regex| regex.is_match("").unwrap_or(true))
}

/// Checks the counted repetitions, which the library expands, nested ones by their product.
fn check_regex(regex: &str) -> Result<(), Diagnostic> {
    let mut product = 1u64;
    for piece in regex.split('{').skip(1) {
        let counts = piece.split('}').next().unwrap_or_default().split(',');
        let most = counts.filter_map(|count| count.trim().parse::<u64>().ok()).max();
        product = product.saturating_mul(most.unwrap_or(1).max(1));
    }
    if product <= MAX_REPETITIONS {
        return Ok(());
    }
    Err(format!(
        "expected at most {MAX_REPETITIONS} counted repetitions in a regular expression, found {product}"
    )
    .into())
}

/// Checks the replacements of `Precompiled`. The map is the length of a trie of 32-bit units, the trie, and the
/// replacements, each terminated by a zero.
fn check_charsmap(base64: &str) -> Result<(), Diagnostic> {
    let malformed =
        || Diagnostic::from("`precompiled_charsmap`: expected a trie and its replacements in base64");
    let bytes = decode_base64(base64).ok_or_else(malformed)?;
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length < 4 || !length.is_multiple_of(4) || length > rest.len() {
        return Err(malformed());
    }
    let longest = rest[length..].split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    if longest > MAX_REPLACEMENT {
        return Err(format!(
            "`precompiled_charsmap`: expected replacements of at most {MAX_REPLACEMENT} bytes, found {longest}"
        )
        .into());
    }
    Ok(())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes().map(|digit| {
        Some(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    });
    let digits = digits.collect::<Option<Vec<u8>>>()?;
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits =
            group.iter().fold(0u32, |bits, &digit| bits << 6 | u32::from(digit)) << (6 * (4 - group.len()));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn growth(tokenizer: &Value) -> Result<Limits, Diagnostic> {
        read(tokenizer.to_string().as_bytes())
    }

    #[test]
    fn a_component_beyond_a_limit_is_an_error() {
        let check =
            |tokenizer: Value, expect: &str| assert_eq!(growth(&tokenizer).unwrap_err().message, expect);
        let nested = (0..20).fold(
            json!({"type": "Lowercase"}),
            |inner, _| json!({"type": "Sequence", "normalizers": [inner]}),
        );
        check(json!({"normalizer": nested}), "`normalizer`: expected at most 16 nested components");
        check(
            json!({"model": {"type": "BPE", "continuing_subword_prefix": "#".repeat(17)}}),
            "expected at most 16 bytes before or after a piece of text, found 17",
        );
        check(
            json!({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "((?=a){1000}){1000}"}}}),
            "`pre_tokenizer`: expected at most 10000 counted repetitions in a regular expression, found 1000000",
        );
        check(
            json!({"model": {"type": "WordPiece", "max_input_chars_per_word": 1_000_000}}),
            "`max_input_chars_per_word`: expected at most 1000, found 1000000",
        );
        check(
            json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}),
            "`normalizer`: `precompiled_charsmap`: expected a trie and its replacements in base64",
        );
        let pieces: Vec<Value> = (0..17).map(|_| json!({"Sequence": {"id": "A", "type_id": 0}})).collect();
        check(
            json!({"post_processor": {"type": "TemplateProcessing", "single": pieces}}),
            "`post_processor`: expected a template of at most 16 tokens, found 17",
        );
    }

    #[test]
    fn growth_is_bounded() {
        let replace = |pattern: &str, text: &str, content: &str| json!({"type": "Replace", "pattern": {pattern: text}, "content": content});
        let check = |normalizers: &[Value], expect: f64| {
            let found = growth(&json!({"normalizer": {"type": "Sequence", "normalizers": normalizers}}));
            assert_eq!(found.unwrap().normalizer, expect);
        };
        check(&[json!({"type": "Prepend", "prepend": "\u{2581}"}), replace("String", " ", "\u{2581}")], 3.0);
        check(&[replace("Regex", " {2,}", " "), replace("Regex", r"\s+", " ")], 1.0);
        check(&[replace("Regex", "a*", "bb")], 3.0);
        check(&[replace("Regex", r"\b", "bb"), replace("String", "", "bb")], 9.0);
        let doubling: Vec<Value> = (0..20).map(|_| replace("String", "a", "aa")).collect();
        check(&doubling, 1_048_576.0);
        let growth = growth(&json!({"normalizer": {"type": "Sequence", "normalizers": doubling}})).unwrap();
        assert_eq!(
            growth.check_encode(&"a".repeat(100)).unwrap_err().message,
            "`normalizer` of tokenizer.json may make 100 bytes 1048576 times longer"
        );
        assert_eq!((growth.check_encode(""), growth.check_decode(1 << 30)), (Ok(()), Ok(())));
    }
}
