use std::{collections::BTreeMap, ops::Range, time::SystemTime};

use serde_json::{Map, Value};

use super::{
    DataError, Message, TemplateInputs, generation,
    jinja::{self, Template},
};
use crate::base::{Diagnostic, Location};

/// End of a rendered conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After the last message, for training.
    Closed,
    /// With the opening of the assistant's turn, for generation.
    Prompt,
}

/// The chat template of a model: a Jinja template that renders a conversation as text, as `apply_chat_template` of
/// Hugging Face transformers does (`utils/chat_template_utils.py`).
///
/// ```
/// use std::{collections::BTreeMap, time::SystemTime};
///
/// use hloom::data::{ChatTemplate, Ending, Message, MessageRole, TemplateInputs};
///
/// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}\
///               {% if add_generation_prompt %}<assistant>{% endif %}";
/// let eos = BTreeMap::from([("eos_token".to_owned(), "</s>".to_owned())]);
/// let template = ChatTemplate::new(source, eos, SystemTime::now())?;
/// let messages = [Message::new(MessageRole::User, "Hi")];
/// let prompt = template.render(&messages, &TemplateInputs::default(), Ending::Prompt)?;
/// assert_eq!(prompt, "<user>Hi</s><assistant>");
/// # Ok::<(), hloom::data::DataError>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    origin: TemplateOrigin,
    source: String,
    template: Template,
    special_tokens: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// Parses a template. `special_tokens` (`bos_token`, `eos_token` ...) are variables of it, and `strftime_now` formats
    /// `now` in UTC; a resumed run passes the time at which it began.
    ///
    /// # Errors
    /// [`DataError::ChatTemplate`] if the source is not a valid Jinja template.
    pub fn new(
        source: &str,
        special_tokens: BTreeMap<String, String>,
        now: SystemTime,
    ) -> Result<Self, DataError> {
        Self::from_origin(TemplateOrigin::Text, source, special_tokens, now)
    }

    /// As [`Self::new`], with the origin of the template for the locations of errors.
    pub(super) fn from_origin(
        origin: TemplateOrigin,
        source: &str,
        special_tokens: BTreeMap<String, String>,
        now: SystemTime,
    ) -> Result<Self, DataError> {
        let template = Template::parse(source, now).map_err(|error| origin.locate(error))?;
        Ok(Self { origin, source: source.to_owned(), template, special_tokens })
    }

    /// Whether `name` occurs in the source. If not, the template cannot use a variable or a key of that name.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.source.contains(name)
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// As [`Self::render_with`].
    pub fn render(
        &self,
        messages: &[Message],
        inputs: &TemplateInputs,
        ending: Ending,
    ) -> Result<String, DataError> {
        self.render_with(variables(messages, inputs, ending))
    }

    /// Byte ranges of the `{% generation %}` blocks in `text`, which is the conversation rendered with [`Ending::Closed`];
    /// `None` if the template has no such blocks, or they cannot be found.
    pub(super) fn generation_blocks(
        &self,
        messages: &[Message],
        inputs: &TemplateInputs,
        text: &str,
    ) -> Option<Vec<Range<usize>>> {
        if !self.template.has_generation() {
            return None;
        }
        let variables = self.with_special_tokens(variables(messages, inputs, Ending::Closed));
        let marked = self.template.render_marked(&variables, generation::MARKS).ok()?;
        generation::blocks(text, &marked)
    }

    /// Renders the template with any variables, which replace special tokens of the same names.
    ///
    /// # Errors
    /// [`DataError::ChatTemplate`] if the template raises an error, or exceeds a limit on its steps, its memory, or the
    /// depth of calls and values.
    pub fn render_with(&self, variables: Map<String, Value>) -> Result<String, DataError> {
        self.template.render(&self.with_special_tokens(variables)).map_err(|error| self.origin.locate(error))
    }

    fn with_special_tokens(&self, variables: Map<String, Value>) -> Map<String, Value> {
        let tokens =
            self.special_tokens.iter().map(|(key, token)| (key.clone(), Value::from(token.as_str())));
        let mut all: Map<String, Value> = tokens.collect();
        all.extend(variables);
        all
    }
}

