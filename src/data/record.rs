//! One JSON object as a row: what its keys mean, and which of them cannot be honoured.

use serde_json::{Map, Value};

use super::{Conversation, Message, Role, RowKind, TemplateInputs, error::Invalid};
use crate::base::nearest;

/// A row and those of its keys that were passed over.
pub(super) struct Record {
    pub kind: RowKind,
    pub ignored: Vec<String>,
}

type Object = Map<String, Value>;

const KINDS: [&str; 5] = ["messages", "conversations", "prompt", "completion", "text"];

const PREFERENCE: &str =
    "preference data are not supported; write the better answer as an assistant message or as `completion`";
const MEDIA: &str = "only text is supported; leave out the rows with images, audio or video";
const FUNCTIONS: &str = "write functions as `tools` and calls as `tool_calls` of a message";
const WEIGHT: &str =
    "leave out the rows that should not count; `weight` 0 in a message keeps that message from being learned";
const LABEL: &str = "write what is to be learned as `completion`, or remove the key";
const TOKENIZED: &str = "give the text itself; it is encoded with the model's tokenizer";
const INSTRUCTION: &str =
    "write `instruction` and `input` as `prompt` and `output` as `completion`, or remove the keys";

/// Keys that give a row a meaning that cannot be honoured, and what to do about each.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("chosen", PREFERENCE),
    ("rejected", PREFERENCE),
    ("images", MEDIA),
    ("image", MEDIA),
    ("videos", MEDIA),
    ("video", MEDIA),
    ("audios", MEDIA),
    ("audio", MEDIA),
    ("functions", FUNCTIONS),
    ("function_call", FUNCTIONS),
    ("tool", FUNCTIONS),
    ("tool_calls", FUNCTIONS),
    ("weight", WEIGHT),
    ("weights", WEIGHT),
    ("train", WEIGHT),
    ("mask", WEIGHT),
    ("loss_mask", WEIGHT),
    ("completion_mask", WEIGHT),
    ("label", LABEL),
    ("labels", LABEL),
    ("input_ids", TOKENIZED),
    ("instruction", INSTRUCTION),
    ("input", INSTRUCTION),
    ("output", INSTRUCTION),
];

/// Keys of a message that give it a meaning that cannot be honoured. All others go to the template.
const UNSUPPORTED_IN_MESSAGE: &[(&str, &str)] = &[
    ("function_call", FUNCTIONS),
    ("functions", FUNCTIONS),
    ("images", MEDIA),
    ("image", MEDIA),
    ("videos", MEDIA),
    ("audio", MEDIA),
    ("chosen", PREFERENCE),
    ("rejected", PREFERENCE),
    ("label", LABEL),
    ("mask", WEIGHT),
    ("loss", WEIGHT),
    ("loss_mask", WEIGHT),
    ("loss_weight", WEIGHT),
    ("train_detail", WEIGHT),
];

/// Keys that only a chat template can make use of.
const FOR_TEMPLATE: [&str; 4] = ["tools", "documents", "chat_template_kwargs", "system"];

/// Variables that the template is given anyway, and other parameters of `apply_chat_template`.
const RESERVED_KWARGS: [&str; 10] = [
    "messages",
    "conversation",
    "tools",
    "documents",
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "tokenize",
    "return_assistant_tokens_mask",
    "sanitize_control_tokens",
];

/// Reads a row. Keys whose value is null count as absent.
pub(super) fn parse(value: Value) -> Result<Record, Invalid> {
    let Value::Object(row) = value else {
        return Err(format!("expected a JSON object, found {}", kind_of(&value)).into());
    };
    let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    let has_pair = has("prompt") || has("completion");
    let kinds = [has("messages"), has("conversations"), has_pair, has("text")];
    match kinds.into_iter().filter(|&is_kind| is_kind).count() {
        0 => return Err(unknown_kind(&row)),
        1 => {}
        _ => {
            let kinds = list(KINDS.into_iter().filter(|key| has(key)));
            return Err(format!("expected one kind of row, found the keys of several: {kinds}").into());
        }
    }
    let mut row: Object = row.into_iter().filter(|(_, value)| !value.is_null()).collect();
    refuse_unsupported(&row, UNSUPPORTED)?;
    let kind = if has_pair {
        prompt_and_completion(&mut row)?
    } else if let Some(text) = row.shift_remove("text") {
        refuse_for_template(&row, "a `text`")?;
        RowKind::Text(string(text, "text")?)
    } else {
        let key = if row.contains_key("messages") { "messages" } else { "conversations" };
        let messages = messages(row.shift_remove(key).unwrap_or_default(), key)?;
        RowKind::Messages(conversation(messages, &mut row)?)
    };
    Ok(Record { kind, ignored: row.into_iter().map(|(key, _)| key).collect() })
}

