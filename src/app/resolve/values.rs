//! Checks of numbers.

use std::num::NonZeroUsize;

use crate::{app::AppError, base::Setting, train::TrainError};

pub(super) fn at_least_one(setting: Setting, found: usize) -> Result<NonZeroUsize, AppError> {
    NonZeroUsize::new(found).ok_or_else(|| wrong(setting, "expected at least 1, found: 0".into()))
}

pub(super) fn positive(setting: Setting, found: f64) -> Result<f64, AppError> {
    if found.is_finite() && found > 0.0 {
        return Ok(found);
    }
    Err(wrong(setting, format!("expected a finite number above zero, found: {found}")))
}

pub(super) fn fraction(setting: Setting, found: f64) -> Result<f64, AppError> {
    if (0.0..1.0).contains(&found) {
        return Ok(found);
    }
    Err(wrong(setting, format!("expected a number from 0 to below 1, found: {found}")))
}

/// The error for a setting with a problem.
pub(super) fn wrong(setting: Setting, problem: String) -> AppError {
    AppError::Train(TrainError::Setting { setting, problem, hint: None })
}
