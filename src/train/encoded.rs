use std::time::SystemTime;

use super::{
    Model, TrainError, checkpoint,
    config::{RunSettings, Start},
};
use crate::{
    base::{Diagnostic, Location, Setting},
    data::{Dataset, SampleFile, Tokenizer},
    step::Packing,
};

/// Samples of a run.
#[derive(Clone, Debug)]
pub struct RunData {
    /// Samples to train on.
    pub train: SampleFile,
    /// Samples to evaluate on.
    pub held_out: Option<SampleFile>,
}

/// Encoded samples of a run, and the checkpoint that it resumes from.
#[derive(Debug)]
pub struct Encoded {
    pub(super) tokenizer: Tokenizer,
    /// Start of the run; chat templates may have rendered the date into the samples.
    pub(super) started: SystemTime,
    pub(super) train: Dataset,
    pub(super) held_out: Option<Dataset>,
    pub(super) saved: Option<checkpoint::Saved>,
}

impl Encoded {
    /// Encodes the samples, and packs them into rows if `settings` say so.
    ///
    /// # Errors
    /// If they cannot be encoded for this model, or the output folder is occupied or has no checkpoint to resume from.
    pub fn new(settings: &RunSettings, model: &Model, data: &RunData) -> Result<Self, TrainError> {
        check_positions(settings, model)?;
        let saved = match settings.start {
            Start::Fresh => checkpoint::refuse_occupied(&settings.out).map(|()| None)?,
            Start::Resume => Some(checkpoint::read(&settings.out)?),
        };
        let started = saved.as_ref().map_or(settings.now, checkpoint::Saved::started);
        let tokenizer = model.tokenizer(started)?;
        let packed = |dataset: Dataset| -> Result<Dataset, TrainError> {
            dataset.check_vocab(model.config.vocab_size)?;
            Ok(match settings.packing {
                Packing::Off => dataset,
                Packing::On => dataset.packed(),
            })
        };
        let mut train = packed(Dataset::new(&data.train, &tokenizer, settings.seq)?)?;
        let held_out = match &data.held_out {
            None => None,
            Some(rows) => {
                let held_out = Dataset::held_out(rows, &tokenizer, settings.seq)?;
                if held_out.is_none() {
                    train.warn(nothing_held_out(rows, settings.seq));
                }
                held_out.map(packed).transpose()?
            }
        };
        Ok(Self { tokenizer, started, train, held_out, saved })
    }

    /// Rows of one epoch.
    pub fn sequences(&self) -> usize {
        self.train.rows().len()
    }
}

fn nothing_held_out(held_out: &SampleFile, seq: usize) -> Diagnostic {
    let lines: Vec<String> = held_out.samples.iter().take(4).map(|sample| sample.line.to_string()).collect();
    let more = if held_out.samples.len() > lines.len() { ", ..." } else { "" };
    let message = format!(
        "no held-out sample has a label within its first {seq} tokens (lines {}{more}): nothing is held out",
        lines.join(", ")
    );
    Diagnostic::warning(Location::file(&held_out.file), message)
        .with_hint("raise the sequence length, or shorten the prompts")
}

/// Rejects rows longer than the model's maximum: positions would be extrapolated.
fn check_positions(settings: &RunSettings, model: &Model) -> Result<(), TrainError> {
    let most = model.config.max_position_embeddings;
    if settings.seq <= most {
        return Ok(());
    }
    Err(TrainError::Setting {
        setting: Setting::Seq,
        problem: format!("expected at most the {most} positions of the model, found: {}", settings.seq),
        hint: Some("raise max_position_embeddings in config.json if the model is meant to go further".into()),
    })
}
