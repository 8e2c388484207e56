use std::{collections::BTreeMap, path::Path};

use super::{
    Conversation, DataError,
    error::Problems,
    format,
    order::Shuffle,
    record::{self, Record},
};
use crate::base::{Diagnostic, Location};

/// The rows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The file, as the user named it.
    pub file: String,
    /// Its rows in order; at least one.
    pub rows: Vec<Row>,
    /// What was passed over in the file, to be said once.
    pub warnings: Vec<Diagnostic>,
}

/// One row and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The line, counted from one.
    pub line: usize,
    /// What it says.
    pub kind: RowKind,
}

/// The kinds of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// `{"messages": [{"role", "content"} ...]}`, or `prompt` and `completion` as lists of messages: the assistant's turns
    /// are learned, those of a prompt excepted.
    Messages(Conversation),
    /// `{"prompt", "completion"}` of text: the completion is learned.
    Completion {
        /// Text before what is learned.
        prompt: String,
        /// Text that is learned.
        completion: String,
    },
    /// `{"text"}`: all of it is learned, and no end of sequence is appended.
    Text(String),
}

/// Which rows are kept from training, to measure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// The last rows of the file.
    Last(usize),
    /// Rows chosen at random, the same for the same seed.
    Random {
        /// How many.
        rows: usize,
        /// What the choice depends on.
        seed: u64,
    },
}

impl Rows {
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

    /// One JSON object a line, objects over several lines, or an array of objects, in UTF-8. A byte order mark, CRLF and
    /// blank lines are accepted.
    ///
    /// # Errors
    /// [`DataError::NotRows`] for a file of another format; [`DataError::Rows`] with all lines that are no rows, the first
    /// twenty problems in full; [`DataError::NoRows`] if there is no row at all.
    pub fn parse(file: impl Into<String>, bytes: &[u8]) -> Result<Self, DataError> {
        let file = file.into();
        let mut problems = Problems::of(&file);
        let mut rows = Vec::new();
        let mut ignored = Ignored::default();
        let read = format::read_values(bytes, |line, value| match value.and_then(record::parse) {
            Ok(Record { kind, ignored: keys }) => {
                rows.push(Row { line, kind });
                ignored.count(keys);
            }
            Err(invalid) => problems.push(line, invalid),
        });
        if let Err(format::Foreign { found, hint }) = read {
            return Err(DataError::NotRows { file, found, hint });
        }
        problems.into_result(())?;
        if rows.is_empty() {
            return Err(DataError::NoRows { file });
        }
        let warnings = ignored.into_finding(&file).into_iter().collect();
        Ok(Self { file, rows, warnings })
    }

    /// The rows to train on and those held out, each in file order.
    ///
    /// # Errors
    /// [`DataError::HeldOut`] if no row is held out, or none is left.
    pub fn split(self, held_out: HeldOut) -> Result<(Self, Self), DataError> {
        let Self { file, rows, warnings } = self;
        let n_rows = rows.len();
        let (HeldOut::Last(wanted) | HeldOut::Random { rows: wanted, .. }) = held_out;
        if wanted == 0 || wanted >= n_rows {
            return Err(DataError::HeldOut { file, rows: n_rows, wanted });
        }
        let mut is_held_out = vec![false; n_rows];
        match held_out {
            HeldOut::Last(_) => is_held_out[n_rows - wanted..].fill(true),
            HeldOut::Random { seed, .. } => {
                let order = Shuffle::held_out(seed).permutation(n_rows);
                order.into_iter().take(wanted).for_each(|row| is_held_out[row] = true);
            }
        }
        let (held, train): (Vec<_>, Vec<_>) = rows.into_iter().zip(is_held_out).partition(|&(_, held)| held);
        let rows_of = |part: Vec<(Row, bool)>| part.into_iter().map(|(row, _)| row).collect();
        let train = Self { file: file.clone(), rows: rows_of(train), warnings };
        Ok((train, Self { file, rows: rows_of(held), warnings: vec![] }))
    }
}

/// How many rows have each of the keys that were passed over.
#[derive(Default)]
struct Ignored(BTreeMap<String, usize>);

impl Ignored {
    const SHOWN: usize = 8;

    fn count(&mut self, keys: Vec<String>) {
        keys.into_iter().for_each(|key| *self.0.entry(key).or_default() += 1);
    }

