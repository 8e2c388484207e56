//! Reads JSON objects as messages.

use serde_json::Value;

use super::{
    Message,
    json_fields::{JsonObject, kind_of, missing, string},
    unsupported_keys::{self, FUNCTIONS, MEDIA},
};
use crate::base::{Diagnostic, did_you_mean};

/// Reads the list of messages under a key.
///
/// # Errors
/// If it is not an array, or one of its messages is invalid; the error begins with the number of the message, counted
/// from one.
pub(super) fn messages(value: Value, key: &str) -> Result<Vec<Message>, Diagnostic> {
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
    unsupported_keys::refuse(&fields, unsupported_keys::OF_MESSAGE)?;
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
