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

/// What a bundle says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of hloom that made it.
    pub hloom: String,
    /// SHA-256 of `module.hlo.pb`.
    pub module_sha256: String,
    /// SHA-256 of every file but this one, by name.
    pub files: BTreeMap<String, String>,
    /// What the module was built from.
    pub made: ModuleInputs,
    /// The module's arguments, in call order.
    pub inputs: Vec<SlotRecord>,
    /// Its results, in order; one with the role of an argument takes its place.
    pub outputs: Vec<SlotRecord>,
    /// What plugins made of it.
    pub targets: Vec<TargetBuild>,
}

/// All that decides a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleInputs {
    /// What the model was called; only a note.
    pub model: String,
    /// The model's configuration.
    pub config: Value,
    /// Sequences of a batch.
    pub batch: usize,
    /// Positions of a sequence.
    pub seq: usize,
    /// Whether a row of a batch holds one sequence or several.
    pub packing: Packing,
    /// The element type of base weights and activations, as HLO spells it.
    pub dtype: String,
    /// How the step is computed.
    #[serde(rename = "method")]
    pub options: StepOptions,
    /// What is adapted, as PEFT says it.
    pub lora: AdapterConfig,
    /// The optimizer.
    pub optimizer: OptimizerSettings,
    /// The mesh and its axes, if there is one; `mesh.toml` has the whole config.
    pub mesh: Option<String>,
    /// The SHA-256 of each template that replaced an embedded one, by name.
    pub templates: BTreeMap<String, String>,
}

/// AdamW and clipping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptimizerSettings {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Keeps the quotient finite.
    pub eps: f64,
    /// How much of a parameter a step takes away, in learning rates.
    pub weight_decay: f64,
    /// The largest norm of the gradients; none clips nothing.
    pub max_grad_norm: Option<f64>,
}

/// An argument or a result, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// What it is for.
    pub role: String,
    /// The whole value's element type and sizes, as HLO spells them.
    pub shape: String,
    /// The names of its dimensions.
    pub dims: Vec<String>,
    /// How it lies on the devices, as HLO spells it.
    pub sharding: String,
    /// In which memory of the devices.
    pub memory: MemorySpace,
}

/// What a plugin made of the module for one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetBuild {
    /// The target.
    pub target: String,
    /// The file of the executable; none where the program does not fit and the plugin made nothing.
    pub executable: Option<String>,
    /// The module after all of the compiler's passes.
    pub optimized: Option<String>,
    /// Who compiled it.
    pub plugin: PluginRecord,
    /// How: partitions, partitioner and flags.
    pub options: CompileOptions,
    /// Seconds that the compiler took.
    pub compile_seconds: f64,
    /// The plugin's own count of memory on each device.
    pub memory: Option<MemoryStats>,
    /// What the compiler warned of.
    pub warnings: Vec<String>,
}

/// A plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// The package, or the file's name where it is of none.
    pub name: String,
    /// The package's version, or the beginning of the file's SHA-256.
    pub version: String,
    /// The version of its C API, where it was asked.
    pub api: Option<String>,
    /// SHA-256 of the plugin's file.
    pub sha256: String,
}

impl SlotRecord {
    /// A slot in words.
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

/// The SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}
