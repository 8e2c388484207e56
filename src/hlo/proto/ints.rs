//! Conversion between sizes and the integers of protos.

use crate::base::Diagnostic;

/// The integer of a size or an index, which the verifier keeps below 2^60.
pub(super) fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn ints(values: &[usize]) -> Vec<i64> {
    values.iter().copied().map(int).collect()
}

/// The size or index of an integer.
///
/// # Errors
/// A negative integer.
pub(super) fn index(value: i64) -> Result<usize, Diagnostic> {
    usize::try_from(value).map_err(|_| format!("expected a non-negative integer, found {value}").into())
}

pub(super) fn indices(values: &[i64]) -> Result<Vec<usize>, Diagnostic> {
    values.iter().copied().map(index).collect()
}
