use serde_json::{Map, Value};

/// Roles of messages that this crate writes or treats specially. A message of the data may have any of
/// [`Message::KNOWN_ROLES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageRole {
    /// Author of instructions to the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl MessageRole {
    /// Every role.
    pub const ALL: [MessageRole; 3] = [Self::System, Self::User, Self::Assistant];

    /// Name in data and templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation: the JSON object that is passed to the chat template, as by `apply_chat_template` of
/// Hugging Face transformers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    fields: Map<String, Value>,
    learned: bool,
}

impl Message {
    /// Roles that chat templates distinguish.
    pub const KNOWN_ROLES: [&str; 8] =
        ["system", "developer", "user", "assistant", "tool", "ipython", "observation", "function"];

    /// Keys for the reasoning of a message, the standard one first.
    const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

    /// A message of `role` with a string as its content.
    pub fn new(role: MessageRole, content: impl Into<String>) -> Self {
        let fields = [("role", role.name().to_owned()), ("content", content.into())];
        Self::from_fields(fields.map(|(key, text)| (key.to_owned(), Value::from(text))).into_iter().collect())
    }

    /// A message with these keys. As in transformers, keys whose value is null are dropped, and reasoning under any of its
    /// keys is passed as both `reasoning_content` and `thinking`.
    pub fn from_fields(fields: Map<String, Value>) -> Self {
        let mut fields: Map<String, Value> =
            fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
        if let Some(reasoning) = Self::REASONING.iter().find_map(|&key| fields.get(key)).cloned() {
            if !fields.contains_key("thinking") {
                fields.shift_insert(0, "thinking".to_owned(), reasoning.clone());
            }
            fields.insert("reasoning_content".to_owned(), reasoning);
        }
        let learned = fields.get("role").and_then(Value::as_str) == Some(MessageRole::Assistant.name());
        Self { fields, learned }
    }

    /// The same message as context only, without labels.
    pub fn not_learned(self) -> Self {
        Self { learned: false, ..self }
    }

    /// Name of the role; empty if the message has none.
    pub fn role(&self) -> &str {
        self.fields.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether its tokens are labels. By default, those of the assistant's messages are.
    pub fn is_learned(&self) -> bool {
        self.learned
    }

    /// Keys and values for the chat template.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

/// Inputs of a chat template besides the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateInputs {
    /// JSON schemas of the tools that the model may call.
    pub tools: Option<Value>,
    /// Documents for retrieval-augmented generation.
    pub documents: Option<Value>,
    /// Further variables, such as `enable_thinking`. They take precedence over special tokens of the same names.
    pub kwargs: Map<String, Value>,
}

/// Messages with the other inputs of the chat template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<Message>,
    /// Further inputs of the template.
    pub inputs: TemplateInputs,
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, inputs: TemplateInputs::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(message: Value, expect: Value) {
        let Value::Object(fields) = message else { panic!("an object") };
        let found = Message::from_fields(fields);
        assert_eq!(Value::from(found.fields().clone()).to_string(), expect.to_string());
    }

    /// The right-hand sides are what transformers 5.24 passes to the template.
    #[test]
    fn a_template_sees_the_fields_that_transformers_passes() {
        check(
            json!({"role": "tool", "name": null, "content": ["a", null], "tool_call_id": "x"}),
            json!({"role": "tool", "content": ["a", null], "tool_call_id": "x"}),
        );
        check(
            json!({"role": "assistant", "content": null, "reasoning": "so", "tool_calls": []}),
            json!({"thinking": "so", "role": "assistant", "reasoning": "so", "tool_calls": [], "reasoning_content": "so"}),
        );
        check(
            json!({"role": "assistant", "thinking": "a", "reasoning_content": "b"}),
            json!({"role": "assistant", "thinking": "a", "reasoning_content": "b"}),
        );
    }

    #[test]
    fn messages_of_the_assistant_are_learned() {
        let answer = Message::new(MessageRole::Assistant, "a");
        assert_eq!((answer.role(), answer.is_learned()), ("assistant", true));
        assert!(!answer.not_learned().is_learned());
        assert!(!Message::new(MessageRole::User, "q").is_learned());
    }
}
