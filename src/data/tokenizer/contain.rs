use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread becomes an error, so that a panic hook need not report it.
pub fn panics_are_contained() -> bool {
    CONTAINED.get()
}

/// Runs code of the tokenizers library, which panics on some malformed files. The error is the panic's message.
pub(super) fn contain<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CONTAINED.replace(true);
    // What the closure borrows is used no more after a panic, but for caches that the library guards itself.
    let result = catch_unwind(AssertUnwindSafe(run));
    CONTAINED.set(outer);
    result.map_err(|panic| format!("the tokenizers library fails with: {}", message(&*panic)))
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
        let failed: Result<(), String> = contain(|| {
            assert!(panics_are_contained());
            panic!("no {}", 1)
        });
        assert_eq!(failed.unwrap_err(), "the tokenizers library fails with: no 1");
        assert_eq!(contain(|| 2), Ok(2));
        assert!(!panics_are_contained());
    }
}
