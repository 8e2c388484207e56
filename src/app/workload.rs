use super::{
    AppError, ComputeType,
    resolve::{self, BatchShape, BatchShards},
    resources,
    settings::Settings,
};
use crate::{
    base::Diagnostic,
    model::{BaseStorage, Config, LoraPlan, LoraSpec},
    step::{Packing, Workload},
    targets::Platform,
};

/// A workload with the model and the adapters that it refers to, resolved from settings without any weights.
///
/// ```
/// use hloom::{
///     app::{OwnedWorkload, resolve::BatchShards, settings::Settings},
///     base::DType,
///     targets::Platform,
/// };
///
/// let settings = Settings { batch: Some(2), seq: Some(4096), ..Settings::default() };
/// let owned = OwnedWorkload::new("llama3.1-8b", &settings, BatchShards::ONE, &[Platform::Rocm])?;
/// let workload = owned.as_workload();
/// // Without a setting, a step computes in the model's own type.
/// assert_eq!((workload.batch, workload.seq, workload.dtype), (2, 4096, DType::BF16));
/// # Ok::<(), hloom::app::AppError>(())
/// ```
pub struct OwnedWorkload {
    config: Config,
    /// The adapters, as requested.
    pub spec: LoraSpec,
    lora: LoraPlan,
    /// The element type of computation.
    pub compute_type: ComputeType,
    /// How frozen weights are stored.
    pub base: BaseStorage,
    packing: Packing,
    /// Warnings about the model's files.
    pub warnings: Vec<Diagnostic>,
    /// The batch.
    pub shape: BatchShape,
}

impl OwnedWorkload {
    /// The workload of `model`, a built-in model or the path of one, for targets of `platforms`.
    ///
    /// # Errors
    /// If the model is unknown or its config is invalid, or a setting is.
    pub fn new(
        model: &str,
        settings: &Settings,
        shards: BatchShards,
        platforms: &[Platform],
    ) -> Result<Self, AppError> {
        let shape = resolve::batch_shape(settings, resolve::DataSource::Own, shards)?;
        let (config, warnings) = resources::config(model)?;
        let spec = resolve::lora(settings);
        let lora = resolve::lora_plan(&spec, &config)?;
        let compute_type = ComputeType::new(settings.dtype.as_ref(), config.dtype, platforms);
        let base = resolve::base_storage(settings.base.as_ref(), &config, compute_type.dtype);
        let packing = resolve::packing(settings);
        Ok(Self { config, spec, lora, compute_type, base, packing, warnings, shape })
    }

    /// The workload.
    pub fn as_workload(&self) -> Workload<'_> {
        let &Self { ref config, ref lora, compute_type, base, packing, shape, .. } = self;
        let BatchShape { batch, seq } = shape;
        Workload { base, packing, ..Workload::new(config, lora, compute_type.dtype, batch, seq) }
    }
}
