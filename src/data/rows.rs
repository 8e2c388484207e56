use std::path::Path;

use serde_json::{Map, Value};

use super::{Conversation, DataError, Message, Role, error::Problems, order::Shuffle};
use crate::base::nearest;

/// The rows of a JSONL file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The file, as the user named it.
    pub file: String,
    /// Its rows in order; at least one.
    pub rows: Vec<Row>,
}

/// One row and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The line, counted from one.
    pub line: usize,
    /// What it says.
    pub kind: RowKind,
}

/// The three kinds of rows. Further keys of a row, such as an `id`, are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// `{"messages": [{"role", "content"} ...]}`: the assistant's turns are learned.
    Messages(Conversation),
    /// `{"prompt", "completion"}`: the completion is learned.
    Completion {
        /// What is given.
        prompt: String,
        /// What is learned.
        completion: String,
    },
    /// `{"text"}`: all of it is learned, and nothing is appended.
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

    /// One JSON object a line, in UTF-8. A byte order mark, CRLF and blank lines are accepted.
    ///
    /// # Errors
    /// [`DataError::Rows`] with all lines that are no rows, the first twenty in full;
    /// [`DataError::NoRows`] if there is no row at all.
    pub fn parse(file: impl Into<String>, bytes: &[u8]) -> Result<Self, DataError> {
        let file = file.into();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut problems = Problems::of(&file);
        let mut rows = Vec::new();
        for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match parse_row(text) {
                Ok(kind) => rows.push(Row { line, kind }),
                Err(wrong) => problems.push(line, wrong.message, wrong.hint),
            }
        }
        problems.into_result(())?;
        if rows.is_empty() { Err(DataError::NoRows { file }) } else { Ok(Self { file, rows }) }
    }

    /// The rows to train on and those held out, each in file order.
    ///
    /// # Errors
    /// [`DataError::HeldOut`] if no row is held out, or none is left.
    pub fn split(self, held_out: HeldOut) -> Result<(Self, Self), DataError> {
        let Self { file, rows } = self;
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
        Ok((Self { file: file.clone(), rows: rows_of(train) }, Self { file, rows: rows_of(held) }))
    }
}

struct Wrong {
    message: String,
    hint: Option<String>,
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

fn parse_row(text: &[u8]) -> Result<RowKind, Wrong> {
    let text = std::str::from_utf8(text).map_err(|error| Wrong {
        message: format!("expected UTF-8, found another encoding at byte {}", error.valid_up_to() + 1),
        hint: Some("save the file as UTF-8".into()),
    })?;
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let Value::Object(row) = value else {
        return Err(format!("expected a JSON object, found {}", kind_of(&value)).into());
    };
    let has_pair = row.contains_key("prompt") || row.contains_key("completion");
    match (row.get("messages"), has_pair, row.contains_key("text")) {
        (Some(messages), false, false) => {
            parse_messages(messages).map(|messages| RowKind::Messages(messages.into()))
        }
        (None, true, false) => {
            let [prompt, completion] = ["prompt", "completion"].map(|key| string(&row, key));
            Ok(RowKind::Completion { prompt: prompt?, completion: completion? })
        }
        (None, false, true) => Ok(RowKind::Text(string(&row, "text")?)),
        (None, false, false) => Err(unknown_kind(&row)),
        _ => {
            let kinds = KEYS.into_iter().filter(|&key| row.contains_key(key));
            Err(format!("expected one kind of row, found the keys of several: {}", list(kinds)).into())
        }
    }
}

const KEYS: [&str; 4] = ["messages", "prompt", "completion", "text"];

fn unknown_kind(row: &Map<String, Value>) -> Wrong {
    let found = match row.is_empty() {
        true => "no keys".to_owned(),
        false => format!("the keys: {}", list(row.keys().map(String::as_str))),
    };
    let meant = row.keys().find_map(|key| nearest(key, KEYS));
    Wrong {
        message: format!("expected `messages`, `prompt` and `completion`, or `text`, found {found}"),
        hint: meant.map(|key| format!("did you mean `{key}`?")),
    }
}

fn parse_messages(value: &Value) -> Result<Vec<Message>, Wrong> {
    let Value::Array(items) = value else {
        return Err(format!("expected `messages` to be an array, found {}", kind_of(value)).into());
    };
    let messages: Vec<Message> = items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            parse_message(item).map_err(|wrong| {
                let message = format!("message {}: {}", i + 1, wrong.message);
                Wrong { message, ..wrong }
            })
        })
        .collect::<Result<_, _>>()?;
    match messages.first() {
        None => Err("expected at least one message, found none".to_owned().into()),
        Some(_) if messages.iter().all(|message| !message.is_learned()) => {
            Err("expected a message of the assistant, found none".to_owned().into())
        }
        Some(first) if first.is_learned() => {
            Err("expected a message before the first of the assistant, found none".to_owned().into())
        }
        Some(_) => Ok(messages),
    }
}

fn parse_message(value: &Value) -> Result<Message, Wrong> {
    let Value::Object(message) = value else {
        return Err(format!("expected a JSON object, found {}", kind_of(value)).into());
    };
    let (role, content) = (string(message, "role")?, string(message, "content")?);
    let unknown =
        message.iter().filter(|(key, value)| !matches!(key.as_str(), "role" | "content") && !value.is_null());
    let unknown = list(unknown.map(|(key, _)| key.as_str()));
    if !unknown.is_empty() {
        return Err(format!("expected `role` and `content` only, found: {unknown}").into());
    }
    match Role::ALL.into_iter().find(|known| known.name() == role) {
        Some(role) => Ok(Message::new(role, content)),
        None => Err(Wrong {
            message: format!("expected the role system, user or assistant, found: {role}"),
            hint: nearest(&role, Role::ALL.map(Role::name)).map(|name| format!("did you mean `{name}`?")),
        }),
    }
}

fn string(object: &Map<String, Value>, key: &str) -> Result<String, Wrong> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("expected `{key}` to be a string, found {}", kind_of(other)).into()),
        None => Err(format!("expected `{key}`, found {}", list(object.keys().map(String::as_str))).into()),
    }
}

/// The parser's message with the column of the line; its own line number is always one.
fn not_json(error: &serde_json::Error) -> Wrong {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    format!("not JSON at column {}: {reason}", error.column()).into()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn list<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_rows(n: usize) -> Rows {
        let rows = (1..=n).map(|line| Row { line, kind: RowKind::Text(line.to_string()) }).collect();
        Rows { file: "a.jsonl".into(), rows }
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
        check_refused("[1]", "a.jsonl:1: expected a JSON object, found an array");
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
            "message 1: expected `content` to be a string, found null",
        );
        check_refused(
            r#"[{"role": "user", "content": "q"}, {"role": "asistant", "content": "a"}]"#,
            "message 2: expected the role system, user or assistant, found: asistant\n  \
             hint: did you mean `assistant`?",
        );
        check_refused(
            r#"[{"role": "user", "content": "q", "tool_calls": []}]"#,
            "message 1: expected `role` and `content` only, found: `tool_calls`",
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
        let error = Rows::parse("a.jsonl", "x\n".repeat(25).as_bytes()).unwrap_err().to_string();
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
