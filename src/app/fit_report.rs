//! The compiler's memory report of a step on a target, and advice that would make the step fit.

use crate::{
    base::{DType, MemorySpace, Setting},
    runtime::{
        bundle::{MemoryReport, TargetBuild},
        compile_worker::CompileOrigin,
    },
    step::{Remat, StepOptions, Workload},
};

/// A step compiled for a target.
pub struct TargetReport {
    /// The target's entry in the bundle.
    pub build: TargetBuild,
    /// Memory of each device.
    pub report: MemoryReport,
    /// Whether the compiler ran or the result was cached.
    pub origin: CompileOrigin,
}

/// A change that would save memory on each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitAdvice {
    /// A setting to change to a value; the bytes it saves at most, if they are known.
    Set {
        /// The setting.
        setting: Setting,
        /// Its value; `None` for a setting that is on or off.
        value: Option<String>,
        /// The effect, as a verb phrase: "halves the weights".
        effect: &'static str,
        /// Bytes saved on a device at most.
        saves: Option<u64>,
    },
    /// A smaller batch or shorter rows than these.
    SmallerBatch {
        /// Rows of a batch.
        batch: usize,
        /// Tokens of a row.
        seq: usize,
    },
    /// More devices, with a mesh that shards the weights over all of them; at least so many, if that is known.
    ShardWeights {
        /// Devices in all.
        devices: Option<u64>,
    },
    /// More devices, or devices with more memory.
    LargerDevices,
}

/// Changes that would make a step fit, by what takes the memory. The mesh shards a batch into `batch_shards`.
pub fn fit_advice(
    report: &MemoryReport,
    workload: Workload<'_>,
    options: StepOptions,
    batch_shards: usize,
) -> Vec<FitAdvice> {
    let mut advice = Vec::new();
    let Workload { config, dtype, batch, seq, .. } = workload;
    let StepOptions { remat, remat_every, micro_batches, weights, .. } = options;
    let limit = report.limit_bytes.unwrap_or(u64::MAX);
    let set =
        |setting, value: Option<String>, effect, saves| FitAdvice::Set { setting, value, effect, saves };
    if dtype == DType::F32 {
        let value = Some("bfloat16".to_owned());
        advice.push(set(Setting::Dtype, value, "halves the weights", Some(report.weights / 2)));
    }
    if report.temporaries > limit / 10 || report.device_bytes.is_none() {
        let every = (config.num_hidden_layers as f64).sqrt().round();
        if remat_every.is_none() && every > 1.0 {
            let effect = "saves the input of one layer in so many, and takes another forward pass";
            advice.push(set(Setting::RematEvery, Some(every.to_string()), effect, None));
        }
        if remat != Some(Remat::Offload) {
            let effect = "keeps the inputs of layers in host memory";
            advice.push(set(Setting::Remat, Some("offload".to_owned()), effect, None));
        }
        let rows = batch / (batch_shards * micro_batches.get()).max(1);
        if rows > 1 {
            let value = (batch / batch_shards.max(1)).to_string();
            advice.push(set(
                Setting::MicroBatches,
                Some(value),
                "computes one row of each device at a time",
                None,
            ));
        }
        advice.push(FitAdvice::SmallerBatch { batch, seq });
    }
    if report.weights > limit / 4 && weights == MemorySpace::Device {
        let effect = "keeps the layers' matrices in host memory";
        advice.push(set(Setting::OffloadWeights, None, effect, Some(report.weights)));
    }
    if report.weights > limit / 4 {
        let devices = report
            .device_bytes
            .map(|needed| (report.devices as u64).saturating_mul(needed.div_ceil(limit.max(1))));
        advice.push(FitAdvice::ShardWeights { devices });
    }
    if advice.is_empty() {
        advice.push(FitAdvice::LargerDevices);
    }
    advice
}
