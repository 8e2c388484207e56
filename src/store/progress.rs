/// Observer of an installation.
pub trait Progress {
    /// Reports `done` of `total` bytes of a task `what`, such as `downloading libtpu 0.0.52`; `total` is `None` if unknown.
    /// Called several times a second.
    fn report(&mut self, what: &str, done: u64, total: Option<u64>);
}

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&mut self, _: &str, _: u64, _: Option<u64>) {}
}

impl<F: FnMut(&str, u64, Option<u64>)> Progress for F {
    fn report(&mut self, what: &str, done: u64, total: Option<u64>) {
        self(what, done, total);
    }
}
