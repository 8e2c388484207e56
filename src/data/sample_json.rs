//! Reads a JSON object as a sample: the meaning of its keys, and the keys that are not supported.

use serde_json::{Map, Value};

use super::{Conversation, Message, MessageRole, SampleContent, TemplateInputs};
use crate::base::{Diagnostic, did_you_mean, nearest};

/// A sample and the keys that were ignored.
pub(super) struct ParsedSample {
    pub content: SampleContent,
    pub ignored: Vec<String>,
}

type JsonObject = Map<String, Value>;

const KINDS: [&str; 5] = ["messages", "conversations", "prompt", "completion", "text"];

const PREFERENCE: &str =
    "preference data are not supported; write the better answer as an assistant message or as `completion`";
const MEDIA: &str = "only text is supported; leave out the samples with images, audio or video";
const FUNCTIONS: &str = "write functions as `tools` and calls as `tool_calls` of a message";
const WEIGHT: &str = "leave out the samples that should not count; `weight` 0 in a message excludes that message from the labels";
const LABEL: &str = "write the text to learn as `completion`, or remove the key";
const TOKENIZED: &str = "write the text instead; it is encoded with the model's tokenizer";
const INSTRUCTION: &str =
    "write `instruction` and `input` as `prompt` and `output` as `completion`, or remove the keys";

/// Keys of a sample that would change its meaning and are not supported, each with a hint.
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

/// Keys of a message that would change its meaning and are not supported. All others are passed to the template.
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

/// Keys that only a chat template can use.
const FOR_TEMPLATE: [&str; 4] = ["tools", "documents", "chat_template_kwargs", "system"];

/// Variables that the template receives in any case, and other parameters of `apply_chat_template`.
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

/// Reads a sample. Keys whose value is null count as absent.
///
/// # Errors
/// If the value is not an object in one of the forms of [`SampleContent`], or has a key that is not supported. The
/// error has no location.
pub(super) fn parse(value: Value) -> Result<ParsedSample, Diagnostic> {
    let Value::Object(object) = value else {
        return Err(format!("expected a JSON object, found {}", kind_of(&value)).into());
    };
    let has = |key: &str| object.get(key).is_some_and(|value| !value.is_null());
    let has_pair = has("prompt") || has("completion");
    let kinds = [has("messages"), has("conversations"), has_pair, has("text")];
    match kinds.into_iter().filter(|&is_kind| is_kind).count() {
        0 => return Err(unknown_kind(&object)),
        1 => {}
        _ => {
            let kinds = list(KINDS.into_iter().filter(|key| has(key)));
            let expected =
                "expected one of `messages`, `conversations`, `prompt` with `completion`, and `text`";
            return Err(format!("{expected}, found: {kinds}").into());
        }
    }
    let mut object: JsonObject = object.into_iter().filter(|(_, value)| !value.is_null()).collect();
    refuse_unsupported(&object, UNSUPPORTED)?;
    let content = if has_pair {
        prompt_and_completion(&mut object)?
    } else if let Some(text) = object.shift_remove("text") {
        refuse_for_template(&object, "a `text`")?;
        SampleContent::Text(string(text, "text")?)
    } else {
        let key = if object.contains_key("messages") { "messages" } else { "conversations" };
        let messages = messages(object.shift_remove(key).unwrap_or_default(), key)?;
        SampleContent::Messages(conversation(messages, &mut object)?)
    };
    Ok(ParsedSample { content, ignored: object.into_iter().map(|(key, _)| key).collect() })
}

fn unknown_kind(object: &JsonObject) -> Diagnostic {
    let keys: Vec<&str> = object.keys().map(String::as_str).collect();
    let found = match keys.as_slice() {
        [] => "no keys".to_owned(),
        keys if object.values().all(Value::is_null) => {
            format!("no value but null in {}", list(keys.iter().copied()))
        }
        keys => format!("the keys: {}", list(keys.iter().copied())),
    };
    let has = |key: &str| keys.contains(&key);
    let wrapper = object
        .iter()
        .find(|(_, value)| value.as_array().is_some_and(|items| items.iter().any(Value::is_object)));
    let unsupported = UNSUPPORTED.iter().find(|(key, _)| has(key));
    let hint = if let Some(&(_, hint)) = unsupported {
        Some(hint.to_owned())
    } else if has("role") || has("from") {
        Some("this is a message; put those of one conversation into {\"messages\": [...]}".to_owned())
    } else if let Some(meant) = keys.iter().find_map(|key| nearest(key, KINDS)) {
        Some(format!("did you mean `{meant}`?"))
    } else if let Some((key, _)) = wrapper {
        Some(format!("if the samples are the elements of `{key}`, write only that array"))
    } else {
        None
    };
    let message = format!("expected `messages`, `prompt` and `completion`, or `text`, found {found}");
    Diagnostic { hint, ..message.into() }
}