/// The variables that transformers passes to a template.
fn variables(messages: &[Message], inputs: &TemplateInputs, ending: Ending) -> Map<String, Value> {
    let messages = messages.iter().map(|message| Value::Object(message.fields().clone())).collect();
    let mut variables = inputs.kwargs.clone();
    variables.extend([
        ("messages".to_owned(), Value::Array(messages)),
        ("tools".to_owned(), inputs.tools.clone().unwrap_or_default()),
        ("documents".to_owned(), inputs.documents.clone().unwrap_or_default()),
        ("add_generation_prompt".to_owned(), Value::Bool(ending == Ending::Prompt)),
    ]);
    variables
}

/// Where a chat template was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplateOrigin {
    /// A string that the caller passed.
    Text,
    /// A file of its own.
    File(String),
    /// `chat_template` of `tokenizer_config.json`, with its name where there are several.
    Config(Option<String>),
}

impl TemplateOrigin {
    fn locate(&self, error: jinja::Error) -> DataError {
        let source = match self {
            Self::Text => "chat template".to_owned(),
            Self::File(file) => file.clone(),
            Self::Config(None) => "tokenizer_config.json: chat template".to_owned(),
            Self::Config(Some(name)) => format!("tokenizer_config.json: chat template `{name}`"),
        };
        let location = Location { line: error.line, ..Location::file(source) };
        DataError::ChatTemplate(Diagnostic::error(location, error.message))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::data::{
        MessageRole,
        testing::{CHATML, LLAMA31, SMOLLM2},
    };

    fn template(source: &str) -> Result<ChatTemplate, DataError> {
        let special_tokens = [("bos_token", "<|begin_of_text|>"), ("eos_token", "<|eot_id|>")];
        let special_tokens = special_tokens.map(|(key, token)| (key.to_owned(), token.to_owned())).into();
        ChatTemplate::new(source, special_tokens, UNIX_EPOCH + Duration::from_secs(1_721_952_000))
    }

    fn check(source: &str, messages: &[Message], ending: Ending, expect: &str) {
        assert_eq!(
            template(source).unwrap().render(messages, &TemplateInputs::default(), ending).unwrap(),
            expect
        );
    }

    fn check_refused(source: &str, expect: &str) {
        let question = [Message::new(MessageRole::User, "Why?")];
        let render =
            |template: ChatTemplate| template.render(&question, &TemplateInputs::default(), Ending::Closed);
        let error = template(source).and_then(render).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn smollm2_prompts_are_those_of_transformers() {
        for question in [
            "What is the capital of France?",
            "Name three primary colors.",
            "Write one sentence about the sea.",
        ] {
            let expect = format!(
                "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
                 <|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            );
            check(SMOLLM2, &[Message::new(MessageRole::User, question)], Ending::Prompt, &expect);
        }
    }

    #[test]
    fn a_template_like_llama31_renders_with_date_and_trimmed_turns() {
        let messages = [
            Message::new(MessageRole::System, " Be brief. "),
            Message::new(MessageRole::User, "Why?\n"),
            Message::new(MessageRole::Assistant, " Because. "),
        ];
        let expect = "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n\
            Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|>\
            <|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>\
            <|start_header_id|>assistant<|end_header_id|>\n\nBecause.<|eot_id|>";
        check(LLAMA31, &messages, Ending::Closed, expect);
        let prompt = format!("{expect}<|start_header_id|>assistant<|end_header_id|>\n\n");
        check(LLAMA31, &messages, Ending::Prompt, &prompt);
    }

    #[test]
    fn generation_marks_and_loop_controls_are_known() {
        let source = "{% for message in messages %}\n  {%- if loop.index > 1 %}{% break %}{% endif %}\n\
            {%- generation %} {{ message.content }} {%- endgeneration %}\n{% endfor %}\n";
        let messages = [Message::new(MessageRole::User, "a"), Message::new(MessageRole::User, "b")];
        check(source, &messages, Ending::Closed, " a");
    }

    #[test]
    fn variables_that_transformers_passes_are_defined() {
        let source = "{{ tools is none }} {{ documents is defined }} {{ pad_token is defined }} {{ none }}";
        check(source, &[], Ending::Closed, "True True False None");
        check(CHATML, &[], Ending::Prompt, "<|im_start|>assistant\n");
    }

    #[test]
    fn an_invalid_template_is_an_error_with_its_line() {
        check_refused("a\n{% if %}", "chat template:2: expected an expression, found end of statement block");
        check_refused(
            "{{ raise_exception('roles must alternate') }}",
            "chat template:1: roles must alternate",
        );
        check_refused("{{ 'a' | nothing }}", "chat template:1: No filter named 'nothing'.");
        check_refused("{{ strftime_now('%Q') }}", "chat template:1: unsupported: date field: %Q");
    }
}
