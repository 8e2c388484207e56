use std::{collections::BTreeMap, path::Path};

use super::{
    DataError, Sample, file_layout,
    line_diagnostics::LineDiagnostics,
    order::Shuffle,
    sample_json::{self, ParsedSample},
};
use crate::base::{Diagnostic, Location};

/// The samples of a file.
///
/// ```
/// use hloom::data::SampleFile;
///
/// let text = br#"{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
/// {"prompt": "The capital of Norway is", "completion": " Oslo."}
/// "#;
/// let file = SampleFile::parse("samples.jsonl", text)?;
/// assert_eq!(file.samples.len(), 2);
///
/// // Every invalid line is reported, with its number.
/// let error = SampleFile::parse("samples.jsonl", b"{\"promt\": \"a\", \"completion\": \"b\"}").unwrap_err();
/// assert!(error.to_string().contains("samples.jsonl:1"));
/// # Ok::<(), hloom::data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    /// Name of the file, as the user gave it.
    pub file: String,
    /// The samples in file order; at least one.
    pub samples: Vec<Sample>,
    /// Warnings about the file, such as ignored keys.
    pub warnings: Vec<Diagnostic>,
}

/// Selection of the samples that are held out from training for evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// The last samples of the file.
    Last(usize),
    /// A random selection that depends on the seed alone.
    Random {
        /// Number of samples.
        samples: usize,
        /// Seed of the selection.
        seed: u64,
    },
}

impl SampleFile {
    /// Reads a file, see [`Self::parse`].
    ///
    /// # Errors
    /// [`DataError::Unreadable`], or as [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let file = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Self::parse(file, &bytes),
            Err(source) => Err(DataError::Unreadable { file, source }),
        }
    }

    /// Parses UTF-8 text with one JSON object a line, objects over several lines, or an array of objects. A byte order
    /// mark, CRLF and blank lines are accepted.
    ///
    /// # Errors
    /// [`DataError::NotJson`] for a file of another format; [`DataError::InvalidSamples`] with a diagnostic for each of
    /// the first twenty invalid lines; [`DataError::NoSamples`] if the file has no sample.
    pub fn parse(file: impl Into<String>, bytes: &[u8]) -> Result<Self, DataError> {
        let file = file.into();
        let mut diagnostics = LineDiagnostics::of(&file);
        let mut samples = Vec::new();
        let mut ignored = IgnoredKeys::default();
        let read = file_layout::read_values(bytes, |line, value| match value.and_then(sample_json::parse) {
            Ok(ParsedSample { content, ignored: keys }) => {
                samples.push(Sample { line, content });
                ignored.count(keys);
            }
            Err(diagnostic) => diagnostics.push(line, diagnostic),
        });
        if let Err(file_layout::OtherFormat { found, hint }) = read {
            return Err(DataError::NotJson { file, found, hint });
        }
        diagnostics.into_result(())?;
        if samples.is_empty() {
            return Err(DataError::NoSamples { file });
        }
        let warnings = ignored.into_warning(&file).into_iter().collect();
        Ok(Self { file, samples, warnings })
    }

    /// Splits off the held-out samples: returns the samples to train on and those held out, each in file order.
    ///
    /// # Errors
    /// [`DataError::HeldOut`] if the selection is empty, or leaves no sample to train on.
    pub fn split(self, held_out: HeldOut) -> Result<(Self, Self), DataError> {
        let Self { file, samples, warnings } = self;
        let n_samples = samples.len();
        let (HeldOut::Last(requested) | HeldOut::Random { samples: requested, .. }) = held_out;
        if requested == 0 || requested >= n_samples {
            return Err(DataError::HeldOut { file, samples: n_samples, requested });
        }
        let mut is_held_out = vec![false; n_samples];
        match held_out {
            HeldOut::Last(_) => is_held_out[n_samples - requested..].fill(true),
            HeldOut::Random { seed, .. } => {
                let order = Shuffle::held_out(seed).permutation(n_samples);
                order.into_iter().take(requested).for_each(|sample| is_held_out[sample] = true);
            }
        }
        let (held, train): (Vec<_>, Vec<_>) =
            samples.into_iter().zip(is_held_out).partition(|&(_, is_held_out)| is_held_out);
        let samples_of = |half: Vec<(Sample, bool)>| half.into_iter().map(|(sample, _)| sample).collect();
        let train = Self { file: file.clone(), samples: samples_of(train), warnings };
        Ok((train, Self { file, samples: samples_of(held), warnings: vec![] }))
    }
}

/// Number of samples with each ignored key.
#[derive(Default)]
struct IgnoredKeys(BTreeMap<String, usize>);

impl IgnoredKeys {
    const SHOWN: usize = 8;

    fn count(&mut self, keys: Vec<String>) {
        keys.into_iter().for_each(|key| *self.0.entry(key).or_default() += 1);
    }

