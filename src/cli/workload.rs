//! What decides the tensors of a step, for the commands that need no weights.

use std::{
    io::{self, Write},
    path::Path,
};

use super::{compute_type::ComputeType, plan, resources, settings::Settings, value_parsers::Parsed};
use crate::{
    base::{DType, Diagnostic},
    mesh::{self, Loaded},
    model::{Config, LoraPlan, LoraSpec, Targets},
    step::{Packing, Workload},
    targets::{Platform, Target},
    train::TrainError,
};

#[derive(clap::Args, Debug)]
pub struct WorkloadArgs {
    /// A built-in model, a Hugging Face folder or a GGUF file
    #[arg(long, value_name = "NAME|DIR")]
    pub model: String,
    /// Sequences of a batch [default: 4, or the next number that the mesh divides]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Tokens of a sequence [default: 512]
    #[arg(long, value_name = "N")]
    seq: Option<usize>,
    /// Several rows in each sequence of a batch
    #[arg(long)]
    pack: bool,
    /// The element type of weights and activations: float32 or bfloat16 [default: float32 where every target is a CPU,
    /// else the type that the model's config names]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Parsed<DType>>,
    /// The rank of the adapters [default: 8]
    #[arg(long, value_name = "N")]
    rank: Option<usize>,
    /// The numerator of their scale [default: 16]
    #[arg(long, value_name = "X")]
    alpha: Option<f64>,
    /// Which linears are adapted [default: all-linear]
    #[arg(long, value_name = "NAMES")]
    targets: Option<Parsed<Targets>>,
}

/// A workload with the model and the adapters that it is about.
pub struct OwnedWorkload {
    config: Config,
    /// What is adapted, as requested.
    pub spec: LoraSpec,
    lora: LoraPlan,
    /// The element type of weights and activations.
    pub compute_type: ComputeType,
    packing: Packing,
    /// What the model's files leave open or contradict, and how that was resolved.
    pub warnings: Vec<Diagnostic>,
    /// The sizes of a batch.
    pub shape: plan::Shape,
}

impl OwnedWorkload {
    pub fn borrow(&self) -> Workload<'_> {
        let &Self { ref config, ref lora, compute_type, packing, shape: plan::Shape { batch, seq }, .. } =
            self;
        Workload { config, lora, dtype: compute_type.dtype, batch, seq, packing }
    }

    /// Tells the warnings where nothing reports progress.
    pub fn write_warnings(&self, err: &mut dyn Write) -> io::Result<()> {
        self.warnings.iter().try_for_each(|warning| writeln!(err, "warning: {warning}"))
    }
}

impl WorkloadArgs {
    /// The workload on a mesh that splits a batch into `batch_shards`, for targets of `platforms`.
    pub fn resolve(self, batch_shards: usize, platforms: &[Platform]) -> Result<OwnedWorkload, TrainError> {
        let Self { model, batch, seq, pack, dtype, rank, alpha, targets } = self;
        let settings =
            Settings { batch, seq, pack: Some(pack), dtype, rank, alpha, targets, ..Settings::default() };
        let shape = plan::shape(&settings, plan::Use::OwnData, batch_shards)?;
        let (config, warnings) = resources::config(&model)?;
        let spec = plan::lora(&settings);
        let lora = plan::resolve_lora(&spec, &config)?;
        let compute_type = ComputeType::new(settings.dtype.as_ref(), config.dtype, platforms);
        let packing = plan::packing(&settings);
        Ok(OwnedWorkload { config, spec, lora, compute_type, packing, warnings, shape })
    }
}

/// How many devices there are, for commands that need no device.
#[derive(clap::Args, Debug)]
pub struct TargetArg {
    /// The devices: `cpu:8`, `mi300x:4x8`, `v5e:2x4`, or a device's file, `mine.toml:8` [default: as many as the mesh
    /// makes]
    #[arg(long, value_name = "TARGET")]
    target: Option<Parsed<Target>>,
}

impl TargetArg {
    /// The platform of the devices, if they were given.
    pub fn platform(&self) -> Option<Platform> {
        self.target.as_ref().map(|word| word.0.platform())
    }

    /// The same as a list.
    pub fn platforms(&self) -> Vec<Platform> {
        self.platform().into_iter().collect()
    }

    /// The number of devices, if it was given.
    pub fn devices(&self) -> Option<usize> {
        self.target.as_ref().map(|word| word.0.devices())
    }

    /// Into how many parts a mesh splits a batch on them.
    pub fn batch_shards(&self, mesh: &Loaded) -> usize {
        mesh.batch_shards(self.devices().unwrap_or(mesh.config.written_devices()))
    }
}

/// Reads a mesh config.
pub fn load_mesh(path: &Path) -> Result<Loaded, TrainError> {
    mesh::load(path).map_err(|source| TrainError::Io { action: "read", path: path.to_owned(), source })
}
