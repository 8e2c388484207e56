use std::process::Child;

/// A child process that is killed and waited for when its handle is dropped.
pub(crate) struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both fail harmlessly if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