fn unknown_kind(row: &Object) -> Invalid {
    let keys: Vec<&str> = row.keys().map(String::as_str).collect();
    let found = match keys.as_slice() {
        [] => "no keys".to_owned(),
        keys if row.values().all(Value::is_null) => {
            format!("no value but null in {}", list(keys.iter().copied()))
        }
        keys => format!("the keys: {}", list(keys.iter().copied())),
    };
    let has = |key: &str| keys.contains(&key);
    let wrapper =
        row.iter().find(|(_, value)| value.as_array().is_some_and(|rows| rows.iter().any(Value::is_object)));
    let unsupported = UNSUPPORTED.iter().find(|(key, _)| has(key));
    let hint = if let Some(&(_, hint)) = unsupported {
        Some(hint.to_owned())
    } else if has("role") || has("from") {
        Some("this is a message; put those of one conversation into {\"messages\": [...]}".to_owned())
    } else if let Some(meant) = keys.iter().find_map(|key| nearest(key, KINDS)) {
        Some(format!("did you mean `{meant}`?"))
    } else if let Some((key, _)) = wrapper {
        Some(format!("if the rows are the elements of `{key}`, give that array alone"))
    } else {
        None
    };
    let message = format!("expected `messages`, `prompt` and `completion`, or `text`, found {found}");
    Invalid { message, hint }
}

fn refuse_unsupported(object: &Object, unsupported: &[(&str, &str)]) -> Result<(), Invalid> {
    let found: Vec<_> = unsupported.iter().filter(|(key, _)| object.contains_key(*key)).collect();
    let Some((_, hint)) = found.first() else { return Ok(()) };
    let keys = if found.len() == 1 { "key" } else { "keys" };
    let message = format!("unsupported {keys}: {}", list(found.iter().map(|(key, _)| *key)));
    Err(Invalid { message, hint: Some((*hint).to_owned()) })
}

/// Refuses what only a template could write, beside text that goes through none.
fn refuse_for_template(row: &Object, kind: &str) -> Result<(), Invalid> {
    let keys = list(FOR_TEMPLATE.into_iter().filter(|&key| row.contains_key(key)));
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!("{keys} beside {kind}, which goes through no chat template");
    let hint = "use `messages`, or write it into the text itself and remove the key";
    Err(Invalid { message, hint: Some(hint.to_owned()) })
}

/// A prompt or a completion.
enum Part {
    Text(String),
    Messages(Vec<Message>),
}

fn part(row: &mut Object, key: &str, keys: &str) -> Result<Part, Invalid> {
    match row.shift_remove(key) {
        Some(Value::String(text)) => Ok(Part::Text(text)),
        Some(value @ Value::Array(_)) => messages(value, key).map(Part::Messages),
        Some(other) => Err(format!("expected `{key}` to be a string, found {}", kind_of(&other)).into()),
        None => Err(format!("expected `{key}`, found {keys}").into()),
    }
}

fn prompt_and_completion(row: &mut Object) -> Result<RowKind, Invalid> {
    let keys = list(row.keys().map(String::as_str));
    match (part(row, "prompt", &keys)?, part(row, "completion", &keys)?) {
        (Part::Text(prompt), Part::Text(completion)) => {
            refuse_for_template(row, "a `prompt` and `completion` of text")?;
            Ok(RowKind::Completion { prompt, completion })
        }
        (Part::Messages(prompt), Part::Messages(_)) if prompt.last().is_some_and(Message::is_learned) => {
            let message = "expected `prompt` to end before an assistant message, found one at its end";
            Err(message.to_owned().into())
        }
        (Part::Messages(prompt), Part::Messages(completion)) => {
            let given = prompt.into_iter().map(Message::not_learned);
            Ok(RowKind::Messages(conversation(given.chain(completion).collect(), row)?))
        }
        _ => {
            let message = "expected `prompt` and `completion` to be both strings or both arrays of messages";
            Err(format!("{message}, found one of each").into())
        }
    }
}

fn conversation(mut messages: Vec<Message>, row: &mut Object) -> Result<Conversation, Invalid> {
    if let Some(system) = row.shift_remove("system") {
        let system = string(system, "system")?;
        if messages.first().is_some_and(|first| first.role() == Role::System.name()) {
            let message = "`system` beside `messages` that begin with a system message";
            let hint = "keep one of the two";
            return Err(Invalid { message: message.to_owned(), hint: Some(hint.to_owned()) });
        }
        if !system.is_empty() {
            messages.insert(0, Message::new(Role::System, system));
        }
    }
    let inputs = TemplateInputs {
        tools: row.shift_remove("tools").map(tools).transpose()?,
        documents: row.shift_remove("documents").map(|found| objects(found, "documents")).transpose()?,
        kwargs: row.shift_remove("chat_template_kwargs").map(kwargs).transpose()?.unwrap_or_default(),
    };
    let assistant = |message: &&Message| message.role() == Role::Assistant.name();
    match messages.iter().position(Message::is_learned) {
        Some(_) if messages.first().as_ref().is_some_and(assistant) => {
            Err("expected a message before the first of the assistant, found none".to_owned().into())
        }
        Some(_) => Ok(Conversation { messages, inputs }),
        None if messages.is_empty() => Err("expected at least one message, found none".to_owned().into()),
        None if messages.iter().any(|message| assistant(&message)) => {
            Err("expected a message of the assistant to learn, found none".to_owned().into())
        }
        None => Err("expected a message of the assistant, found none".to_owned().into()),
    }
}

