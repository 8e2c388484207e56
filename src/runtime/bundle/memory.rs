use serde::{Deserialize, Serialize};

use crate::{
    base::MemorySpace,
    hlo::proto::ComputedValue,
    model::TrainableId,
    pjrt::MemoryStats,
    step::{Role, Slot},
    targets::{Platform, Target},
};

/// Number of the largest values, and of causes, in a report.
const LARGEST: usize = 12;

/// Memory that a step needs on each device, in bytes, and the memory that the device has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The target.
    pub target: String,
    /// Number of devices.
    pub devices: usize,
    /// Whether the step fits; `true` where the device's memory is unknown.
    pub fits: bool,
    /// Memory allocated on a device; `None` if the compiler rejected the program as too large.
    pub device_bytes: Option<u64>,
    /// Memory of a device.
    pub limit_bytes: Option<u64>,
    /// Host memory used for a device, in none of the counts below. On the CPU: what the step placed in host memory.
    pub host_bytes: u64,
    /// Frozen parameters.
    pub weights: u64,
    /// LoRA factors.
    pub adapters: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Tokens, labels and the learning rate.
    pub batch: u64,
    /// What the compiler's layouts add to the arguments above.
    pub padding: u64,
    /// Results that alias no argument.
    pub results: u64,
    /// Intermediate values.
    pub temporaries: u64,
    /// Machine code.
    pub generated_code: u64,
    /// The compiler's message if the program is too large.
    pub message: Option<String>,
    /// Probable causes of the largest values, sorted by their largest value. Values with disjoint lifetimes share memory,
    /// so the totals exceed the temporaries.
    pub causes: Vec<ProbableCause>,
    /// The largest values.
    pub largest: Vec<LargeValue>,
}

/// Values of a compiled program with the same probable purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbableCause {
    /// The purpose, guessed from names of instructions and computations.
    pub cause: String,
    /// Size of the largest value.
    pub largest_bytes: u64,
    /// Total size.
    pub total_bytes: u64,
    /// Number of values.
    pub values: usize,
}

/// A value of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeValue {
    /// The instruction's name.
    pub name: String,
    /// The instruction's opcode.
    pub opcode: String,
    /// The instruction's `op_name`: where the step or the model has the operation. Empty if it has none.
    #[serde(default)]
    pub op_name: String,
    /// The computation that contains it.
    pub computation: String,
    /// Its purpose, guessed from names of instructions and computations.
    pub cause: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl MemoryReport {
    /// A report on the arguments of a program alone, before it is compiled.
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
                _ if slot.memory == MemorySpace::Host => &mut report.host_bytes,
                Role::Base(_) | Role::Trainable(TrainableId::Param(_)) => &mut report.weights,
                Role::Trainable(TrainableId::Adapter(_)) => &mut report.adapters,
                Role::Moment1(_) | Role::Moment2(_) | Role::Updates => &mut report.optimizer,
                Role::Gradient(_)
                | Role::InputIds
                | Role::Labels
                | Role::SegmentIds
                | Role::Position
                | Role::LearningRate
                | Role::NumLabelTokens
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

    /// Adds the compiler's counts, and the values that the compiled program computes, sorted by size.
    pub fn compiled(self, platform: Platform, stats: &MemoryStats, values: &[ComputedValue]) -> Self {
        let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
        let device_bytes = device_bytes(platform, stats);
        // The CPU's compiler counts arguments in host memory among the others.
        let at_rest = self.at_rest() + self.host_bytes;
        let arguments = bytes(stats.arguments) + bytes(stats.host_arguments);
        let (largest, causes) = group_by_cause(values);
        Self {
            fits: self.limit_bytes.is_none_or(|limit| device_bytes <= limit),
            device_bytes: Some(device_bytes),
            host_bytes: self.host_bytes.max(bytes(
                stats.host_arguments + stats.host_outputs - stats.host_aliased + stats.host_temporaries,
            )),
            padding: arguments.saturating_sub(at_rest),
            results: bytes(stats.outputs).saturating_sub(bytes(stats.aliased)),
            temporaries: bytes(stats.temporaries),
            generated_code: bytes(stats.generated_code),
            causes,
            largest,
            ..self
        }
    }

    /// Marks the program as too large, with the compiler's message.
    pub fn too_large(self, message: String) -> Self {
        Self { fits: false, message: Some(message), ..self }
    }

    /// Memory in use between two steps.
    pub fn at_rest(&self) -> u64 {
        self.weights + self.adapters + self.optimizer + self.batch + self.padding
    }
}

/// Memory that a program allocates on a device. The peak that compilers report is not it: every platform allocates the
/// temporaries as one block while a program runs, and the peak counts arguments in host memory too.
fn device_bytes(platform: Platform, stats: &MemoryStats) -> u64 {
    let parts = stats.arguments + stats.outputs - stats.aliased + stats.temporaries;
    let allocated = stats.total_allocation.filter(|&total| total > 0).unwrap_or(parts);
    let code = match platform {
        // Machine code occupies the same memory and is in no other count.
        Platform::Tpu => stats.generated_code,
        Platform::Cpu | Platform::Cuda | Platform::Rocm => 0,
    };
    u64::try_from(allocated + code).unwrap_or(0)
}

