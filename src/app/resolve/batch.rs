use std::num::NonZeroUsize;

use super::values::{at_least_one, wrong};
use crate::{
    app::{AppError, defaults, settings::Settings},
    base::Setting,
    mesh::Loaded,
    runtime::DeviceMesh,
    step::Packing,
};

/// Source of the samples, which decides the default length of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// The built-in conversations.
    QuickStart,
    /// Samples of the user.
    Own,
}

/// Size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Rows.
    pub batch: usize,
    /// Tokens of a row.
    pub seq: usize,
}

/// Sharding of the rows of a batch over the devices of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShards {
    /// Number of shards of a batch that divides evenly; the default batch is a multiple of it.
    pub num_shards: usize,
    /// Number that the rows of a batch and of a micro-batch must be a multiple of: `num_shards`, or one where the policy of
    /// the mesh config replicates or pads a batch that does not divide evenly.
    pub multiple: usize,
}

impl BatchShards {
    /// Without a mesh.
    pub const ONE: Self = Self { num_shards: 1, multiple: 1 };

    /// On a mesh of `devices` devices.
    pub fn of_mesh(mesh: &Loaded, devices: usize) -> Self {
        Self { num_shards: mesh.batch_shards(devices), multiple: mesh.batch_multiple(devices) }
    }
}

impl From<&DeviceMesh> for BatchShards {
    fn from(devices: &DeviceMesh) -> Self {
        Self { num_shards: devices.batch_shards(), multiple: devices.batch_multiple() }
    }
}

/// Whether a row has one sample or several.
pub fn packing(settings: &Settings) -> Packing {
    if settings.pack == Some(true) { Packing::On } else { Packing::Off }
}

/// Rows and tokens of a batch.
///
/// # Errors
/// If the batch is empty, a row has fewer than two tokens, or the batch has more tokens than an `i32` counts.
pub fn batch_shape(
    settings: &Settings,
    source: DataSource,
    shards: BatchShards,
) -> Result<BatchShape, AppError> {
    let seq = match source {
        DataSource::QuickStart => defaults::QUICKSTART_SEQ,
        DataSource::Own => defaults::SEQ,
    };
    let micro_batches = settings.micro_batches.map_or(1, NonZeroUsize::get);
    let multiple = shards.num_shards.saturating_mul(micro_batches).min(1 << 31);
    let default = defaults::BATCH.next_multiple_of(multiple);
    let batch = at_least_one(Setting::Batch, settings.batch.unwrap_or(default))?.get();
    let seq = settings.seq.unwrap_or(seq);
    if seq < 2 {
        return Err(wrong(Setting::Seq, format!("expected at least 2, found: {seq}")));
    }
    if batch.checked_mul(seq).is_none_or(|tokens| tokens > i32::MAX as usize) {
        return Err(wrong(
            Setting::Batch,
            format!("expected at most {} tokens in a batch, found {batch} rows of {seq} tokens", i32::MAX),
        ));
    }
    Ok(BatchShape { batch, seq })
}
