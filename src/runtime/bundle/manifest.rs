use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    base::{MemorySpace, hex},
    pjrt::{CompileOptions, MemoryStats},
    step::{Packing, Slot, StepOptions, StepProgram},
    weights::AdapterConfig,
};

/// Content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of hloom that wrote it.
    pub hloom: String,
    /// SHA-256 of `module.hlo.pb`.
    pub module_sha256: String,
    /// SHA-256 of every other file, by name.
    pub files: BTreeMap<String, String>,
    /// Inputs that the module was built from.
    pub made: ModuleInputs,
    /// The module's arguments, in call order.
    pub inputs: Vec<SlotRecord>,
    /// Its results, in order; one with the role of an argument is its new value.
    pub outputs: Vec<SlotRecord>,
    /// Builds for targets.
    pub targets: Vec<TargetBuild>,
}

/// Everything that determines a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleInputs {
    /// Name of the model; informative.
    pub model: String,
    /// The model's configuration.
    pub config: Value,
    /// Rows of a batch.
    pub batch: usize,
    /// Positions of a row.
    pub seq: usize,
    /// Whether a row has one sample or several.
    pub packing: Packing,
    /// Element type of computation, in HLO notation.
    pub dtype: String,
    /// Storage of frozen weights: an element type in HLO notation, or the name of a quantization scheme.
    pub base: String,
    /// Options of the step.
    #[serde(rename = "method")]
    pub options: StepOptions,
    /// LoRA config in PEFT's format.
    pub lora: AdapterConfig,
    /// The optimizer.
    pub optimizer: OptimizerSettings,
    /// The mesh and its axes, if any; `mesh.toml` has the full config.
    pub mesh: Option<String>,
    /// SHA-256 of each template that replaces an embedded one, by name.
    pub templates: BTreeMap<String, String>,
}

/// AdamW and clipping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptimizerSettings {
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Term added to the denominator for numerical stability.
    pub eps: f64,
    /// Decoupled weight decay, multiplied by the learning rate.
    pub weight_decay: f64,
    /// Gradient norm to clip to; `None` disables clipping.
    pub max_grad_norm: Option<f64>,
}

/// An argument or a result as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Its role.
    pub role: String,
    /// Element type and dimensions of the full array, in HLO notation.
    pub shape: String,
    /// The names of its dimensions.
    pub dims: Vec<String>,
    /// Sharding, in HLO notation.
    pub sharding: String,
    /// Memory space.
    pub memory: MemorySpace,
}

/// Build of the module for one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetBuild {
    /// The target.
    pub target: String,
    /// File name of the executable; `None` if the program exceeds the device's memory.
    pub executable: Option<String>,
    /// File name of the module after all compiler passes.
    pub optimized: Option<String>,
    /// Plugin that compiled it.
    pub plugin: PluginRecord,
    /// Compile options: partitions, partitioner and flags.
    pub options: CompileOptions,
    /// Compile time in seconds.
    pub compile_seconds: f64,
    /// Memory on each device, as the plugin reports it.
    pub memory: Option<MemoryStats>,
    /// The compiler's warnings.
    pub warnings: Vec<String>,
}

/// Identity of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// Package name, or the file name if it is of no package.
    pub name: String,
    /// Package version, or a prefix of the file's SHA-256.
    pub version: String,
    /// Version of its C API, if known.
    pub api: Option<String>,
    /// SHA-256 of the plugin file.
    pub sha256: String,
}

impl SlotRecord {
    /// The record of a slot.
    pub fn of(slot: &Slot) -> Self {
        Self {
            role: slot.role.to_string(),
            shape: slot.shape().to_string(),
            dims: slot.dims.iter().map(|(dim, _)| dim.name().to_owned()).collect(),
            sharding: slot.sharding.to_string(),
            memory: slot.memory,
        }
    }

    /// The arguments and the results of a program.
    pub fn of_program(program: &StepProgram) -> (Vec<Self>, Vec<Self>) {
        let records = |slots: &[Slot]| slots.iter().map(Self::of).collect();
        (records(&program.inputs), records(&program.outputs))
    }
}

/// SHA-256 in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}