/// The largest values, and all values grouped by probable cause.
fn group_by_cause(values: &[ComputedValue]) -> (Vec<LargeValue>, Vec<ProbableCause>) {
    let mut causes: Vec<ProbableCause> = Vec::new();
    for value in values {
        let name = probable_cause(value);
        match causes.iter_mut().find(|known| known.cause == name) {
            Some(known) => {
                known.total_bytes = known.total_bytes.saturating_add(value.bytes);
                known.values += 1;
            }
            None => causes.push(ProbableCause {
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
        op_name: value.op_name.clone(),
        computation: value.computation.clone(),
        cause: probable_cause(value),
        bytes: value.bytes,
    };
    (values.iter().take(LARGEST).map(large).collect(), causes)
}

/// Probable purpose of a value. An opcode is a fact; what a fusion or a library call does is guessed from its name, since
/// compilers name fusions after the operations in them. The place is guessed from the computation's name: loops keep the
/// names that the step gave them.
fn probable_cause(value: &ComputedValue) -> String {
    const PURPOSES: &[(&str, &str)] = &[
        ("all-gather", "a gather of parameters or activations from all devices"),
        ("all-to-all", "an exchange between devices"),
        ("reduce-scatter", "a sum over devices"),
        ("all-reduce", "a sum over devices"),
        ("collective-permute", "an exchange between devices"),
        ("transpose", "a layout copy"),
        ("copy", "a layout copy"),
        ("dynamic-update-slice", "values saved for the backward pass"),
        ("dynamic-slice", "a slice of stacked layers, or a product with it"),
        ("broadcast", "a zero-filled buffer"),
        ("select", "padding, or an update of adapters"),
        ("gemm", "a matrix product with the library's workspace"),
        ("dot", "a matrix product"),
        ("convolution", "a matrix product"),
        ("custom-call", "a library call, such as a matrix product with its workspace"),
    ];
    let purpose =
        |text: &str| PURPOSES.iter().find(|(sign, _)| text.contains(sign)).map(|(_, purpose)| *purpose);
    let name = value.name.replace('_', "-");
    let what = match purpose(&name).or_else(|| purpose(&value.opcode)) {
        Some(purpose) => format!("probably {purpose}"),
        None => value.opcode.clone(),
    };
    let place = match &value.computation {
        name if name.contains("attention") => "in attention",
        name if name.contains("loss") => "in the loss",
        name if name.contains("backward") => "in the backward loop",
        name if name.contains("forward") => "in the forward loop",
        _ => "outside the loops",
    };
    format!("{what}, {place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::DType,
        hlo::Sharding,
        mesh::Dim,
        model::{Param, PartId},
    };

    fn value(name: &str, opcode: &str, computation: &str, bytes: u64) -> ComputedValue {
        let [name, opcode, computation] = [name, opcode, computation].map(str::to_owned);
        ComputedValue { name, opcode, op_name: "forward/layers".into(), computation, bytes }
    }

    fn stats() -> MemoryStats {
        MemoryStats {
            generated_code: 5,
            arguments: 100,
            outputs: 40,
            aliased: 30,
            temporaries: 50,
            host_generated_code: 0,
            host_arguments: 7,
            host_outputs: 0,
            host_aliased: 0,
            host_temporaries: 0,
            peak: 1000,
            total_allocation: Some(161),
        }
    }

    #[test]
    fn a_device_needs_the_total_allocation() {
        assert_eq!(device_bytes(Platform::Rocm, &stats()), 161);
        assert_eq!(device_bytes(Platform::Tpu, &stats()), 166);
        assert_eq!(device_bytes(Platform::Cpu, &MemoryStats { total_allocation: None, ..stats() }), 160);
    }

    #[test]
    fn a_report_sums_the_shards() {
        let target = "cpu:4".parse().unwrap();
        let slot = Slot {
            role: Role::Base(PartId::whole(Param::Embed)),
            dims: vec![(Dim::Vocab, 8), (Dim::Embed, 2)],
            dtype: DType::BF16,
            sharding: Sharding::on_mesh(&[4], &[vec![0], vec![]]),
            memory: MemorySpace::Device,
        };
        let updates = Slot { role: Role::Updates, dims: vec![], dtype: DType::S32, ..slot.clone() };
        let updates = Slot { sharding: Sharding::Replicated, ..updates };
        let on_host = Slot { memory: MemorySpace::Host, ..slot.clone() };
        let report = MemoryReport::of_slots(&target, Some(160), &[slot, updates, on_host]);
        assert_eq!((report.weights, report.optimizer, report.host_bytes, report.fits), (8, 4, 8, true));
        let report = report.compiled(Platform::Rocm, &stats(), &[]);
        assert_eq!((report.padding, report.results, report.host_bytes, report.fits), (87, 10, 8, false));
    }

    #[test]
    fn values_are_grouped_by_probable_cause() {
        let values = [
            value("wrapped_transpose.4", "fusion", "step_spmd", 9),
            value("all-gather-done.5", "async-done", "wide.backward.body_spmd", 5),
            value("all-gather.34.remat", "all-gather", "backward.body_spmd", 4),
            value("fusion.7", "fusion", "forward.body_spmd", 1),
        ];
        let (_, causes) = group_by_cause(&values);
        let texts =
            causes.iter().map(|c| format!("{} {} {} {}", c.largest_bytes, c.total_bytes, c.values, c.cause));
        let expect = [
            "9 9 1 probably a layout copy, outside the loops",
            "5 9 2 probably a gather of parameters or activations from all devices, in the backward loop",
            "1 1 1 fusion, in the forward loop",
        ];
        assert_eq!(texts.collect::<Vec<_>>(), expect);
    }
}
