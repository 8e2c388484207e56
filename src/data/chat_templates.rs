//! The chat templates of a model, of which each conversation has one.

use std::{collections::BTreeMap, time::SystemTime};

use serde_json::{Map, Value};

use super::{ChatTemplate, DataError, TemplateInputs, TokenizerFiles, chat::TemplateOrigin};

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// The templates by name, chosen between as `get_chat_template` of Hugging Face transformers does it.
#[derive(Debug)]
pub(super) struct ChatTemplates {
    default: Option<ChatTemplate>,
    tool_use: Option<ChatTemplate>,
    /// The names of all, sorted.
    names: Vec<String>,
}

impl ChatTemplates {
    /// The templates in files of their own, or if there are none, those of tokenizer_config.json. Only those that a
    /// conversation may have are parsed.
    ///
    /// # Errors
    /// [`DataError::ChatTemplate`] if a template does not parse, [`DataError::TokenizerFile`] if `chat_template` of the
    /// config is neither a text nor a list of named texts.
    pub fn read(
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

    /// The template of conversations with these inputs: `tool_use` where tools are given, else `default`.
    ///
    /// # Errors
    /// [`DataError::NoChatTemplate`] if there is no template at all, [`DataError::NoDefaultTemplate`] if there are only
    /// others.
    pub fn of(&self, inputs: &TemplateInputs) -> Result<&ChatTemplate, DataError> {
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
        DataError::TokenizerFile {
            file: "tokenizer_config.json",
            problem: format!(
                "`chat_template`: expected a text, or a list of {{\"name\": ..., \"template\": ...}}, found {found}"
            ),
        }
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