/// A list of JSON schemas, or the text of one, as TRL accepts it.
fn tools(value: Value) -> Result<Value, Invalid> {
    match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Null) => Ok(Value::Array(vec![])),
            Ok(value) => objects(value, "tools"),
            Err(error) => Err(format!("expected the text of `tools` to be JSON, found: {error}").into()),
        },
        value => objects(value, "tools"),
    }
}

fn objects(value: Value, key: &str) -> Result<Value, Invalid> {
    let found = match &value {
        Value::Array(items) => match items.iter().find(|item| !item.is_object()) {
            None => return Ok(value),
            Some(other) => format!("an array with {}", kind_of(other)),
        },
        other => kind_of(other).to_owned(),
    };
    Err(format!("expected `{key}` to be an array of JSON objects, found {found}").into())
}

fn kwargs(value: Value) -> Result<Object, Invalid> {
    let Value::Object(kwargs) = value else {
        return Err(
            format!("expected `chat_template_kwargs` to be an object, found {}", kind_of(&value)).into()
        );
    };
    let reserved = list(RESERVED_KWARGS.into_iter().filter(|&key| kwargs.contains_key(key)));
    if reserved.is_empty() {
        return Ok(kwargs);
    }
    Err(format!("expected `chat_template_kwargs` to hold variables of the template, found: {reserved}")
        .into())
}

fn messages(value: Value, key: &str) -> Result<Vec<Message>, Invalid> {
    let Value::Array(items) = value else {
        return Err(format!("expected `{key}` to be an array, found {}", kind_of(&value)).into());
    };
    let numbered = (1..).zip(items);
    let message = |(number, item)| {
        let within = |invalid: Invalid| Invalid {
            message: format!("message {number}: {}", invalid.message),
            ..invalid
        };
        message(item).map_err(within)
    };
    numbered.map(message).collect()
}

fn message(value: Value) -> Result<Message, Invalid> {
    let Value::Object(mut fields) = value else {
        return Err(format!("expected a JSON object, found {}", kind_of(&value)).into());
    };
    if !fields.contains_key("role") && fields.contains_key("from") {
        rename_sharegpt(&mut fields)?;
    }
    fields.retain(|_, value| !value.is_null());
    refuse_unsupported(&fields, UNSUPPORTED_IN_MESSAGE)?;
    let role = match fields.get("role") {
        Some(role) => string(role.clone(), "role")?,
        None => return Err(missing("role", &fields)),
    };
    if !Message::KNOWN_ROLES.contains(&role.as_str()) {
        return Err(unknown_role(&role));
    }
    match fields.get("content") {
        None if fields.len() == 1 => return Err(missing("content", &fields)),
        None | Some(Value::String(_) | Value::Object(_)) => {}
        Some(Value::Array(parts)) => parts.iter().try_for_each(check_part)?,
        Some(other) => {
            return Err(format!(
                "expected `content` to be a string or an array of parts, found {}",
                kind_of(other)
            )
            .into());
        }
    }
    let weights = ["weight", "train"].map(|key| fields.shift_remove(key).map(|value| (key, value)));
    let mut learned = None;
    for (key, value) in weights.into_iter().flatten() {
        learned = Some(is_learned(key, &value)? && learned.unwrap_or(true));
    }
    let message = Message::from_fields(fields);
    match learned {
        Some(true) if !message.is_learned() => {
            Err(format!("expected only messages of the assistant to be learned, found one of: {role}").into())
        }
        Some(false) => Ok(message.not_learned()),
        _ => Ok(message),
    }
}

/// `weight` as OpenAI's format has it, `train` as others have it: all or nothing.
fn is_learned(key: &str, value: &Value) -> Result<bool, Invalid> {
    match (value.as_bool(), value.as_f64()) {
        (Some(learned), _) => Ok(learned),
        (None, Some(0.0)) => Ok(false),
        (None, Some(1.0)) => Ok(true),
        _ => Err(format!("expected `{key}` to be 0 or 1, found {value}").into()),
    }
}

