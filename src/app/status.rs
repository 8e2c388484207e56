use crate::store::Silent;

/// Receives messages about the progress of the application, for a person to read. [`Silent`] ignores them.
pub trait Status {
    /// A line of text.
    fn line(&mut self, text: &str);

    /// A warning, which is shown even where progress is not.
    fn warning(&mut self, text: &str);

    /// A phase of unknown length begins.
    fn phase(&mut self, name: &str);

    /// Bytes of `name`, such as a package, have been fetched or converted, of `total` if that is known.
    fn fetched(&mut self, name: &str, bytes: u64, total: Option<u64>);

    /// The phase or the download has ended.
    fn done(&mut self);
}

impl Status for Silent {
    fn line(&mut self, _: &str) {}
    fn warning(&mut self, _: &str) {}
    fn phase(&mut self, _: &str) {}
    fn fetched(&mut self, _: &str, _: u64, _: Option<u64>) {}
    fn done(&mut self) {}
}
