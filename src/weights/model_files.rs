use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    Checkpoint, WeightsError,
    files::{self, find, read_json, read_text},
    gguf::Gguf,
    layout::{self, CONFIG},
};

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const CHAT_TEMPLATE: &str = "chat_template.jinja";
const ADDITIONAL_CHAT_TEMPLATES: &str = "additional_chat_templates";
const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";
const GENERATION_CONFIG: &str = "generation_config.json";

/// Files of a model, a Hugging Face folder or a GGUF file, in Hugging Face's formats.
///
/// # Examples
/// ```
/// use hloom::weights::{ModelFiles, WeightsError};
///
/// let folder = tempfile::tempdir()?;
/// let error = ModelFiles::open(folder.path()).unwrap_err();
/// assert!(matches!(error, WeightsError::MissingFile { file: "config.json", .. }));
///
/// std::fs::write(folder.path().join("config.json"), r#"{"hidden_size": 64}"#)?;
/// assert_eq!(ModelFiles::open(folder.path())?.config()?["hidden_size"], 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelFiles {
    path: PathBuf,
    source: ModelSource,
}

#[derive(Clone, Debug)]
enum ModelSource {
    Folder,
    Gguf(Gguf),
}

impl ModelFiles {
    /// Opens a folder with a config.json, or a GGUF file of a Llama model.
    ///
    /// # Errors
    /// If the path is neither, or the GGUF header is malformed.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        files::refuse_dangling(path)?;
        let source = if path.is_dir() {
            if find(path, CONFIG)?.is_none() {
                return Err(layout::not_a_model(path));
            }
            ModelSource::Folder
        } else if Gguf::is_at(path)? {
            ModelSource::Gguf(Gguf::open(path)?)
        } else {
            return Err(layout::not_a_model_file(path)?);
        };
        Ok(Self { path: path.to_owned(), source })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model's config.json.
    ///
    /// # Errors
    /// If the file is malformed, or GGUF metadata is missing or not supported.
    pub fn config(&self) -> Result<Value, WeightsError> {
        match &self.source {
            ModelSource::Folder => read_json(&self.path.join(CONFIG)),
            ModelSource::Gguf(gguf) => gguf.config(),
        }
    }

    /// The text of the model's tokenizer.json.
    ///
    /// # Errors
    /// If the folder has none, or the GGUF file's tokenizer is not byte-level BPE with a known pre-tokenizer.
    pub fn tokenizer_json(&self) -> Result<Vec<u8>, WeightsError> {
        match &self.source {
            ModelSource::Folder => read_text(&files::require(&self.path, TOKENIZER)?, "JSON"),
            ModelSource::Gguf(gguf) => Ok(gguf.tokenizer()?.to_string().into_bytes()),
        }
    }

    /// The model's tokenizer_config.json; an empty object if the folder has none.
    ///
    /// # Errors
    /// If the file is malformed.
    pub fn tokenizer_config(&self) -> Result<Value, WeightsError> {
        match &self.source {
            ModelSource::Folder => match find(&self.path, TOKENIZER_CONFIG)? {
                Some(path) => read_json(&path),
                None => Ok(Value::Object(Default::default())),
            },
            ModelSource::Gguf(gguf) => gguf.tokenizer_config(),
        }
    }

    /// The model's chat_template.jinja. Without it and additional ones, tokenizer_config.json may have the templates.
    ///
    /// # Errors
    /// If the file cannot be read, or is not UTF-8.
    pub fn chat_template(&self) -> Result<Option<String>, WeightsError> {
        match self.source {
            ModelSource::Folder => {
                find(&self.path, CHAT_TEMPLATE)?.map(|path| read_template(&path)).transpose()
            }
            ModelSource::Gguf(_) => Ok(None),
        }
    }