    fn into_warning(self, file: &str) -> Option<Diagnostic> {
        let samples = |n: usize| if n == 1 { "sample" } else { "samples" };
        let keys = self.0.iter().take(Self::SHOWN).map(|(key, &n)| format!("`{key}` in {n} {}", samples(n)));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let more = match self.0.len().saturating_sub(Self::SHOWN) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!keys.is_empty())
            .then(|| Diagnostic::warning(Location::file(file), format!("ignored keys: {keys}{more}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Message, MessageRole, SampleContent};

    fn text_samples(n: usize) -> SampleFile {
        let text = |line: usize| SampleContent::Text(line.to_string());
        let samples = (1..=n).map(|line| Sample { line, content: text(line) }).collect();
        SampleFile { file: "a.jsonl".into(), samples, warnings: vec![] }
    }

    fn check_refused(text: impl AsRef<[u8]>, expect: &str) {
        assert_eq!(SampleFile::parse("a.jsonl", text.as_ref()).unwrap_err().to_string(), expect);
    }

    #[test]
    fn all_kinds_are_read_through_bom_crlf_and_blank_lines() {
        let text = "\u{feff}{\"text\": \"é\"}\r\n\r\n  \n{\"prompt\": \"a\", \"completion\": \"b\", \"id\": 7}\n\
            {\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"name\": null}, \
            {\"role\": \"assistant\", \"content\": \"a\"}]}";
        let messages = vec![Message::new(MessageRole::User, "q"), Message::new(MessageRole::Assistant, "a")];
        let samples = [
            Sample { line: 1, content: SampleContent::Text("é".into()) },
            Sample {
                line: 4,
                content: SampleContent::Completion { prompt: "a".into(), completion: "b".into() },
            },
            Sample { line: 5, content: SampleContent::Messages(messages.into()) },
        ];
        assert_eq!(SampleFile::parse("a.jsonl", text.as_bytes()).unwrap().samples, samples);
    }

    #[test]
    fn an_invalid_line_says_what_was_expected() {
        check_refused("{\"text\": }", "a.jsonl:1: not JSON at column 10: expected value");
        check_refused("\n{\"text\": \"a", "a.jsonl:2: not JSON at column 11: EOF while parsing a string");
        check_refused(
            "[1]\n[2]",
            "a.jsonl:1: expected a JSON object, found an array (and the same in 1 more line)",
        );
        check_refused(
            "{}",
            "a.jsonl:1: expected `messages`, `prompt` and `completion`, or `text`, found no keys",
        );
        check_refused(
            r#"{"id": 1, "mesages": []}"#,
            "a.jsonl:1: expected `messages`, `prompt` and `completion`, or `text`, found the keys: `id`, `mesages`\n  \
             hint: did you mean `messages`?",
        );
        check_refused(
            r#"{"text": "a", "prompt": "b"}"#,
            "a.jsonl:1: expected one of `messages`, `conversations`, `prompt` with `completion`, and `text`, found: `prompt`, `text`",
        );
        check_refused(r#"{"prompt": "b"}"#, "a.jsonl:1: expected `completion`, found `prompt`");
        check_refused(r#"{"text": 1}"#, "a.jsonl:1: expected `text` to be a string, found a number");
        check_refused(
            b"{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n",
            "a.jsonl:2: expected UTF-8, found another encoding at byte 11\n  hint: save the file as UTF-8",
        );
    }

    #[test]
    fn an_invalid_conversation_says_which_message_is_invalid() {
        let check_refused = |messages: &str, expect: &str| {
            check_refused(format!("{{\"messages\": {messages}}}"), &format!("a.jsonl:1: {expect}"));
        };
        check_refused("3", "expected `messages` to be an array, found a number");
        check_refused("[]", "expected at least one message, found none");
        check_refused("[\"hi\"]", "message 1: expected a JSON object, found a string");
        check_refused(r#"[{"role": "user"}]"#, "message 1: expected `content`, found `role`");
        check_refused(
            r#"[{"role": "user", "content": null}]"#,
            "message 1: expected `content`, found `role`",
        );
        check_refused(
            r#"[{"role": "user", "content": "q"}, {"role": "asistant", "content": "a"}]"#,
            "message 2: expected the role system, user, assistant or tool, found: asistant\n  \
             hint: did you mean `assistant`?",
        );
        check_refused(r#"[{"role": "user", "content": "q"}]"#, "expected an assistant message, found none");
        check_refused(
            r#"[{"role": "assistant", "content": "a"}]"#,
            "expected a message before the first assistant message, found none",
        );
    }

    #[test]
    fn twenty_invalid_lines_are_reported_and_the_others_counted() {
        let lines: String = (0..25).map(|n| format!("{{\"x{n}\": 1}}\n")).collect();
        let error = SampleFile::parse("a.jsonl", lines.as_bytes()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 21);
        assert_eq!(error.lines().last(), Some("a.jsonl: 5 more lines are invalid"));
    }

    #[test]
    fn a_file_without_samples_is_an_error() {
        check_refused("\n\r\n", "a.jsonl: expected at least one sample, found none");
        let error = SampleFile::read(Path::new("no/such.jsonl")).unwrap_err();
        assert_eq!(error.to_string(), "no/such.jsonl: cannot be read");
    }

    #[test]
    fn held_out_samples_are_the_last_or_chosen_by_seed() {
        let lines = |file: &SampleFile| file.samples.iter().map(|sample| sample.line).collect::<Vec<_>>();
        let (train, held) = text_samples(5).split(HeldOut::Last(2)).unwrap();
        assert_eq!((lines(&train), lines(&held)), (vec![1, 2, 3], vec![4, 5]));

        let random = |seed| text_samples(50).split(HeldOut::Random { samples: 5, seed }).unwrap();
        let (train, held) = random(7);
        assert_eq!((train.samples.len(), held.samples.len()), (45, 5));
        assert!(lines(&held).iter().all(|line| !lines(&train).contains(line)));
        assert_eq!(random(7), random(7));
        assert_ne!(random(7), random(8));

        let error = text_samples(5).split(HeldOut::Last(5)).unwrap_err();
        assert_eq!(error.to_string(), "a.jsonl: expected fewer than 5 held-out samples of 5, found: 5");
        assert!(text_samples(5).split(HeldOut::Last(0)).is_err());
    }
}
