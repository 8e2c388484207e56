use serde::{Deserialize, Serialize};

use crate::{
    hlo::proto::ComputedValue,
    pjrt::{
        MemoryStats,
        targets::{Platform, Target},
    },
    step::{Role, Slot},
};

/// How many of the largest values a report lists.
const LARGEST: usize = 12;

/// What each device must hold to run a step, against what it has. Bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The target.
    pub target: String,
    /// Its devices.
    pub devices: usize,
    /// Whether the step fits; where the memory of a device is not known, nothing says that it does not.
    pub fits: bool,
    /// What a device must hold at most at one time; none where the compiler gave up.
    pub device_bytes: Option<u64>,
    /// What it has.
    pub limit_bytes: Option<u64>,
    /// What lies in the host's memory for a device.
    pub host_bytes: u64,
    /// Frozen parameters.
    pub weights: u64,
    /// Trained factors.
    pub adapters: u64,
    /// What the optimizer keeps.
    pub optimizer: u64,
    /// Tokens, labels and the learning rate.
    pub batch: u64,
    /// What the compiler's layouts add to all of these.
    pub padding: u64,
    /// Results that take no argument's place.
    pub results: u64,
    /// Intermediate values.
    pub temporaries: u64,
    /// Machine code.
    pub generated_code: u64,
    /// Why the compiler gave up, in its own words.
    pub message: Option<String>,
    /// What the largest values of the compiled program are for, the largest sum first. Values share memory where the
    /// compiler sees that they are never needed together, so these sums are more than the temporaries.
    pub causes: Vec<Cause>,
    /// The largest values.
    pub largest: Vec<LargeValue>,
}

/// Values of a compiled program that are there for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What for.
    pub cause: String,
    /// Of the largest of them.
    pub largest_bytes: u64,
    /// Of all of them.
    pub total_bytes: u64,
    /// How many.
    pub values: usize,
}

/// A value of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeValue {
    /// The instruction.
    pub name: String,
    /// What it does.
    pub opcode: String,
    /// The computation that it stands in.
    pub computation: String,
    /// What it is for.
    pub cause: String,
    /// Its size.
    pub bytes: u64,
}

impl MemoryReport {
    /// A report of what the slots of a program take, with nothing from a compiler.
    pub fn of_slots(target: &Target, limit_bytes: Option<u64>, inputs: &[Slot]) -> Self {
        let mut report = Self {
            target: target.to_string(),
            devices: target.devices(),
            fits: true,
            device_bytes: None,
            limit_bytes,
            host_bytes: 0,
            weights: 0,
            adapters: 0,
            optimizer: 0,
            batch: 0,
            padding: 0,
            results: 0,
            temporaries: 0,
            generated_code: 0,
            message: None,
            causes: vec![],
            largest: vec![],
        };
        for slot in inputs {
            let sum = match slot.role {
                Role::Base(_) => &mut report.weights,
                Role::Adapter(_) => &mut report.adapters,
                Role::Moment1(_) | Role::Moment2(_) | Role::Updates => &mut report.optimizer,
                Role::Gradient(_)
                | Role::InputIds
                | Role::Labels
                | Role::Position
                | Role::LearningRate
                | Role::Counted
                | Role::Loss
                | Role::GradNorm
                | Role::Logits
                | Role::NextLogits => &mut report.batch,
            };
            let shape = slot.shape();
            *sum += slot.sharding.shard_shape(&shape).unwrap_or(shape).bytes() as u64;
        }
        report
    }

    /// The same with what the compiler counted, and the values that its program computes, largest first.
    pub fn compiled(self, platform: Platform, stats: &MemoryStats, values: &[ComputedValue]) -> Self {
        let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
        let device_bytes = device_bytes(platform, stats);
        let at_rest = self.weights + self.adapters + self.optimizer + self.batch;
        let arguments = bytes(stats.arguments) + bytes(stats.host_arguments);
        let (largest, causes) = bill(values);
        Self {
            fits: self.limit_bytes.is_none_or(|limit| device_bytes <= limit),
            device_bytes: Some(device_bytes),
            host_bytes: bytes(stats.host_arguments) + bytes(stats.host_temporaries),
            padding: arguments.saturating_sub(at_rest),
            results: bytes(stats.outputs).saturating_sub(bytes(stats.aliased)),
            temporaries: bytes(stats.temporaries),
            generated_code: bytes(stats.generated_code),
            causes,
            largest,
            ..self
        }
    }

    /// The same for a program that the compiler gave up on for lack of memory.
    pub fn too_large(self, message: String) -> Self {
        Self { fits: false, message: Some(message), ..self }
    }

    /// What it holds between two steps.
    pub fn at_rest(&self) -> u64 {
        self.weights + self.adapters + self.optimizer + self.batch + self.padding
    }
}

/// What a device must have.
fn device_bytes(platform: Platform, stats: &MemoryStats) -> u64 {
    let count = match platform {
        // Their compilers allocate arguments, results and one block of temporaries: the sum of these is what the device
        // must have. The peak counts arguments in the host's memory too, and leaves out what lies unused in between.
        Platform::Cuda | Platform::Rocm => stats.total_allocation.filter(|&total| total > 0),
        // A heap that is simulated over time: the peak is what the compiler itself holds against the device's memory.
        Platform::Tpu => None,
        Platform::Cpu => None,
    };
    let parts = stats.arguments + stats.outputs - stats.aliased + stats.temporaries;
    let count = count.unwrap_or(if stats.peak > 0 { stats.peak } else { parts });
    u64::try_from(count).unwrap_or(0)
}

/// The largest values, and all by cause.
fn bill(values: &[ComputedValue]) -> (Vec<LargeValue>, Vec<Cause>) {
    let mut causes: Vec<Cause> = Vec::new();
    for value in values {
        let name = cause(value);
        match causes.iter_mut().find(|known| known.cause == name) {
            Some(known) => {
                known.total_bytes = known.total_bytes.saturating_add(value.bytes);
                known.values += 1;
            }
            None => causes.push(Cause {
                cause: name,
                largest_bytes: value.bytes,
                total_bytes: value.bytes,
                values: 1,
            }),
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse((cause.largest_bytes, cause.total_bytes)));
    causes.truncate(LARGEST);
    let large = |value: &ComputedValue| LargeValue {
        name: value.name.clone(),
        opcode: value.opcode.clone(),
        computation: value.computation.clone(),
        cause: cause(value),
        bytes: value.bytes,
    };
    (values.iter().take(LARGEST).map(large).collect(), causes)
}

/// What a value is for, as far as its instruction tells.
fn cause(value: &ComputedValue) -> String {
    value.opcode.clone()
}
