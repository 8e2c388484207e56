//! Reads a JSON object as a sample.

use serde_json::Value;

use super::{
    Conversation, Message, MessageRole, SampleContent, TemplateInputs,
    json_fields::{JsonObject, kind_of, list, string},
    message_json::messages,
    unsupported_keys,
};
use crate::base::{Diagnostic, nearest_hint};

/// A sample and the keys that were ignored.
pub(super) struct ParsedSample {
    pub content: SampleContent,
    pub ignored: Vec<String>,
}

const KINDS: [&str; 5] = ["messages", "conversations", "prompt", "completion", "text"];

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
    unsupported_keys::refuse(&object, unsupported_keys::OF_SAMPLE)?;
    let content = if has_pair {
        prompt_and_completion(&mut object)?
    } else if let Some(text) = object.shift_remove("text") {
        reject_for_template(&object, "a `text`")?;
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
    let unsupported = unsupported_keys::OF_SAMPLE.iter().find(|(key, _)| has(key));
    let hint = if let Some(&(_, hint)) = unsupported {
        Some(hint.to_owned())
    } else if has("role") || has("from") {
        Some("this is a message; put those of one conversation into {\"messages\": [...]}".to_owned())
    } else if let Some(hint) = keys.iter().find_map(|key| nearest_hint(key, KINDS)) {
        Some(hint)
    } else if let Some((key, _)) = wrapper {
        Some(format!("if the samples are the elements of `{key}`, write only that array"))
    } else {
        None
    };
    let message = format!("expected `messages`, `prompt` and `completion`, or `text`, found {found}");
    Diagnostic { hint, ..message.into() }
}

/// Rejects keys for a chat template beside text that is not rendered by one.
fn reject_for_template(object: &JsonObject, kind: &str) -> Result<(), Diagnostic> {
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
            reject_for_template(object, "a `prompt` and `completion` of text")?;
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
