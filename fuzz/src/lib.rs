//! Fuzz targets for everything that reads a user's file, as ordinary functions from bytes.
//!
//! A target must neither panic nor hang nor take far more memory than its input is long. What it reads without an error must
//! survive the round trips that [`oracle`] lists.

mod files;
pub mod model;
pub mod oracle;
pub mod targets;

use std::{alloc::System, panic, process, sync::Once};

use cap::Cap;

pub use files::Files;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes of live allocation that any input may take.
const BASE_BYTES: usize = 64 << 20;

/// Bytes of live allocation for each byte of input.
const BYTES_PER_INPUT_BYTE: usize = 200;

/// Runs `target` on `input` under the memory limit. A request beyond it aborts with `memory allocation of N bytes failed`, and
/// so does a panic that the library does not catch itself.
pub fn run(target: fn(&[u8]), input: &[u8]) {
    static HOOK: Once = Once::new();
    // The fuzzer's own hook aborts on panics that are caught, too.
    HOOK.call_once(|| drop(panic::take_hook()));
    let limit = ALLOCATOR.allocated() + BASE_BYTES + BYTES_PER_INPUT_BYTE * input.len();
    ALLOCATOR.set_limit(limit).expect("the limit is above what is allocated");
    if panic::catch_unwind(|| target(input)).is_err() {
        process::abort();
    }
    ALLOCATOR.set_limit(usize::MAX).expect("no limit");
}
