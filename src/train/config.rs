use std::{path::PathBuf, time::SystemTime};

use crate::{
    base::DType,
    data::UpdateSize,
    model::{BaseStorage, Config, LoraPlan, LoraSpec},
    optim::{AdamW, Schedule},
    step::{Packing, StepOptions, Workload},
};

/// Settings of a run, before model and data are known.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Rows of a batch, and batches of an update.
    pub size: UpdateSize,
    /// Tokens of a row.
    pub seq: usize,
    /// Whether a row contains several samples.
    pub packing: Packing,
    /// The adapters.
    pub lora: LoraSpec,
    /// Time and memory trade-offs.
    pub options: StepOptions,
    /// The optimizer.
    pub optimizer: AdamW,
    /// Global norm that gradients are clipped to.
    pub max_grad_norm: f64,
    /// Seed of the order of the samples and of the initial adapters.
    pub seed: u64,
    /// Updates between checkpoints; 0 saves only the last.
    pub save_every: usize,
    /// Output folder for the adapter, metrics and checkpoints.
    pub out: PathBuf,
    /// Whether to resume the run in `out`.
    pub start: Start,
    /// The time; a resumed run keeps the time of its first start.
    pub now: SystemTime,
    /// A question to answer before and after training.
    pub question: Option<String>,
}

impl RunSettings {
    /// The workload of the run's steps.
    pub fn workload<'a>(
        &self,
        config: &'a Config,
        lora: &'a LoraPlan,
        dtype: DType,
        base: BaseStorage,
    ) -> Workload<'a> {
        let &Self { size, seq, packing, .. } = self;
        Workload { base, packing, ..Workload::new(config, lora, dtype, size.batch.get(), seq) }
    }
}

/// Configuration of a run, resolved for a model and its data.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The settings.
    pub settings: RunSettings,
    /// The element type of computation.
    pub dtype: DType,
    /// How frozen weights are stored.
    pub base_storage: BaseStorage,
    /// The learning rate of each update.
    pub schedule: Schedule,
    /// `base_model_name_or_path` of the adapter's config.
    pub base_model: Option<String>,
}

impl RunConfig {
    /// The number of updates.
    pub fn steps(&self) -> usize {
        self.schedule.total_steps
    }
}

/// The start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With new adapters, in a folder without any.
    Fresh,
    /// From the last checkpoint.
    Resume,
}
