use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::base::Diagnostic;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread is turned into an error, so that a panic hook must not report it.
pub fn panics_are_contained() -> bool {
    CONTAINED.get()
}

/// Runs code of the tokenizers library, which panics on some malformed files.
///
/// # Errors
/// The message of the panic.
pub(super) fn contain<T>(run: impl FnOnce() -> T) -> Result<T, Diagnostic> {
    let outer = CONTAINED.replace(true);
    // After a panic, nothing that the closure borrows is used, except caches that the library itself guards.
    let result = catch_unwind(AssertUnwindSafe(run));
    CONTAINED.set(outer);
    result.map_err(|panic| format!("the tokenizers library fails with: {}", message(&*panic)).into())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let failed: Result<(), Diagnostic> = contain(|| {
            assert!(panics_are_contained());
            panic!("no {}", 1)
        });
        assert_eq!(failed.unwrap_err().message, "the tokenizers library fails with: no 1");
        assert_eq!(contain(|| 2), Ok(2));
        assert!(!panics_are_contained());
    }
}