    fn into_finding(self, file: &str) -> Option<Diagnostic> {
        let rows = |n: usize| if n == 1 { "row" } else { "rows" };
        let keys = self.0.iter().take(Self::SHOWN).map(|(key, &n)| format!("`{key}` in {n} {}", rows(n)));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let more = match self.0.len().saturating_sub(Self::SHOWN) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!keys.is_empty())
            .then(|| Diagnostic::error(Location::file(file), format!("ignored keys: {keys}{more}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Message, Role};

    fn text_rows(n: usize) -> Rows {
        let rows = (1..=n).map(|line| Row { line, kind: RowKind::Text(line.to_string()) }).collect();
        Rows { file: "a.jsonl".into(), rows, warnings: vec![] }
    }

    fn check_refused(text: impl AsRef<[u8]>, expect: &str) {
        assert_eq!(Rows::parse("a.jsonl", text.as_ref()).unwrap_err().to_string(), expect);
    }

    #[test]
    fn all_kinds_are_read_through_bom_crlf_and_blank_lines() {
        let text = "\u{feff}{\"text\": \"é\"}\r\n\r\n  \n{\"prompt\": \"a\", \"completion\": \"b\", \"id\": 7}\n\
            {\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"name\": null}, \
            {\"role\": \"assistant\", \"content\": \"a\"}]}";
        let messages = vec![Message::new(Role::User, "q"), Message::new(Role::Assistant, "a")];
        let rows = [
            Row { line: 1, kind: RowKind::Text("é".into()) },
            Row { line: 4, kind: RowKind::Completion { prompt: "a".into(), completion: "b".into() } },
            Row { line: 5, kind: RowKind::Messages(messages.into()) },
        ];
        assert_eq!(Rows::parse("a.jsonl", text.as_bytes()).unwrap().rows, rows);
    }

    #[test]
    fn a_line_that_is_no_row_says_what_was_expected() {
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
            "a.jsonl:1: expected one kind of row, found the keys of several: `prompt`, `text`",
        );
        check_refused(r#"{"prompt": "b"}"#, "a.jsonl:1: expected `completion`, found `prompt`");
        check_refused(r#"{"text": 1}"#, "a.jsonl:1: expected `text` to be a string, found a number");
        check_refused(
            b"{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n",
            "a.jsonl:2: expected UTF-8, found another encoding at byte 11\n  hint: save the file as UTF-8",
        );
    }

    #[test]
    fn a_conversation_that_is_none_says_which_message_is_wrong() {
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
        check_refused(
            r#"[{"role": "user", "content": "q"}]"#,
            "expected a message of the assistant, found none",
        );
        check_refused(
            r#"[{"role": "assistant", "content": "a"}]"#,
            "expected a message before the first of the assistant, found none",
        );
    }

    #[test]
    fn twenty_bad_lines_are_told_and_the_others_counted() {
        let lines: String = (0..25).map(|n| format!("{{\"x{n}\": 1}}\n")).collect();
        let error = Rows::parse("a.jsonl", lines.as_bytes()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 21);
        assert_eq!(error.lines().last(), Some("a.jsonl: 5 more lines are wrong"));
    }

    #[test]
    fn a_file_without_rows_is_an_error() {
        check_refused("\n\r\n", "a.jsonl: expected at least one row, found none");
        let error = Rows::read(Path::new("no/such.jsonl")).unwrap_err();
        assert_eq!(error.to_string(), "no/such.jsonl: cannot be read");
    }

    #[test]
    fn held_out_rows_are_the_last_or_chosen_by_seed() {
        let lines = |rows: &Rows| rows.rows.iter().map(|row| row.line).collect::<Vec<_>>();
        let (train, held) = text_rows(5).split(HeldOut::Last(2)).unwrap();
        assert_eq!((lines(&train), lines(&held)), (vec![1, 2, 3], vec![4, 5]));

        let random = |seed| text_rows(50).split(HeldOut::Random { rows: 5, seed }).unwrap();
        let (train, held) = random(7);
        assert_eq!((train.rows.len(), held.rows.len()), (45, 5));
        assert!(lines(&held).iter().all(|line| !lines(&train).contains(line)));
        assert_eq!(random(7), random(7));
        assert_ne!(random(7), random(8));

        let error = text_rows(5).split(HeldOut::Last(5)).unwrap_err();
        assert_eq!(error.to_string(), "a.jsonl: expected fewer than 5 held-out rows of 5, found: 5");
        assert!(text_rows(5).split(HeldOut::Last(0)).is_err());
    }
}
