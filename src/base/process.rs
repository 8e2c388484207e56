use std::process::Child;

/// A process that does not outlive its handle.
pub struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // One that has ended is not killed, and waiting for it costs nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