/// `from` and `value`, as ShareGPT has them, become `role` and `content`.
fn rename_sharegpt(fields: &mut Object) -> Result<(), Invalid> {
    let from = string(fields.get("from").cloned().unwrap_or_default(), "from")?;
    let role = match from.as_str() {
        "human" | "user" => "user",
        "gpt" | "assistant" | "chatgpt" | "bot" | "model" => "assistant",
        "system" => "system",
        "tool" | "observation" | "function_response" => "tool",
        _ => {
            let message = format!("expected `from` to be human, gpt, system or tool, found: {from}");
            return Err(Invalid { message, hint: Some(FUNCTIONS.to_owned()) });
        }
    };
    let others = std::mem::take(fields).into_iter().map(|(key, value)| match key.as_str() {
        "from" => ("role".to_owned(), Value::from(role)),
        "value" => ("content".to_owned(), value),
        _ => (key, value),
    });
    *fields = others.collect();
    Ok(())
}

fn unknown_role(role: &str) -> Invalid {
    let hint = match role {
        "human" => Some("user"),
        "gpt" | "bot" | "model" | "ai" | "chatbot" => Some("assistant"),
        _ => nearest(role, Message::KNOWN_ROLES),
    };
    Invalid {
        message: format!("expected the role system, user, assistant or tool, found: {role}"),
        hint: hint.map(|name| format!("did you mean `{name}`?")),
    }
}

fn check_part(part: &Value) -> Result<(), Invalid> {
    match part.get("type").and_then(Value::as_str) {
        Some(kind) if ["image", "video", "audio"].iter().any(|medium| kind.contains(medium)) => {
            let message = format!("expected parts of text in `content`, found: {kind}");
            Err(Invalid { message, hint: Some(MEDIA.to_owned()) })
        }
        _ => Ok(()),
    }
}

fn missing(key: &str, object: &Object) -> Invalid {
    format!("expected `{key}`, found {}", list(object.keys().map(String::as_str))).into()
}

fn string(value: Value, key: &str) -> Result<String, Invalid> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!("expected `{key}` to be a string, found {}", kind_of(&other)).into()),
    }
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

/// The keys, of which there may be as many as the row is long.
fn list<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = keys.take(SHOWN + 1).map(|key| format!("`{key}`")).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "...".to_owned();
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_refused(row: Value, expect: &str) {
        assert_eq!(parse(row).err().map(|invalid| invalid.message).as_deref(), Some(expect));
    }

    fn conversation_of(row: Value) -> (Conversation, Vec<String>) {
        let Ok(Record { kind: RowKind::Messages(conversation), ignored }) = parse(row) else {
            panic!("a conversation")
        };
        (conversation, ignored)
    }

    #[test]
    fn keys_for_the_template_are_kept_and_harmless_ones_named() {
        let messages = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]);
        let tools = json!([{"type": "function"}]);
        let (found, ignored) = conversation_of(json!({
            "id": 1, "messages": messages, "tools": tools.to_string(), "system": "s", "label": null,
            "chat_template_kwargs": {"enable_thinking": false}, "documents": [{"title": "t"}]
        }));
        assert_eq!(ignored, ["id"]);
        assert_eq!((found.messages.len(), found.messages[0].role()), (3, "system"));
        assert_eq!(
            (found.inputs.tools, found.inputs.documents),
            (Some(tools), Some(json!([{"title": "t"}])))
        );
        assert_eq!(found.inputs.kwargs["enable_thinking"], false);
    }

    #[test]
    fn weights_and_prompts_say_what_is_learned() {
        let learned =
            |row| -> Vec<bool> { conversation_of(row).0.messages.iter().map(Message::is_learned).collect() };
        let user = json!({"role": "user", "content": "q"});
        let (answer, skipped) = (
            json!({"role": "assistant", "content": "a"}),
            json!({"role": "assistant", "content": "a", "weight": 0}),
        );
        assert_eq!(learned(json!({"messages": [user, skipped, user, answer]})), [false, false, false, true]);
        assert_eq!(
            learned(json!({"prompt": [user, answer, user], "completion": [answer]})),
            [false, false, false, true]
        );
        let sharegpt = json!([{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]);
        assert_eq!(learned(json!({"conversations": sharegpt})), [false, true]);
    }

    #[test]
    fn keys_that_cannot_be_honoured_are_named() {
        check_refused(json!({"text": "a", "label": 1, "chosen": "b"}), "unsupported keys: `chosen`, `label`");
        check_refused(
            json!({"text": "a", "tools": []}),
            "`tools` beside a `text`, which goes through no chat template",
        );
        check_refused(
            json!({"messages": [{"role": "assistant", "content": "a", "function_call": {}}]}),
            "message 1: unsupported key: `function_call`",
        );
        check_refused(
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "message 1: expected parts of text in `content`, found: image_url",
        );
    }
}
