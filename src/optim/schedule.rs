//! The learning rate of each update, computed on the host and handed to the step as an argument.

use std::{f64::consts::PI, fmt, str::FromStr};

use crate::base::did_you_mean;

/// Course of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleKind {
    /// Stays at the peak.
    Constant,
    /// Linear decay to zero at the last step.
    Linear,
    /// Decay along half a cosine wave to zero at the last step.
    Cosine,
}

impl ScheduleKind {
    /// Every kind.
    pub const ALL: [ScheduleKind; 3] = [Self::Constant, Self::Linear, Self::Cosine];

    /// The spelling in run configs and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
        }
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown schedule: {0}")]
pub struct UnknownSchedule(pub String);

impl UnknownSchedule {
    /// The name that was probably meant, else all names.
    pub fn hint(&self) -> Option<String> {
        let names = ScheduleKind::ALL.map(ScheduleKind::name);
        Some(did_you_mean(&self.0, names, "known schedules"))
    }
}

impl FromStr for ScheduleKind {
    type Err = UnknownSchedule;

    fn from_str(text: &str) -> Result<Self, UnknownSchedule> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownSchedule(text.to_owned()))
    }
}

/// Linear warm-up from zero to a peak, then one of the [kinds](ScheduleKind).
///
/// The values are those of transformers' `get_constant_schedule_with_warmup`,
/// `get_linear_schedule_with_warmup` and `get_cosine_schedule_with_warmup` (half a wave).
///
/// ```
/// use hloom::optim::{Schedule, ScheduleKind};
///
/// let schedule = Schedule { kind: ScheduleKind::Linear, peak_lr: 1e-3, warmup_steps: 2, total_steps: 6 };
/// let rates: Vec<f64> = (0..=6).map(|step| schedule.lr(step)).collect();
/// assert_eq!(rates, [0.0, 0.5e-3, 1e-3, 0.75e-3, 0.5e-3, 0.25e-3, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Course after the warm-up.
    pub kind: ScheduleKind,
    /// The learning rate at the end of the warm-up.
    pub peak_lr: f64,
    /// Updates of the warm-up; zero for none. With a warm-up the first update has a learning rate of zero.
    pub warmup_steps: usize,
    /// Updates of the run, warm-up included; a constant schedule ignores it.
    pub total_steps: usize,
}

impl Schedule {
    /// The learning rate of update `step`, counted from zero.
    ///
    /// From `total_steps` on a linear schedule stays at zero; a cosine rises again, as in transformers.
    pub fn lr(&self, step: usize) -> f64 {
        self.peak_lr * self.fraction(step)
    }

    fn fraction(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            return step as f64 / self.warmup_steps as f64;
        }
        let decay_steps = self.total_steps.saturating_sub(self.warmup_steps).max(1) as f64;
        match self.kind {
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Linear => self.total_steps.saturating_sub(step) as f64 / decay_steps,
            ScheduleKind::Cosine => {
                let progress = (step - self.warmup_steps) as f64 / decay_steps;
                (0.5 * (1.0 + (PI * progress).cos())).max(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are what `get_last_lr()` of transformers 5.24 gives before each update.
    fn check(kind: ScheduleKind, peak_lr: f64, warmup_steps: usize, total_steps: usize, expect: &[f64]) {
        let schedule = Schedule { kind, peak_lr, warmup_steps, total_steps };
        for (step, &lr) in expect.iter().enumerate() {
            let got = schedule.lr(step);
            assert!((got - lr).abs() <= 1e-15 * peak_lr, "{kind} step {step}: {got} is not {lr}");
        }
    }

    #[test]
    fn a_constant_schedule_stays_at_the_peak() {
        check(
            ScheduleKind::Constant,
            2e-4,
            3,
            0,
            &[0.0, 6.666666666666667e-05, 0.00013333333333333334, 2e-4, 2e-4],
        );
    }

    #[test]
    fn a_linear_schedule_reaches_zero_and_stays() {
        let expect = [
            0.0,
            6.666666666666667e-05,
            0.00013333333333333334,
            0.0002,
            0.00017142857142857143,
            0.00014285714285714287,
            0.00011428571428571428,
            8.571428571428571e-05,
            5.714285714285714e-05,
            2.857142857142857e-05,
            0.0,
            0.0,
        ];
        check(ScheduleKind::Linear, 2e-4, 3, 10, &expect);
    }

    #[test]
    fn a_cosine_schedule_is_half_a_wave() {
        let expect = [
            0.0,
            0.005,
            0.01,
            0.009330127018922194,
            0.0075,
            0.005,
            0.0025000000000000014,
            0.0006698729810778065,
            0.0,
            0.0006698729810778071,
        ];
        check(ScheduleKind::Cosine, 1e-2, 2, 8, &expect);
        check(ScheduleKind::Cosine, 1.0, 0, 4, &[1.0, 0.8535533905932737, 0.5, 0.14644660940672627, 0.0]);
    }

    #[test]
    fn a_warm_up_longer_than_the_run_does_not_divide_by_zero() {
        check(ScheduleKind::Cosine, 1.0, 5, 3, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.0]);
        check(ScheduleKind::Linear, 1.0, 5, 3, &[0.0, 0.2, 0.4, 0.6, 0.8, 0.0, 0.0]);
        check(ScheduleKind::Linear, 1.0, 0, 0, &[0.0, 0.0]);
    }

    #[test]
    fn every_name_parses_back_and_a_typo_is_reported_with_the_name() {
        for kind in ScheduleKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let typo = "cosin".parse::<ScheduleKind>().unwrap_err();
        assert_eq!(typo.to_string(), "unknown schedule: cosin");
        assert_eq!(typo.hint().as_deref(), Some("did you mean `cosine`?"));
        let other = UnknownSchedule("polynomial".into());
        assert_eq!(other.hint().as_deref(), Some("known schedules: constant, linear, cosine"));
    }
}
