use crate::base::{Diagnostic, Diagnostics, Location};

/// An error at a field of a `LoraConfig`.
pub(super) fn field_error(field: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Location::default().at(field), message)
}

/// Adds an error at a field of a `LoraConfig`.
pub(super) fn report(diagnostics: &mut Diagnostics, field: &str, message: impl Into<String>) {
    diagnostics.push(field_error(field, message));
}
