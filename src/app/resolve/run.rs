use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    batch::{BatchShape, BatchShards, DataSource, batch_shape, packing},
    lora::lora,
    optimizer::{max_grad_norm, optimizer, schedule},
    step_options::options,
    values::at_least_one,
};
use crate::{
    app::{AppError, defaults, settings::Settings},
    base::Setting,
    data::{HELD_OUT_QUESTION, HeldOut, QUICKSTART_HELD_OUT, SampleFile, UpdateSize, quickstart},
    train::{RunData, RunSettings, Start, TrainError, checkpoint},
    weights::refuse_dangling,
};

/// The training samples and the held-out samples.
///
/// # Errors
/// If the file is invalid, or too few samples are left for training.
pub fn data(settings: &Settings) -> Result<RunData, AppError> {
    let (samples, held_out) = match &settings.data {
        None => {
            let samples = SampleFile::parse("the quick start", quickstart().as_bytes())?;
            (samples, HeldOut::Last(settings.held_out.unwrap_or(QUICKSTART_HELD_OUT)))
        }
        Some(file) => {
            refuse_dangling(file)?;
            let samples = SampleFile::read(file)?;
            let default =
                (samples.samples.len() / defaults::SAMPLES_PER_HELD_OUT).min(defaults::MAX_HELD_OUT);
            let requested = settings.held_out.unwrap_or(default);
            (samples, HeldOut::Random { samples: requested, seed: settings.seed.unwrap_or_default() })
        }
    };
    match held_out {
        HeldOut::Last(0) | HeldOut::Random { samples: 0, .. } => {
            Ok(RunData { train: samples, held_out: None })
        }
        some => {
            let (train, held_out) = samples.split(some)?;
            Ok(RunData { train, held_out: Some(held_out) })
        }
    }
}

/// The settings of a run that need neither the model nor the samples. `folder` is the parent of the default output folder.
///
/// # Errors
/// The first invalid setting, including those of the schedule.
pub fn run_settings(
    settings: &Settings,
    shards: BatchShards,
    folder: &Path,
) -> Result<RunSettings, AppError> {
    let quick_start = settings.data.is_none();
    let source = if quick_start { DataSource::QuickStart } else { DataSource::Own };
    let BatchShape { batch, seq } = batch_shape(settings, source, shards)?;
    let size = UpdateSize {
        batch: at_least_one(Setting::Batch, batch)?,
        accumulate: at_least_one(Setting::Accumulate, settings.accumulate.unwrap_or(defaults::ACCUMULATE))?,
    };
    // Checked before anything is fetched; the number of updates is known only with the samples.
    schedule(settings, 1)?;
    let start = if settings.resume == Some(true) { Start::Resume } else { Start::Fresh };
    let question = || quick_start.then(|| HELD_OUT_QUESTION.to_owned());
    Ok(RunSettings {
        size,
        seq,
        packing: packing(settings),
        lora: lora(settings),
        options: options(settings, BatchShape { batch, seq }, shards)?,
        optimizer: optimizer(settings)?,
        max_grad_norm: max_grad_norm(settings)?,
        seed: settings.seed.unwrap_or_default(),
        save_every: settings.save_every.unwrap_or(defaults::SAVE_EVERY),
        now: SystemTime::now(),
        out: out_folder(settings.out.as_deref(), start, folder)?,
        start,
        question: settings.question.clone().or_else(question),
    })
}

/// The output folder: the given one, else the first of `out`, `out-2`, `out-3` ... without files of a run.
///
/// # Errors
/// If the given one contains an adapter and the run does not resume, or none is given to resume from.
pub(super) fn out_folder(given: Option<&Path>, start: Start, folder: &Path) -> Result<PathBuf, AppError> {
    match (given, start) {
        (Some(out), Start::Resume) => Ok(out.to_owned()),
        (Some(out), Start::Fresh) => {
            checkpoint::refuse_occupied(out)?;
            Ok(out.to_owned())
        }
        (None, Start::Resume) => Err(AppError::Train(TrainError::Setting {
            setting: Setting::Resume,
            problem: format!("requires {}", Setting::Out),
            hint: Some(format!("set the folder of the run to resume, such as {}", Setting::Out.with("out"))),
        })),
        (None, Start::Fresh) => {
            let numbered = (2..).map(|number| folder.join(format!("{}-{number}", defaults::OUT)));
            let mut folders = std::iter::once(folder.join(defaults::OUT)).chain(numbered);
            let free = folders.find(|out| !checkpoint::holds_run(out));
            Ok(free.unwrap_or_else(|| defaults::OUT.into()))
        }
    }
}
