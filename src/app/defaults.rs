//! Default values of settings, and their descriptions in help texts.

use crate::{base::Setting, model::nn::Attention, optim::AdamW};

pub(super) const QUICKSTART_STEPS: usize = 60;
pub(super) const QUICKSTART_SEQ: usize = 128;
pub(super) const SEQ: usize = 512;
pub(super) const BATCH: usize = 4;
pub(super) const ACCUMULATE: usize = 1;
pub(super) const LR: f64 = 1e-3;
pub(super) const WARMUP: usize = 5;
pub(super) const RANK: usize = 8;
pub(super) const ALPHA: f64 = 16.0;
pub(super) const WEIGHT_DECAY: f64 = 0.0;
pub(super) const MAX_GRAD_NORM: f64 = 1.0;
pub(super) const SAVE_EVERY: usize = 100;
pub(super) const OUT: &str = "out";
/// Seconds that a plugin may take to start.
pub(crate) const START_SECONDS: f64 = 120.0;
/// One sample of this many is held out.
pub(super) const SAMPLES_PER_HELD_OUT: usize = 20;
pub(super) const MAX_HELD_OUT: usize = 64;
/// The quick start's model, which the store can fetch; also the name of a built-in config.
pub(super) const MODEL: &str = "smollm2-135m";

/// Describes the default of a setting for its help text; `None` if it has none.
pub(crate) fn describe(setting: Setting) -> Option<String> {
    let AdamW { beta1, beta2, eps, .. } = AdamW::default();
    Some(match setting {
        Setting::Model => MODEL.to_owned(),
        Setting::Data => "the conversations of the quick start".to_owned(),
        Setting::HeldOut => format!(
            "16 in the quick start; else 1 of {SAMPLES_PER_HELD_OUT}, at most {MAX_HELD_OUT}, chosen by the seed"
        ),
        Setting::Question => "one in the quick start, else none".to_owned(),
        Setting::Steps => format!("{QUICKSTART_STEPS} in the quick start, else one epoch"),
        Setting::Batch => format!("{BATCH}, rounded up to a multiple of the number of batch shards"),
        Setting::Seq => format!("{QUICKSTART_SEQ} in the quick start, else {SEQ}"),
        Setting::Accumulate => ACCUMULATE.to_string(),
        Setting::Lr => format!("{LR:e}"),
        Setting::Schedule => "cosine".to_owned(),
        Setting::Warmup => format!("{WARMUP}, or a tenth of a shorter run"),
        Setting::Dtype => "the model's own type; float32 where all targets are CPUs".to_owned(),
        Setting::Seed => "0".to_owned(),
        Setting::Rank => RANK.to_string(),
        Setting::Alpha => ALPHA.to_string(),
        Setting::Targets => "all-linear".to_owned(),
        Setting::Target => "cpu, with as many devices as the mesh has".to_owned(),
        Setting::MemoryFraction => "the plugin's, usually 0.75".to_owned(),
        Setting::Preallocate => "the plugin's, usually true".to_owned(),
        Setting::Plugin => "the one in the store".to_owned(),
        Setting::Timeout => START_SECONDS.to_string(),
        Setting::Out => format!("the first of {OUT}, {OUT}-2, {OUT}-3 ... without an adapter"),
        Setting::SaveEvery => SAVE_EVERY.to_string(),
        Setting::WeightDecay => WEIGHT_DECAY.to_string(),
        Setting::Beta1 => beta1.to_string(),
        Setting::Beta2 => beta2.to_string(),
        Setting::Eps => format!("{eps:e}"),
        Setting::MaxGradNorm => MAX_GRAD_NORM.to_string(),
        Setting::Attention => {
            format!("dense for rows of up to {} tokens, else blocks", Attention::LONGEST_DENSE)
        }
        Setting::AttentionBlock => Attention::BLOCK.to_string(),
        Setting::LossChunk => "as many as fit in 128 MiB on a device".to_owned(),
        Setting::Remat => "dots if that saves at most 1 GiB on a device, else full".to_owned(),
        Setting::MicroBatches => "1".to_owned(),
        _ => return None,
    })
}
