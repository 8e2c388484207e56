//! The chat templates of a model, and which of them a conversation uses.

use std::{collections::BTreeMap, time::SystemTime};

use serde_json::{Map, Value};

use super::{ChatTemplate, DataError, TemplateInputs, TokenizerFiles, chat::TemplateOrigin};
use crate::base::{Diagnostic, Location};

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// The named templates of a model, selected as `get_chat_template` of Hugging Face transformers does.
#[derive(Debug)]
pub(super) struct ChatTemplates {
    default: Option<ChatTemplate>,
    tool_use: Option<ChatTemplate>,
    /// Names of all templates, sorted.
    names: Vec<String>,
}

impl ChatTemplates {
    /// Reads the templates in files of their own, or if there are none, those of `tokenizer_config.json`. Only
    /// `default` and `tool_use` are parsed.
    ///
    /// # Errors
    /// [`DataError::ChatTemplate`] if a template does not parse, [`DataError::TokenizerFile`] if `chat_template` of the
    /// config is neither a string nor a list of named strings.
    pub(super) fn read(
        config: &Map<String, Value>,
        files: &TokenizerFiles<'_>,
        special_tokens: &BTreeMap<String, String>,
        now: SystemTime,
    ) -> Result<Self, DataError> {
        let mut sources = of_files(files);
        if sources.is_empty() {
            sources = of_config(config)?;
        }
        let parse = |name: &str| {
            let source = sources.get(name).cloned();
            source
                .map(|(origin, source)| {
                    ChatTemplate::from_origin(origin, source, special_tokens.clone(), now)
                })
                .transpose()
        };
        let (default, tool_use) = (parse(DEFAULT)?, parse(TOOL_USE)?);
        Ok(Self { default, tool_use, names: sources.into_keys().map(str::to_owned).collect() })
    }

    /// The template for conversations with these inputs: `tool_use` if they have tools, else `default`.
    ///
    /// # Errors
    /// [`DataError::NoChatTemplate`] if the model has no template, [`DataError::NoDefaultTemplate`] if it has only
    /// others.
    pub(super) fn of(&self, inputs: &TemplateInputs) -> Result<&ChatTemplate, DataError> {
        let tool_use = self.tool_use.as_ref().filter(|_| inputs.tools.is_some());
        tool_use.or(self.default.as_ref()).ok_or_else(|| match self.names.as_slice() {
            [] => DataError::NoChatTemplate,
            names => DataError::NoDefaultTemplate { names: names.to_vec() },
        })
    }
}

type Sources<'a> = BTreeMap<&'a str, (TemplateOrigin, &'a str)>;

fn of_files<'a>(files: &TokenizerFiles<'a>) -> Sources<'a> {
    let default = files.chat_template.map(|source| {
        let origin = TemplateOrigin::File("chat_template.jinja".to_owned());
        (DEFAULT, (origin, source))
    });
    let additional = files.additional_chat_templates.iter().map(|(name, source)| {
        let origin = TemplateOrigin::File(format!("additional_chat_templates/{name}.jinja"));
        (name.as_str(), (origin, source.as_str()))
    });
    default.into_iter().chain(additional).collect()
}

fn of_config(config: &Map<String, Value>) -> Result<Sources<'_>, DataError> {
    let malformed = |found: &Value| {
        let found: String = found.to_string().chars().take(60).collect();
        let location = Location::file("tokenizer_config.json").at("chat_template");
        let expected = "expected a string, or a list of {\"name\": ..., \"template\": ...}";
        DataError::TokenizerFile(Diagnostic::error(location, format!("{expected}, found {found}")))
    };
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(Sources::new()),
        Some(Value::String(source)) => {
            Ok([(DEFAULT, (TemplateOrigin::Config(None), source.as_str()))].into())
        }
        Some(Value::Array(list)) => list
            .iter()
            .map(|one| {
                let text = |key| one.get(key).and_then(Value::as_str);
                let (name, source) = text("name").zip(text("template")).ok_or_else(|| malformed(one))?;
                Ok((name, (TemplateOrigin::Config(Some(name.to_owned())), source)))
            })
            .collect(),
        Some(other) => Err(malformed(other)),
    }
}
