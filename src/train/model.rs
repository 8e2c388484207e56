use std::{path::Path, time::SystemTime};

use crate::{
    base::Diagnostic,
    data::{Tokenizer, TokenizerFiles},
    model::Config,
    runtime::{check_weights, fit_config},
    train::TrainError,
    weights::{Checkpoint, ModelFiles},
};

/// A model on disk, with its config read and its tensors checked.
#[derive(Debug)]
pub struct Model {
    /// Its files.
    pub files: ModelFiles,
    /// Its config.
    pub config: Config,
    /// Its tensors.
    pub checkpoint: Checkpoint,
    /// Warnings about missing and contradictory values in its files, with the values used.
    pub warnings: Vec<Diagnostic>,
}

impl Model {
    /// Opens a Hugging Face folder or a GGUF file.
    ///
    /// # Errors
    /// If a file is missing, malformed, or inconsistent with the config.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let files = ModelFiles::open(path)?;
        let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
        let file = file.display().to_string();
        let fields = files.config()?;
        let mut config = Config::from_hf(&fields, &file)?;
        let mut checkpoint = files.checkpoint()?;
        fit_config(&mut checkpoint, &mut config)?;
        check_weights(&checkpoint, &config)?;
        checkpoint.note_doubles();
        let mut warnings = Config::assumptions(&fields, &file);
        warnings.extend_from_slice(checkpoint.warnings());
        Ok(Self { files, config, checkpoint, warnings })
    }

    /// Its tokenizer and chat template, which may write the date of `now` into conversations.
    ///
    /// # Errors
    /// If it has none, or they are malformed.
    pub fn tokenizer(&self, now: SystemTime) -> Result<Tokenizer, TrainError> {
        let tokenizer = self.files.tokenizer_json()?;
        let config = self.files.tokenizer_config()?.to_string();
        let chat_template = self.files.chat_template()?;
        let additional_chat_templates = self.files.additional_chat_templates()?;
        let special_tokens_map = self.files.special_tokens_map()?;
        let added_tokens = self.files.added_tokens()?;
        let eos_ids = [self.config.eos_token_ids.clone(), self.files.generation_eos_ids()?].concat();
        let files = TokenizerFiles {
            tokenizer: &tokenizer,
            config: config.as_bytes(),
            chat_template: chat_template.as_deref(),
            additional_chat_templates: &additional_chat_templates,
            special_tokens_map: special_tokens_map.as_deref(),
            added_tokens: added_tokens.as_deref(),
            eos_ids: &eos_ids,
        };
        let path = self.files.path().to_owned();
        Tokenizer::new(files, now).map_err(|source| TrainError::Tokenizer { path, source })
    }
}

/// The configuration of the model at a path, with its warnings: those of [`Model::open`], whether or not its weights can
/// be read.
///
/// # Errors
/// If it has none, or it is malformed.
pub fn model_config(path: &Path) -> Result<(Config, Vec<Diagnostic>), TrainError> {
    let files = ModelFiles::open(path)?;
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let file = file.display().to_string();
    let fields = files.config()?;
    let mut config = Config::from_hf(&fields, &file)?;
    let mut warnings = Config::assumptions(&fields, &file);
    if let Ok(mut checkpoint) = files.checkpoint() {
        // Tensors that do not fit are an error only where weights are loaded: a plan needs none.
        drop(fit_config(&mut checkpoint, &mut config));
        checkpoint.note_doubles();
        warnings.extend_from_slice(checkpoint.warnings());
    }
    Ok((config, warnings))
}