fn refuse_unsupported(object: &JsonObject, unsupported: &[(&str, &str)]) -> Result<(), Diagnostic> {
    let found: Vec<_> = unsupported.iter().filter(|(key, _)| object.contains_key(*key)).collect();
    let Some((_, hint)) = found.first() else { return Ok(()) };
    let keys = if found.len() == 1 { "key" } else { "keys" };
    let message = format!("unsupported {keys}: {}", list(found.iter().map(|(key, _)| *key)));
    Err(Diagnostic::from(message).with_hint(*hint))
}

/// Rejects keys for a chat template beside text that is not rendered by one.
fn refuse_for_template(object: &JsonObject, kind: &str) -> Result<(), Diagnostic> {
    let keys = list(FOR_TEMPLATE.into_iter().filter(|&key| object.contains_key(key)));
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!("{keys} beside {kind}, which is not rendered by a chat template");
    let hint = "use `messages`, or write the content into the text and remove the key";
    Err(Diagnostic::from(message).with_hint(hint))
}

/// A prompt or a completion.
enum Part {
    Text(String),
    Messages(Vec<Message>),
}

fn part(object: &mut JsonObject, key: &str, keys: &str) -> Result<Part, Diagnostic> {
    match object.shift_remove(key) {
        Some(Value::String(text)) => Ok(Part::Text(text)),
        Some(value @ Value::Array(_)) => messages(value, key).map(Part::Messages),
        Some(other) => Err(format!("expected `{key}` to be a string, found {}", kind_of(&other)).into()),
        None => Err(format!("expected `{key}`, found {keys}").into()),
    }
}

fn prompt_and_completion(object: &mut JsonObject) -> Result<SampleContent, Diagnostic> {
    let keys = list(object.keys().map(String::as_str));
    match (part(object, "prompt", &keys)?, part(object, "completion", &keys)?) {
        (Part::Text(prompt), Part::Text(completion)) => {
            refuse_for_template(object, "a `prompt` and `completion` of text")?;
            Ok(SampleContent::Completion { prompt, completion })
        }
        (Part::Messages(prompt), Part::Messages(_)) if prompt.last().is_some_and(Message::is_learned) => {
            let message = "expected the last message of `prompt` not to be an assistant message";
            Err(message.to_owned().into())
        }
        (Part::Messages(prompt), Part::Messages(completion)) => {
            let given = prompt.into_iter().map(Message::not_learned);
            Ok(SampleContent::Messages(conversation(given.chain(completion).collect(), object)?))
        }
        _ => {
            let message = "expected `prompt` and `completion` to be both strings or both arrays of messages";
            Err(format!("{message}, found a string and an array").into())
        }
    }
}

fn conversation(mut messages: Vec<Message>, object: &mut JsonObject) -> Result<Conversation, Diagnostic> {
    if let Some(system) = object.shift_remove("system") {
        let system = string(system, "system")?;
        if messages.first().is_some_and(|first| first.role() == MessageRole::System.name()) {
            let message = "`system` beside `messages` that begin with a system message";
            let hint = "keep one of the two";
            return Err(Diagnostic::from(message).with_hint(hint));
        }
        if !system.is_empty() {
            messages.insert(0, Message::new(MessageRole::System, system));
        }
    }
    let inputs = TemplateInputs {
        tools: object.shift_remove("tools").map(tools).transpose()?,
        documents: object.shift_remove("documents").map(|found| objects(found, "documents")).transpose()?,
        kwargs: object.shift_remove("chat_template_kwargs").map(kwargs).transpose()?.unwrap_or_default(),
    };
    let assistant = |message: &&Message| message.role() == MessageRole::Assistant.name();
    match messages.iter().position(Message::is_learned) {
        Some(_) if messages.first().as_ref().is_some_and(assistant) => {
            Err("expected a message before the first assistant message, found none".to_owned().into())
        }
        Some(_) => Ok(Conversation { messages, inputs }),
        None if messages.is_empty() => Err("expected at least one message, found none".to_owned().into()),
        None if messages.iter().any(|message| assistant(&message)) => {
            Err("expected an assistant message with `weight` other than 0, found none".to_owned().into())
        }
        None => Err("expected an assistant message, found none".to_owned().into()),
    }
}

/// Reads a list of JSON schemas, or a string with such a list, which TRL accepts as well.
fn tools(value: Value) -> Result<Value, Diagnostic> {
    match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Null) => Ok(Value::Array(vec![])),
            Ok(value) => objects(value, "tools"),
            Err(error) => Err(format!("expected JSON in the string `tools`: {error}").into()),
        },
        value => objects(value, "tools"),
    }
}

fn objects(value: Value, key: &str) -> Result<Value, Diagnostic> {
    let found = match &value {
        Value::Array(items) => match items.iter().find(|item| !item.is_object()) {
            None => return Ok(value),
            Some(other) => format!("an array with {}", kind_of(other)),
        },
        other => kind_of(other).to_owned(),
    };
    Err(format!("expected `{key}` to be an array of JSON objects, found {found}").into())
}