    /// The files `*.jinja` of the folder additional_chat_templates: their names without the ending, sorted, and their
    /// texts.
    ///
    /// # Errors
    /// If the folder or one of them cannot be read, or is not UTF-8.
    pub fn additional_chat_templates(&self) -> Result<Vec<(String, String)>, WeightsError> {
        let folder = self.path.join(ADDITIONAL_CHAT_TEMPLATES);
        if matches!(self.source, ModelSource::Gguf(_)) || !folder.is_dir() {
            return Ok(vec![]);
        }
        let unreadable = |source| WeightsError::Io { action: "read", path: folder.clone(), source };
        let mut templates = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(name) = name.strip_suffix(".jinja") {
                templates.push((name.to_owned(), read_template(&path)?));
            }
        }
        templates.sort_unstable();
        Ok(templates)
    }

    /// The text of the model's special_tokens_map.json, where there is one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn special_tokens_map(&self) -> Result<Option<Vec<u8>>, WeightsError> {
        self.optional(SPECIAL_TOKENS_MAP)
    }

    /// The text of the model's added_tokens.json, where there is one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn added_tokens(&self) -> Result<Option<Vec<u8>>, WeightsError> {
        self.optional(ADDED_TOKENS)
    }

    /// `eos_token_id` of the model's generation_config.json: the tokens that end a generation.
    ///
    /// # Errors
    /// If the file is malformed.
    pub fn generation_eos_ids(&self) -> Result<Vec<u32>, WeightsError> {
        let Some(text) = self.optional(GENERATION_CONFIG)? else { return Ok(vec![]) };
        let path = self.path.join(GENERATION_CONFIG);
        let json = |source| WeightsError::Json { path: path.clone(), source };
        let config: serde_json::Map<String, Value> = serde_json::from_slice(&text).map_err(json)?;
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let (ids, value) = match config.get("eos_token_id") {
            None | Some(Value::Null) => return Ok(vec![]),
            Some(value @ Value::Array(list)) => (list.iter().map(id).collect::<Option<_>>(), value),
            Some(value) => (id(value).map(|id| vec![id]), value),
        };
        ids.ok_or_else(|| WeightsError::Setting {
            path,
            key: "eos_token_id".to_owned(),
            problem: format!("expected a token id or a list of them, found {value}"),
            hint: None,
        })
    }

    fn optional(&self, name: &str) -> Result<Option<Vec<u8>>, WeightsError> {
        match self.source {
            ModelSource::Folder => find(&self.path, name)?.map(|path| read_text(&path, "JSON")).transpose(),
            ModelSource::Gguf(_) => Ok(None),
        }
    }

    /// The model's tensors.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open`].
    pub fn checkpoint(&self) -> Result<Checkpoint, WeightsError> {
        match &self.source {
            ModelSource::Folder => Checkpoint::open(&self.path),
            ModelSource::Gguf(gguf) => Ok(Checkpoint::new(&self.path, gguf.tensors()?)),
        }
    }
}

fn read_template(path: &Path) -> Result<String, WeightsError> {
    String::from_utf8(read_text(path, "a chat template")?).map_err(|_| WeightsError::Setting {
        path: path.to_owned(),
        key: "chat_template".to_owned(),
        problem: "expected UTF-8 text".to_owned(),
        hint: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        folder
    }

    #[test]
    fn json_may_begin_with_a_byte_order_mark() {
        let folder = folder(&[(CONFIG, "\u{feff}{\"hidden_size\": 4}"), (TOKENIZER, "\u{feff}{}")]);
        let files = ModelFiles::open(folder.path()).unwrap();
        assert_eq!(files.config().unwrap()["hidden_size"], 4);
        assert_eq!(files.tokenizer_json().unwrap(), b"{}");
        assert_eq!(files.tokenizer_config().unwrap(), serde_json::json!({}));
        assert_eq!(files.chat_template().unwrap(), None);
    }

    #[test]
    fn chat_templates_are_read_from_their_files() {
        let folder = folder(&[(CONFIG, "{}"), (CHAT_TEMPLATE, "beside")]);
        let files = ModelFiles::open(folder.path()).unwrap();
        assert_eq!(files.chat_template().unwrap().as_deref(), Some("beside"));
        assert_eq!(files.additional_chat_templates().unwrap(), []);

        let additional = folder.path().join(ADDITIONAL_CHAT_TEMPLATES);
        fs::create_dir(&additional).unwrap();
        for (name, text) in [("tool_use.jinja", "t"), ("rag.jinja", "r"), ("notes.txt", "n")] {
            fs::write(additional.join(name), text).unwrap();
        }
        let expect = [("rag", "r"), ("tool_use", "t")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(files.additional_chat_templates().unwrap(), expect);
        fs::write(additional.join("rag.jinja"), b"one \xe9 two").unwrap();
        let error = files.additional_chat_templates().unwrap_err().to_string();
        assert!(error.ends_with("rag.jinja: `chat_template`: expected UTF-8 text"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let empty = folder(&[]);
        let error = ModelFiles::open(empty.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("no config.json in folder: {}", empty.path().display()));
        let bare = folder(&[(CONFIG, "{"), ("weights.bin", "PK")]);
        let files = ModelFiles::open(bare.path()).unwrap();
        let config = bare.path().join(CONFIG);
        assert_eq!(
            files.config().unwrap_err().to_string(),
            format!("malformed JSON in {}", config.display())
        );
        assert!(files.tokenizer_json().unwrap_err().to_string().starts_with("no tokenizer.json in folder: "));
        let strange = ModelFiles::open(&bare.path().join("weights.bin")).unwrap_err();
        assert!(
            strange.to_string().ends_with(
                ": expected a Hugging Face folder or a GGUF file, found text that begins with `PK`"
            )
        );
    }
}
