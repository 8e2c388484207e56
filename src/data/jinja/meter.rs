//! Limits on the work, memory and depth of a rendering. The counters are local to the rendering thread, so that every
//! function that allocates text or lists can count its allocations.

use std::{cell::Cell, thread};

use super::error::{Error, Result};

/// Longest template, in bytes.
pub(super) const MAX_SOURCE: usize = 1 << 20;

/// Deepest nesting of blocks and expressions in a template.
pub(super) const MAX_NESTING: usize = 150;

/// Deepest nesting of lists and dicts.
pub(super) const MAX_VALUE_DEPTH: usize = 150;

/// Deepest recursion of macros and recursive loops.
pub(super) const MAX_CALLS: usize = 200;

/// Deepest recursion of the interpreter, which bounds its stack.
const MAX_RECURSION: usize = 3_000;

/// Steps of a rendering, and further ones for each byte of template and variables.
const STEPS: u64 = 4_000_000;
const STEPS_PER_BYTE: u64 = 20;

/// Bytes that a rendering may hold, and further ones for each byte of template and variables.
const BYTES: usize = 24 << 20;
const BYTES_PER_BYTE: usize = 64;

/// Bytes of text that cost as much as a step of the interpreter.
const BYTES_PER_STEP: usize = 32;

const STACK: usize = 96 << 20;

#[derive(Default)]
struct Meter {
    steps: Cell<u64>,
    max_steps: Cell<u64>,
    bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    depth: Cell<usize>,
}

thread_local! {
    static METER: Meter = Meter::default();
}

/// Runs `work` on a thread with a stack for the deepest recursion within the limits.
pub(super) fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let worker = worker.map_err(|error| Error::new(format!("no thread to render on: {error}")))?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sets the limits for a template and variables of `input` bytes in total.
pub(super) fn start(input: usize) {
    METER.with(|meter| {
        meter.max_steps.set(STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(input as u64)));
        meter.max_bytes.set(BYTES.saturating_add(BYTES_PER_BYTE.saturating_mul(input)));
    });
}

/// Counts steps of work.
pub(super) fn step(count: usize) -> Result<()> {
    METER.with(|meter| {
        let steps = meter.steps.get().saturating_add(count as u64);
        meter.steps.set(steps);
        let limit = meter.max_steps.get();
        if steps > limit {
            return Err(Error::new(format!("the template runs for more than {limit} steps")));
        }
        Ok(())
    })
}

/// Counts the work of reading `bytes` of text.
pub(super) fn read(bytes: usize) -> Result<()> {
    step(1 + bytes / BYTES_PER_STEP)
}

/// Runs `work` one level deeper.
pub(super) fn deeper<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let depth = METER.with(|meter| meter.depth.replace(meter.depth.get() + 1));
    let result = if depth < MAX_RECURSION {
        work()
    } else {
        Err(Error::new(format!("the template recurses deeper than {MAX_RECURSION} levels")))
    };
    METER.with(|meter| meter.depth.set(depth));
    result
}

/// Memory counted for a value, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Charge(usize);

impl Charge {
    /// Counts `bytes`.
    pub(super) fn of(bytes: usize) -> Result<Self> {
        let mut charge = Self::default();
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Counts further `bytes`.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<()> {
        METER.with(|meter| {
            let held = meter.bytes.get().saturating_add(bytes);
            let limit = meter.max_bytes.get();
            if held > limit {
                return Err(Error::new(format!(
                    "the template holds more than {limit} bytes of text and lists"
                )));
            }
            meter.bytes.set(held);
            self.0 += bytes;
            Ok(())
        })?;
        read(bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.0 > 0 {
            // Values of the thread itself may be dropped after its meter.
            let _ = METER.try_with(|meter| meter.bytes.set(meter.bytes.get().saturating_sub(self.0)));
        }
    }
}

/// A text that grows within the limits.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    charge: Charge,
}

impl Writer {
    /// Appends `text`.
    pub(super) fn push(&mut self, text: &str) -> Result<()> {
        self.charge.grow(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Appends a character.
    pub(super) fn push_char(&mut self, c: char) -> Result<()> {
        self.push(c.encode_utf8(&mut [0; 4]))
    }

    /// Appends `count` times `text`.
    pub(super) fn repeat(&mut self, text: &str, count: usize) -> Result<()> {
        self.charge.grow(text.len().saturating_mul(count))?;
        self.text.extend(std::iter::repeat_n(text, count));
        Ok(())
    }

    /// Number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text and the charge for its memory.
    pub(super) fn into_parts(self) -> (String, Charge) {
        (self.text, self.charge)
    }
}
