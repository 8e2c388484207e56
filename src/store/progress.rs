/// Hears how an installation comes along.
pub trait Progress {
    /// `done` bytes of `what`, such as `downloading libtpu 0.0.52`, out of `total`, where that is known. Called
    /// several times a second.
    fn report(&mut self, what: &str, done: u64, total: Option<u64>);
}

/// Hears nothing.
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
