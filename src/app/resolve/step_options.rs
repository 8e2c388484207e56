use std::num::NonZeroUsize;

use super::batch::{BatchShape, BatchShards};
use crate::{
    app::{AppError, AttentionKind, Parsed, settings::Settings},
    base::{DType, MemorySpace, Setting},
    model::{BaseStorage, Config, nn::Attention},
    step::StepOptions,
    train::TrainError,
};

/// The options of a step with batches of this shape.
///
/// # Errors
/// If the micro-batches do not divide the batch, or the mesh cannot shard them; if settings contradict each other.
pub fn options(settings: &Settings, shape: BatchShape, shards: BatchShards) -> Result<StepOptions, AppError> {
    let BatchShape { batch, seq } = shape;
    let usual = StepOptions::for_length(seq);
    let block = || settings.attention_block.map_or(Attention::BLOCK, NonZeroUsize::get);
    let attention = match (&settings.attention, settings.attention_block) {
        (Some(Parsed(AttentionKind::Dense)), Some(_)) => {
            return Err(AppError::Train(TrainError::Setting {
                setting: Setting::AttentionBlock,
                problem: format!("expected {} with it, found dense", Setting::Attention.with("blocks")),
                hint: None,
            }));
        }
        (Some(Parsed(AttentionKind::Dense)), None) => Attention::Dense,
        (Some(Parsed(AttentionKind::Blocks)), _) | (None, Some(_)) => Attention::Blocks(block()),
        (None, None) => usual.attention,
    };
    let micro_batches = settings.micro_batches.unwrap_or(usual.micro_batches);
    check_micro_batches(batch, micro_batches, shards)?;
    Ok(StepOptions {
        attention,
        loss_chunk: settings.loss_chunk,
        remat: settings.remat.as_ref().map(|word| word.0),
        remat_every: settings.remat_every,
        weights: if settings.offload_weights == Some(true) { MemorySpace::Host } else { usual.weights },
        micro_batches,
    })
}

/// How frozen weights are stored in a step that computes in `dtype`: as requested, else quantized as the model's files are, else
/// in that type.
pub fn base_storage(requested: Option<&Parsed<BaseStorage>>, config: &Config, dtype: DType) -> BaseStorage {
    let own = config.quantized.map_or(BaseStorage::Plain(dtype), BaseStorage::Quantized);
    requested.map_or(own, |base| base.0)
}

/// Checks that the micro-batches divide a batch of `batch` rows, and that the mesh can shard each of them.
fn check_micro_batches(
    batch: usize,
    micro_batches: NonZeroUsize,
    shards: BatchShards,
) -> Result<(), AppError> {
    let multiple = micro_batches.get().saturating_mul(shards.multiple);
    if micro_batches.get() == 1 || batch.is_multiple_of(multiple) {
        return Ok(());
    }
    let sharded = match shards.multiple {
        1 => String::new(),
        num_shards => format!(" of {num_shards} shards each"),
    };
    let hint = batch
        .checked_next_multiple_of(multiple)
        .map(|batch| format!("for example {}, the next batch that they divide", Setting::Batch.with(batch)));
    Err(AppError::Train(TrainError::Setting {
        setting: Setting::MicroBatches,
        problem: format!("{micro_batches} micro-batches{sharded} do not divide a batch of {batch} rows"),
        hint,
    }))
}

/// The settings that select the step options.
pub fn settings_of_options(options: &StepOptions) -> Settings {
    let &StepOptions { attention, loss_chunk, remat, remat_every, weights, micro_batches } = options;
    let (kind, block) = match attention {
        Attention::Dense => (AttentionKind::Dense, None),
        Attention::Blocks(block) => (AttentionKind::Blocks, NonZeroUsize::new(block)),
    };
    Settings {
        attention: Some(Parsed(kind)),
        attention_block: block,
        loss_chunk,
        remat: remat.map(Parsed),
        remat_every,
        offload_weights: Some(weights == MemorySpace::Host),
        micro_batches: Some(micro_batches),
        ..Settings::default()
    }
}
