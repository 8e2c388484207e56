use serde::{Deserialize, Serialize};

use crate::{
    base::MemorySpace,
    hlo::proto::ComputedValue,
    pjrt::MemoryStats,
    step::{Role, Slot},
    targets::{Platform, Target},
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
    /// What lies in the host's memory for a device, and is in none of the counts below; on the CPU, what was to.
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
                _ if slot.memory == MemorySpace::Host => &mut report.host_bytes,
                Role::Base(_) => &mut report.weights,
                Role::Adapter(_) => &mut report.adapters,
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

    /// The same with what the compiler counted, and the values that its program computes, largest first.
    pub fn compiled(self, platform: Platform, stats: &MemoryStats, values: &[ComputedValue]) -> Self {
        let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
        let device_bytes = device_bytes(platform, stats);
        // On the CPU there is no other memory than the host's, and its compiler counts all in the first of these.
        let at_rest = self.at_rest() + self.host_bytes;
        let arguments = bytes(stats.arguments) + bytes(stats.host_arguments);
        let (largest, causes) = bill(values);
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

    /// The same for a program that the compiler gave up on for lack of memory.
    pub fn too_large(self, message: String) -> Self {
        Self { fits: false, message: Some(message), ..self }
    }

    /// What it holds between two steps.
    pub fn at_rest(&self) -> u64 {
        self.weights + self.adapters + self.optimizer + self.batch + self.padding
    }
}

/// What a device must have: all that is allocated in its memory. Every platform takes the temporaries of a program as one
/// block for as long as it runs, so their peak, which leaves out what lies unused for a while, is not enough; and where
/// arguments lie in the host's memory the peak counts them too.
fn device_bytes(platform: Platform, stats: &MemoryStats) -> u64 {
    let parts = stats.arguments + stats.outputs - stats.aliased + stats.temporaries;
    let allocated = stats.total_allocation.filter(|&total| total > 0).unwrap_or(parts);
    let code = match platform {
        // The instructions lie beside the data, and are in no other count.
        Platform::Tpu => stats.generated_code,
        Platform::Cpu | Platform::Cuda | Platform::Rocm => 0,
    };
    u64::try_from(allocated + code).unwrap_or(0)
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

/// What a value is for, as far as the names of its instruction and of the computation around it tell: compilers give fusions
/// the names of what they do, and loops keep the names that the step gave them.
fn cause(value: &ComputedValue) -> String {
    const SIGNS: &[(&str, &str)] = &[
        ("all-gather", "parameters or activations gathered from all devices"),
        ("all-to-all", "exchange between devices"),
        ("reduce-scatter", "sum over devices"),
        ("all-reduce", "sum over devices"),
        ("collective-permute", "exchange between devices"),
        ("transpose", "copy in another layout"),
        ("copy", "copy in another layout"),
        ("dynamic-update-slice", "values saved for the backward pass"),
        ("dynamic-slice", "part of a stack, or a product with it"),
        ("broadcast", "zeros to be filled"),
        ("select", "padding or update of the adapters"),
        ("gemm", "matrix product, with the library's workspace"),
        ("dot", "matrix product"),
        ("convolution", "matrix product"),
        ("custom-call", "call of a library, such as a matrix product with its workspace"),
    ];
    let name = value.name.replace('_', "-");
    let sign = |text: &str| SIGNS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, cause)| *cause);
    let what = sign(&name).or_else(|| sign(&value.opcode)).unwrap_or(&value.opcode);
    let place = match &value.computation {
        name if name.contains("attention") => "in attention",
        name if name.contains("loss") => "in the loss",
        name if name.contains("backward") => "in the backward loop",
        name if name.contains("forward") => "in the forward loop",
        _ => "outside of the loops",
    };
    format!("{what}, {place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::DType, hlo::Sharding, mesh::Dim, model::Param};

    fn value(name: &str, opcode: &str, computation: &str, bytes: u64) -> ComputedValue {
        let [name, opcode, computation] = [name, opcode, computation].map(str::to_owned);
        ComputedValue { name, opcode, computation, bytes }
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
    fn a_device_needs_all_that_is_allocated() {
        assert_eq!(device_bytes(Platform::Rocm, &stats()), 161);
        assert_eq!(device_bytes(Platform::Tpu, &stats()), 166);
        assert_eq!(device_bytes(Platform::Cpu, &MemoryStats { total_allocation: None, ..stats() }), 160);
    }

    #[test]
    fn a_report_adds_up_the_shards() {
        let target = "cpu:4".parse().unwrap();
        let slot = Slot {
            role: Role::Base(Param::Embed),
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
    fn values_are_billed_by_what_they_are_for() {
        let values = [
            value("wrapped_transpose.4", "fusion", "step_spmd", 9),
            value("all-gather-done.5", "async-done", "wide.backward.body_spmd", 5),
            value("all-gather.34.remat", "all-gather", "backward.body_spmd", 4),
            value("fusion.7", "fusion", "forward.body_spmd", 1),
        ];
        let (_, causes) = bill(&values);
        let texts =
            causes.iter().map(|c| format!("{} {} {} {}", c.largest_bytes, c.total_bytes, c.values, c.cause));
        let expect = [
            "9 9 1 copy in another layout, outside of the loops",
            "5 9 2 parameters or activations gathered from all devices, in the backward loop",
            "1 1 1 fusion, in the forward loop",
        ];
        assert_eq!(texts.collect::<Vec<_>>(), expect);
    }
}
