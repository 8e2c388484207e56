use super::values::{at_least_one, fraction, positive, wrong};
use crate::{
    app::{AppError, defaults, settings::Settings},
    base::Setting,
    optim::{AdamW, Schedule, ScheduleKind},
    train::TrainError,
};

/// The optimizer.
///
/// # Errors
/// If a number is out of range.
pub fn optimizer(settings: &Settings) -> Result<AdamW, AppError> {
    let AdamW { beta1, beta2, eps, .. } = AdamW::default();
    let weight_decay = settings.weight_decay.unwrap_or(defaults::WEIGHT_DECAY);
    if !(weight_decay.is_finite() && weight_decay >= 0.0) {
        return Err(wrong(Setting::WeightDecay, format!("expected zero or more, found: {weight_decay}")));
    }
    Ok(AdamW {
        beta1: fraction(Setting::Beta1, settings.beta1.unwrap_or(beta1))?,
        beta2: fraction(Setting::Beta2, settings.beta2.unwrap_or(beta2))?,
        eps: positive(Setting::Eps, settings.eps.unwrap_or(eps))?,
        weight_decay,
    })
}

/// The global norm that gradients are clipped to; infinity disables clipping.
///
/// # Errors
/// If it is not above zero.
pub fn max_grad_norm(settings: &Settings) -> Result<f64, AppError> {
    let norm = settings.max_grad_norm.unwrap_or(defaults::MAX_GRAD_NORM);
    if norm > 0.0 {
        return Ok(norm);
    }
    Err(AppError::Train(TrainError::Setting {
        setting: Setting::MaxGradNorm,
        problem: format!("expected a number above zero, found: {norm}"),
        hint: Some(format!("{} disables clipping", Setting::MaxGradNorm.with("inf"))),
    }))
}

/// The learning rate schedule of a run; `updates_per_epoch` is the number of updates in an epoch.
///
/// # Errors
/// If there are no updates, or the rate is not a positive number.
pub fn schedule(settings: &Settings, updates_per_epoch: usize) -> Result<Schedule, AppError> {
    let quick_start = settings.data.is_none();
    let steps = if quick_start { defaults::QUICKSTART_STEPS } else { updates_per_epoch.max(1) };
    let steps = at_least_one(Setting::Steps, settings.steps.unwrap_or(steps))?.get();
    Ok(Schedule {
        kind: settings.schedule.as_ref().map_or(ScheduleKind::Cosine, |word| word.0),
        peak_lr: positive(Setting::Lr, settings.lr.unwrap_or(defaults::LR))?,
        warmup_steps: settings.warmup.unwrap_or(defaults::WARMUP.min(steps / 10)),
        total_steps: steps,
    })
}