fn kwargs(value: Value) -> Result<JsonObject, Diagnostic> {
    let Value::Object(kwargs) = value else {
        return Err(
            format!("expected `chat_template_kwargs` to be an object, found {}", kind_of(&value)).into()
        );
    };
    let reserved = list(RESERVED_KWARGS.into_iter().filter(|&key| kwargs.contains_key(key)));
    if reserved.is_empty() {
        return Ok(kwargs);
    }
    Err(format!(
        "expected only variables of the template in `chat_template_kwargs`, found reserved names: {reserved}"
    )
    .into())
}

fn messages(value: Value, key: &str) -> Result<Vec<Message>, Diagnostic> {
    let Value::Array(items) = value else {
        return Err(format!("expected `{key}` to be an array, found {}", kind_of(&value)).into());
    };
    let numbered = (1..).zip(items);
    let message = |(number, item)| {
        let within = |diagnostic: Diagnostic| Diagnostic {
            message: format!("message {number}: {}", diagnostic.message),
            ..diagnostic
        };
        message(item).map_err(within)
    };
    numbered.map(message).collect()
}

fn message(value: Value) -> Result<Message, Diagnostic> {
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
        Some(true) if !message.is_learned() => Err(format!(
            "expected `weight` 1 only in assistant messages, found it in a message of role {role}"
        )
        .into()),
        Some(false) => Ok(message.not_learned()),
        _ => Ok(message),
    }
}

/// Reads `weight`, of OpenAI's format, or `train`, of other formats: 0 or 1, false or true.
fn is_learned(key: &str, value: &Value) -> Result<bool, Diagnostic> {
    match (value.as_bool(), value.as_f64()) {
        (Some(learned), _) => Ok(learned),
        (None, Some(0.0)) => Ok(false),
        (None, Some(1.0)) => Ok(true),
        _ => Err(format!("expected `{key}` to be 0 or 1, found {value}").into()),
    }
}

/// Renames the keys `from` and `value` of the ShareGPT format to `role` and `content`.
fn rename_sharegpt(fields: &mut JsonObject) -> Result<(), Diagnostic> {
    let from = string(fields.get("from").cloned().unwrap_or_default(), "from")?;
    let role = match from.as_str() {
        "human" | "user" => "user",
        "gpt" | "assistant" | "chatgpt" | "bot" | "model" => "assistant",
        "system" => "system",
        "tool" | "observation" | "function_response" => "tool",
        _ => {
            let message = format!("expected `from` to be human, gpt, system or tool, found: {from}");
            return Err(Diagnostic::from(message).with_hint(FUNCTIONS));
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

fn unknown_role(role: &str) -> Diagnostic {
    let hint = match role {
        "human" => "did you mean `user`?".to_owned(),
        "gpt" | "bot" | "model" | "ai" | "chatbot" => "did you mean `assistant`?".to_owned(),
        _ => did_you_mean(role, Message::KNOWN_ROLES, "known roles"),
    };
    let message = format!("expected the role system, user, assistant or tool, found: {role}");
    Diagnostic::from(message).with_hint(hint)
}

fn check_part(part: &Value) -> Result<(), Diagnostic> {
    match part.get("type").and_then(Value::as_str) {
        Some(kind) if ["image", "video", "audio"].iter().any(|medium| kind.contains(medium)) => {
            let message = format!("expected only text parts in `content`, found: {kind}");
            Err(Diagnostic::from(message).with_hint(MEDIA))
        }
        _ => Ok(()),
    }
}

fn missing(key: &str, object: &JsonObject) -> Diagnostic {
    format!("expected `{key}`, found {}", list(object.keys().map(String::as_str))).into()
}

fn string(value: Value, key: &str) -> Result<String, Diagnostic> {
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

/// Lists the first keys; an object may have any number of them.
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
    fn check_refused(object: Value, expect: &str) {
        assert_eq!(parse(object).err().map(|diagnostic| diagnostic.message).as_deref(), Some(expect));
    }

    fn conversation_of(object: Value) -> (Conversation, Vec<String>) {
        let Ok(ParsedSample { content: SampleContent::Messages(conversation), ignored }) = parse(object)
        else {
            panic!("a conversation")
        };
        (conversation, ignored)
    }

    #[test]
    fn keys_for_the_template_are_kept_and_ignored_ones_named() {
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
        let learned = |object| -> Vec<bool> {
            conversation_of(object).0.messages.iter().map(Message::is_learned).collect()
        };
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
    fn unsupported_keys_are_named() {
        check_refused(json!({"text": "a", "label": 1, "chosen": "b"}), "unsupported keys: `chosen`, `label`");
        check_refused(
            json!({"text": "a", "tools": []}),
            "`tools` beside a `text`, which is not rendered by a chat template",
        );
        check_refused(
            json!({"messages": [{"role": "assistant", "content": "a", "function_call": {}}]}),
            "message 1: unsupported key: `function_call`",
        );
        check_refused(
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "message 1: expected only text parts in `content`, found: image_url",
        );
    }
}
